"""The pipeline on versitygw, an S3 server that shares no code with MinIO.

The lab starts it in MinIO's place; Prometheus's way of building a pinned Go module builds it.
"""

import json
import os
from pathlib import Path

import psutil
import pytest
from instance import Instance
from own_lab import lab_environment
from test_services import forged_put

from lab_env.platform.install.cache import cache_lock
from lab_env.platform.install.go_build import build_program, built_program

pytestmark = pytest.mark.services

LAUNCHER = Path(__file__).with_name("versitygw.sh")
PROGRAM = built_program("versitygw")


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    """A lab whose object store is versitygw."""
    with cache_lock():
        build_program("versitygw")
    home = tmp_path_factory.mktemp("second-store") / "a lab"
    one = Instance(home, lab_environment(home) | {"LAB_MINIO_BINARY": str(LAUNCHER)})
    one.environment["PATH"] = f"{PROGRAM.parent}:{os.environ['PATH']}"
    try:
        yield one
    finally:
        one.down()


def test_a_tour_on_versitygw_equals_its_ledger(instance):
    done = instance.lab("tour", "--seconds", "10")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((instance.home / "tour" / "report.json").read_text())
    assert report["events_acked"] > 4_000 and report["problems"] == []
    for sink in ("json", "cow", "mor"):
        facts = report["sinks"][sink]
        assert facts["ok"] and facts["rows"] == facts["expected"] > 1_000, facts


def test_the_tour_s_tables_are_files_of_versitygw(instance):
    stores = [p for p in instance.processes() if p.exe() == str(PROGRAM)]
    assert len(stores) == 1
    assert not any(p.name() == "minio" for p in instance.processes())
    tables = instance.home / "minio" / "versitygw" / "lakehouse" / "tour"
    assert list(tables.glob("*/.hoodie/timeline/*.deltacommit"))


def test_versitygw_refuses_the_forged_upload_that_minio_accepts(instance):
    access, _ = instance.store_keys()
    assert forged_put(instance.address("minio"), access) == 403
