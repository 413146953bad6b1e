"""The state that a lab keeps in LAB_HOME, and the part of it that a purge removes."""

import stat

import pytest

from lab_env.platform.errors import LabError
from lab_env.platform.processes import state


def test_secrets_are_for_their_owner_only_and_stay_the_same(home):
    first = state.secrets()
    assert stat.S_IMODE((home / "secrets.json").stat().st_mode) == 0o600
    assert len(first["s3_secret_key"]) >= 24 and len(first["s3_access_key"]) >= 20
    assert state.secrets() == first


def test_a_damaged_state_file_is_named(home):
    state.home()
    (home / "state.json").write_text('{"kafka": ')
    with pytest.raises(LabError, match=r"state\.json is damaged"):
        state.read_state()


def test_a_home_that_cannot_be_made_is_named(configure, tmp_path):
    (tmp_path / "file").write_text("")
    configure(home=tmp_path / "file" / "lab")
    with pytest.raises(LabError, match=r"LAB_HOME=.* cannot be used"):
        state.home()


def test_purge_removes_only_what_the_lab_wrote(home):
    state.secrets()
    state.folder("minio")
    (home / "thesis.txt").write_text("mine")
    state.purge_home(["minio"])
    assert {path.name for path in home.iterdir()} == {"thesis.txt", "run", state.MARKER}


def test_purge_spares_a_folder_that_was_there_before_the_lab(home):
    (home / "kafka").mkdir(parents=True)
    (home / "kafka" / "notes.txt").write_text("mine")
    state.secrets()
    with pytest.raises(LabError, match="nothing was removed"):
        state.purge_home(["kafka"])
    assert (home / "kafka" / "notes.txt").read_text() == "mine"
    assert (home / "secrets.json").exists()
