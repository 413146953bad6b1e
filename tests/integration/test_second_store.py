"""The pipeline on VersityGW, an S3 server that has nothing in common with MinIO.

The lab starts it in MinIO's place. Its tables are plain files, so the test can look at them.
"""

import json
import os
from pathlib import Path

import pytest
from instance import Instance
from own_lab import allowed, lab_environment
from test_services import forged_put

from lab_env.platform.install.go_build import built_program

pytestmark = [
    pytest.mark.services,
    pytest.mark.proof("store"),
    # The build takes minutes; the workflow `platforms.yml` builds it and runs this.
    pytest.mark.skipif(
        not built_program("versitygw").exists(), reason="VersityGW has not been built here"
    ),
]

LAUNCHER = Path(__file__).with_name("versitygw.sh")


@pytest.fixture(scope="module")
def instance(tmp_path_factory):
    """A lab whose object store is VersityGW."""
    home = tmp_path_factory.mktemp("second-store") / "a lab"
    one = Instance(home, lab_environment(home) | {"LAB_MINIO_BINARY": str(LAUNCHER)})
    one.environment["PATH"] = f"{built_program('versitygw').parent}:{os.environ['PATH']}"
    try:
        yield one
    finally:
        one.down()


def test_a_tour_on_versitygw_equals_its_ledger(instance):
    done = instance.lab("tour", "--seconds", "5", timeout=allowed(240))
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((instance.home / "tour" / "report.json").read_text())
    assert report["events_acked"] > 2_000 and report["problems"] == []
    for sink in ("json", "cow", "mor"):
        facts = report["sinks"][sink]
        assert facts["ok"] and facts["rows"] == facts["expected"] > 1_000, facts
    programs = [process.exe() for process in instance.processes()]
    assert programs.count(str(built_program("versitygw"))) == 1
    tables = instance.home / "minio" / "versitygw" / "lakehouse" / "tour"
    assert list(tables.glob("*/.hoodie/timeline/*.deltacommit"))


def test_versitygw_refuses_a_forged_upload_that_minio_accepts(instance):
    instance.up()
    access, _ = instance.store_keys()
    assert forged_put(instance.address("minio"), access) == 403
