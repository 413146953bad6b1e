"""Which MinIO runs, and how its bucket is made."""

from pathlib import Path

import pytest

from lab_env.errors import LabError
from lab_env.services import minio
from lab_env.settings import settings


def program(path: Path, release: str) -> Path:
    """A program that calls itself a release of MinIO."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho minio version {release}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def built(tmp_path, monkeypatch) -> Path:
    """A machine with nothing but the MinIO that set-up built."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("LAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("LAB_MINIO_BINARY", raising=False)
    settings.cache_clear()
    yield program(minio._built_folder() / "minio", "DEVELOPMENT.GOGET")
    settings.cache_clear()


@pytest.mark.parametrize(
    "release", ["RELEASE.2025-10-15T17-29-55Z", "RELEASE.2026-01-02T00-00-00Z"]
)
def test_a_minio_on_path_that_is_new_enough_comes_first(built, tmp_path, release):
    own = program(tmp_path / "bin" / "minio", release)
    assert minio.find_minio() == own


@pytest.mark.parametrize("release", ["RELEASE.2025-09-07T16-13-09Z", "DEVELOPMENT.GOGET", ""])
def test_an_older_or_nameless_minio_on_path_is_passed_over(built, tmp_path, release):
    program(tmp_path / "bin" / "minio", release)
    assert minio.find_minio() == built


def test_without_any_there_is_none(built):
    built.unlink()
    assert minio.find_minio() is None


def test_a_minio_by_setting_wins(built, tmp_path, monkeypatch):
    program(tmp_path / "bin" / "minio", "RELEASE.2026-01-02T00-00-00Z")
    monkeypatch.setenv("LAB_MINIO_BINARY", str(program(tmp_path / "fork", "mine")))
    settings.cache_clear()
    assert minio.find_minio() == tmp_path / "fork"
    (tmp_path / "fork").chmod(0o644)
    with pytest.raises(LabError, match="is not a program"):
        minio.find_minio()


def test_a_bucket_outside_the_first_region_is_made_with_its_place():
    assert minio._location("us-east-1") == {}
    assert minio._location("eu-central-1") == {
        "CreateBucketConfiguration": {"LocationConstraint": "eu-central-1"}
    }
