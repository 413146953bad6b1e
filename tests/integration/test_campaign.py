"""The small fault campaign, run as a user runs it: every fault has an expected outcome.

It also tests the pipeline's guards on a real table, and the judge itself: a planted loss must make
the command exit with status 1.
"""

import json

import psutil
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from instance import Instance, instance_of_this_run
from own_lab import allowed, not_here

from lab_env.lab.faults.full_disk import small_store
from lab_env.lab.handle import reset_lesson
from lab_env.lessons.recorded.campaign_plan import make_plan
from lab_env.platform import store

pytestmark = pytest.mark.services
PROCESSOR_SECONDS = 400  # services apart; beside other tests half as many again


@pytest.fixture(scope="module")
def running(services):
    yield instance_of_this_run()
    reset_lesson("campaign")


def results(running: Instance, folder: str = "17-small") -> dict[str, dict]:
    files = sorted((running.home / "campaign" / folder).glob("case-*.json"))
    return {entry["case"]: entry for file in files for entry in [json.loads(file.read_text())]}


def used_by_children() -> float:
    times = psutil.Process().cpu_times()
    return times.children_user + times.children_system


@pytest.mark.proof("campaign")
def test_the_small_campaign_survives_every_fault_that_hudi_and_spark_claim_to_survive(running):
    before = used_by_children()
    done = running.lab("campaign", "--size", "small", timeout=allowed(900))
    own = used_by_children() - before
    assert done.returncode == 0, done.stdout + done.stderr
    found = results(running)
    assert list(found) == [case.id for case in make_plan(17, "small")]
    for case in make_plan(17, "small"):
        if case.fault == "kill":  # each came down where it was aimed at
            assert found[case.id]["landed"] == f"{case.when} {case.point}", found[case.id]
    assert [result["outcome"] for result in found.values()] == [
        *("survived", "survived", "guarded", "survived", "survived"),
        *("survived", "survived", "loud", "survived", "guarded"),
        *("survived", "survived", "guarded", "survived", "guarded", "loud", "guarded"),
    ]
    # The damaged log: at least one reader shows old rows without an error, and the check finds it.
    readers = found["003"]["readers"]
    assert not readers["hudi-rs"].startswith("error"), readers
    assert readers["check of the files"].startswith("found: ")
    assert found["008"]["readers"]["hudi-rs"].startswith("error: ")
    # A bit that changed: hudi-rs shows another value, Spark does not, and the check finds it.
    assert found["015"]["readers"]["hudi-rs"].startswith("wrong: "), found["015"]
    assert found["015"]["readers"]["Spark"].startswith("error: "), found["015"]
    assert "has batch" in found["010"]["evidence"]["said"]
    files = sorted((running.home / "campaign" / "17-small").glob("group-*.json"))
    groups = [json.loads(file.read_text()) for file in files]
    assert len(groups) == 2
    for facts in groups:
        assert {judged["ok"] for judged in facts["spark"].values()} == {True}
        assert len(facts["judge"]) == 4 and all(facts["judge"].values())
        for views in facts["seen"].values():
            assert views["wrong"] == [] and views["reads"] > 2 * views["errors"] > -1, facts
    assert "18 of 18 cases have run" in (files[0].parent / "index.html").read_text()
    seconds = own + sum(facts["processor_seconds"] for facts in groups)
    print(f"{seconds:.0f} processor seconds: {own:.0f} the command, the others its writers")
    assert seconds < 1.5 * PROCESSOR_SECONDS


def test_a_planted_loss_ends_the_command_with_status_1(running):
    done = running.lab("campaign", "--case", "planted")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 NOT AS EXPECTED" in done.stdout
    (result,) = results(running, "17-planted").values()
    assert result["outcome"] == "wrong"
    assert {entry["counts"]["missing"] for entry in result["evidence"]["wrong"].values()} == {1}
    page = (running.home / "campaign" / "17-planted" / "index.html").read_text()
    assert "Some results are not as expected" in page and "planted" in page and "--times 3" in page
    assert "X-ray of cow" in page and 'class="xray"' in page


def test_a_store_on_a_small_disk_refuses_writes_until_there_is_room_and_goes_without_a_trace(
    services,
):
    with small_store(services, megabytes=64) as small:
        if small is None:
            not_here("this machine allows no tmpfs in a namespace: campaigns answer 507 instead")
        client, bucket = store.client(small.endpoints), small.endpoints.bucket
        assert 40e6 < small.fill() < 68e6
        with pytest.raises(ClientError) as refused:
            client.put_object(Bucket=bucket, Key="k", Body=b"x" * 100_000)
        assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 507
        small.make_room()
        client.put_object(Bucket=bucket, Key="k", Body=b"x" * 100_000)
    with pytest.raises(EndpointConnectionError):
        client.list_objects_v2(Bucket=bucket)
    assert list(store.list_objects(services, "k")) == []
