"""The part of set-up that needs `.venv`: Java, the jars, and the programs of each service."""

import time

from lab_env.platform.install.bootstrap import disk_used
from lab_env.platform.install.cache import Progress, cache, cache_lock, clear_partial
from lab_env.platform.install.cds_archive import make_cds_archive
from lab_env.platform.install.jars import check_unpacked_jars, fetch_jars
from lab_env.platform.install.java import have_java
from lab_env.platform.install.wheels import drop_build_leftovers, fetch_reveal
from lab_env.platform.processes.system import check_user
from lab_env.platform.services import SERVICES


def set_up(report_progress: Progress, since: float | None = None, before: int | None = None) -> str:
    """Fetch and build everything that the cache lacks, except what is fetched on demand.

    If set-up began before this call, `since` is its start (seconds since 1970) and `before` the
    cache's bytes at that time. Return a summary: seconds taken, megabytes added, size of the cache.
    """
    check_user()
    started = since or time.time()
    with cache_lock(report_progress):
        before = disk_used(cache()) if before is None else before
        drop_build_leftovers()
        have_java(report_progress)
        fetch_jars("spark", report_progress)
        fetch_reveal(report_progress)
        for service in SERVICES.values():
            if not (service.external or service.fetched_on_demand):
                service.fetch(report_progress)
        check_unpacked_jars()
        drop_build_leftovers()
        make_cds_archive("lab_env.pipeline.first_session", report_progress)
        clear_partial()
        size = disk_used(cache())
    return (
        f"Set-up is complete: {time.time() - started:.1f} s,"
        f" {max(0, size - before) / 1e6:.0f} MB added.\n{size / 1e6:.0f} MB are in {cache()}."
    )
