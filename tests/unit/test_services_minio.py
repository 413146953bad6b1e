"""The choice of a MinIO program, its trial as a store, and the creation of its bucket."""

import os
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from lab_env.platform.errors import LabError
from lab_env.platform.install.go_build import built_program
from lab_env.platform.services import minio, minio_program
from lab_env.platform.services.minio_program import MinioProgram


def program(path: Path, release: str) -> Path:
    """Create a program that reports itself as a release of MinIO; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho minio version {release}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def built(tmp_path, monkeypatch, configure) -> Path:
    """A machine whose only MinIO is the one that set-up built; returns its path."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("LAB_MINIO_BINARY", raising=False)
    configure(cache=tmp_path / "cache")
    return program(built_program("minio"), "DEVELOPMENT.GOGET")


@pytest.fixture
def works(monkeypatch) -> list[Path]:
    """Make every program pass its trial; returns the list of programs that were tried."""
    tried = []
    monkeypatch.setattr(minio_program, "_failure", lambda path: tried.append(path) or "")
    return tried


@pytest.mark.parametrize(
    "release", ["RELEASE.2025-10-15T17-29-55Z", "RELEASE.2026-01-02T00-00-00Z"]
)
def test_a_new_minio_on_path_that_works_comes_first(built, works, tmp_path, release):
    own = program(tmp_path / "bin" / "minio", release)
    assert minio_program.find_minio() == MinioProgram(own, "PATH")


@pytest.mark.parametrize("release", ["RELEASE.2025-09-07T16-13-09Z", "DEVELOPMENT.GOGET", ""])
def test_an_older_or_nameless_minio_on_path_is_passed_over(built, works, tmp_path, release):
    program(tmp_path / "bin" / "minio", release)
    assert minio_program.find_minio() == MinioProgram(built, "set-up")


def test_a_minio_on_path_that_does_not_serve_is_not_used_and_the_doctor_says_why(built, tmp_path):
    own = program(tmp_path / "bin" / "minio", "RELEASE.2026-01-02T00-00-00Z")
    assert minio_program.find_minio() == MinioProgram(built, "set-up")
    warning, used = minio.MinIO().diagnose()
    assert (warning.verdict, used.verdict) == ("warn", "ok")
    assert f"{own}, found on PATH, is not used: it exits immediately" in warning.fact
    assert "from set-up" in used.fact


def test_a_minio_on_path_is_tried_once_until_it_changes(built, works, tmp_path):
    own = program(tmp_path / "bin" / "minio", "RELEASE.2026-01-02T00-00-00Z")
    for _ in range(3):
        minio_program.find_minio()
    assert works == [own]
    os.utime(own, (1, 1))
    minio_program.find_minio()
    assert works == [own, own]


def test_only_the_doctor_tries_one_again_that_failed(built, tmp_path, monkeypatch):
    own = program(tmp_path / "bin" / "minio", "RELEASE.2026-01-02T00-00-00Z")
    answers = ["it does not answer within 20 s", ""]
    monkeypatch.setattr(minio_program, "_failure", lambda path: answers.pop(0))
    assert minio_program.objection(own) == minio_program.objection(own) != ""
    assert [finding.verdict for finding in minio.MinIO().diagnose()] == ["ok"]
    assert minio_program.find_minio() == MinioProgram(own, "PATH")


def test_without_any_there_is_none(built):
    built.unlink()
    assert minio_program.find_minio() is None


def test_a_minio_by_setting_wins(built, tmp_path, configure):
    program(tmp_path / "bin" / "minio", "RELEASE.2026-01-02T00-00-00Z")
    fork = program(tmp_path / "fork", "mine")
    configure(minio_binary=fork)
    assert minio_program.find_minio() == MinioProgram(fork, "LAB_MINIO_BINARY")
    (finding,) = minio.MinIO().diagnose()
    assert f"mine from LAB_MINIO_BINARY ({fork})" in finding.fact
    fork.chmod(0o644)
    with pytest.raises(LabError, match="is not a program"):
        minio_program.find_minio()


class Store:
    """Stand-in for an object store's client.

    Args:
        lists: list the objects that were written.
        refuses: HTTP status of a second write of an object; None to overwrite it.
    """

    def __init__(self, lists: bool = True, refuses: int | None = 412):
        self.lists, self.refuses, self.keys = lists, refuses, []

    def put_object(self, Bucket, Key, Body, IfNoneMatch):
        if self.refuses and Key in self.keys:
            answer = {"Error": {}, "ResponseMetadata": {"HTTPStatusCode": self.refuses}}
            raise ClientError(answer, "PutObject")
        self.keys.append(Key)

    def list_objects_v2(self, Bucket):
        return {"Contents": [{"Key": key} for key in self.keys if self.lists]}


@pytest.mark.parametrize(
    ("store", "wrong"),
    [
        (Store(), ""),
        (Store(lists=False), "does not list"),
        (Store(refuses=None), "ignores If-None-Match and overwrites"),
        (Store(refuses=501), "fails at a conditional write"),
    ],
)
def test_a_store_must_write_list_and_refuse_to_overwrite(store, wrong):
    found = minio_program._wrong_answer(store)
    assert wrong in found and bool(found) == bool(wrong)


def test_the_minio_that_set_up_built_passes_the_trial():
    built = built_program("minio")
    if not built.exists():
        pytest.skip("set-up has built no MinIO: this machine has its own")
    assert minio_program._failure(built) == ""


def test_a_minio_that_starts_is_tried_as_a_store(monkeypatch):
    monkeypatch.setattr(minio_program, "_wait_for_bucket", lambda process, client: "")
    monkeypatch.setattr(minio_program, "_wrong_answer", lambda client: "it loses what it is given")
    assert minio_program._failure(Path("/bin/true")) == "it loses what it is given"


def test_a_bucket_outside_the_first_region_is_made_with_its_place():
    assert minio._location("us-east-1") == {}
    assert minio._location("eu-central-1") == {
        "CreateBucketConfiguration": {"LocationConstraint": "eu-central-1"}
    }
