"""Make `.venv` from requirements.lock on a machine that has only Python; `make setup` starts here.

The `lab` in `.venv` does the rest: `setup`, or `jupyter` if that is the argument. This module uses
only the standard library. An interrupted step is repeated, so a killed run can be started again.
When everything is complete, a stamp file lets later runs skip it.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
VENV = REPOSITORY / ".venv"
STAMP = VENV / "complete"
# The preferred one first; pyproject.toml and CI agree.
SUPPORTED_PYTHONS = ((3, 12), (3, 11), (3, 13))
COLD_BYTES, WARM_BYTES = 4e9, 1e9

# Beginnings of variables that configure other work of this user, in Python, Java, Spark or Kafka.
# The programs of the lab do not see them.
FOREIGN_BEGINNINGS = (
    *(
        "PYTHON",
        "PYSPARK_",
        "SPARK_",
        "HADOOP_",
        "HIVE_",
        "KAFKA_",
        "ZOO",
        "LOCUST_",
        "MINIO_",
        "PG",
    ),
    *("JUPYTER_CONFIG", "JUPYTER_PATH", "IPYTHON", "VIRTUAL_ENV", "CONDA_PREFIX"),
    *("CLASSPATH", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"),
)
HARMLESS = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONUNBUFFERED", "PYTHONUTF8")
# A bundle lists its files with their SHA-256. The second file holds the digest of the last list
# checked.
MANIFEST, CHECKED = "bundle.json", "bundle.checked"
PYTHONS = "python"  # the folder of the cache for a Python that set-up has fetched
# PySpark's source archive has only Python files and jars. Any other package would need a compiler.
BUILT_FROM_SOURCE = "pyspark"
OFFLINE = "check the network, a proxy or a mirror's settings, then run: make setup"
# Cause and next step, by a phrase of the failed step's output.
CAUSES = {
    "No space left": ("The disk is full.", "free some space, then run: make setup"),
    "no usable wheels": (
        "A Python package does not exist for this machine.",
        "compare the machine and its Python with docs/platforms.md",
    ),
}


def main():
    """Make `.venv` unless it is complete, then exec the command that fetches the rest."""
    started = time.time()
    _use_supported_python()
    cache = _cache()
    _check_bundle(cache)
    arguments = ["--since", str(started)]
    if not is_complete():
        arguments += ["--before", str(disk_used(cache))]
        _check_disk(cache)
        with _locked(cache):
            if not is_complete():
                _make_venv(cache)
    python = VENV / "bin" / "python"
    command = [str(python), "-I", "-m", "lab_env.cli", *(sys.argv[1:] or ["setup"]), *arguments]
    os.execve(python, command, _environment())


def is_complete():
    """True if `.venv` has everything in requirements.lock and its Python still runs."""
    return _stamp_text() == _expected_stamp() and _python_runs()


def _python_runs():
    try:
        command = [VENV / "bin" / "python", "-I", "-S", "-c", ""]
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        return False


def usable_pythons(system=sys.platform):
    """Supported Pythons for which every package has a wheel on this system.

    gevent, which Locust needs, has no macOS wheel for 3.11.
    """
    return tuple(v for v in SUPPORTED_PYTHONS if (system, v) != ("darwin", (3, 11)))


def _use_supported_python():
    if sys.version_info[:2] in usable_pythons():
        return
    cache = _cache()
    _go_on_in(["python{}.{}".format(*version) for version in usable_pythons()])
    _go_on_in(_fetched_pythons(cache))
    if _may_fetch_python(cache):
        _fetch_python(cache)
        _go_on_in(_fetched_pythons(cache))
    _fail(
        f"Python {pythons(usable_pythons())} is needed; python3 here is {_version()}.",
        "install one of them, or name it: make setup PYTHON=/path/to/python3.12,"
        " or let set-up fetch one: make setup LAB_FETCH_PYTHON=true",
    )


def _go_on_in(programs):
    """Restart this set-up in the first of the programs that is a supported Python."""
    for program in map(str, programs):
        # It must run: a pyenv shim may exist without the version behind it.
        command = [program, "-I", "-c", "import sys; print(sys.version_info[:2])"]
        with contextlib.suppress(OSError):
            told = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            if told.stdout.decode().strip() in map(str, usable_pythons()):
                os.execvp(program, [program, "-I", __file__, *sys.argv[1:]])


def _fetched_pythons(cache):
    """Supported Pythons that an earlier set-up or a bundle has put into the cache."""
    for version in usable_pythons():
        yield from sorted((cache / PYTHONS).glob("cpython-*/bin/python{}.{}".format(*version)))


def _may_fetch_python(cache):
    answer = os.environ.get("LAB_FETCH_PYTHON", "")
    if not answer and sys.stdin.isatty():
        wanted = "{}.{}".format(*usable_pythons()[0])
        _report(f"Python {pythons(usable_pythons())} is needed; python3 here is {_version()}.")
        _report(f"Set-up can fetch Python {wanted} with uv: from the releases of the project")
        _report("python-build-standalone, or from the mirror in UV_PYTHON_INSTALL_MIRROR.")
        _report(f"It would go to {cache / PYTHONS}; the system's Python stays as it is.")
        print("Fetch it? [y/N] ", end="", file=sys.stderr, flush=True)
        answer = sys.stdin.readline()
    return answer.strip().lower() in ("y", "yes", "true", "on", "1")


def _fetch_python(cache):
    """Fetch the preferred Python into the cache with uv, which verifies its checksum."""
    wanted = "{}.{}".format(*usable_pythons()[0])
    environment = {**_uv_environment(cache), "UV_PYTHON_INSTALL_DIR": str(cache / PYTHONS)}
    with _locked(cache):
        uv = _uv(cache)
        _report(f"Python {wanted}: fetching it with uv")
        command = [uv, "python", "install", "--no-bin", wanted]
        _run(command, environment, f"Python {wanted} could not be fetched.")


def pythons(versions=SUPPORTED_PYTHONS):
    """Human-readable list of the supported Python versions: `3.11, 3.12 or 3.13`."""
    *others, last = ["{}.{}".format(*version) for version in sorted(versions)]
    return " or ".join([", ".join(others), last]) if others else last


def _make_venv(cache):
    uv = _uv(cache)
    environment = {**_uv_environment(cache), "UV_PYTHON_DOWNLOADS": "never"}
    python = ["--python", str(VENV / "bin" / "python")]
    _report(f"Python packages: making .venv for Python {_version()}")
    if _stamp_text().split(" ")[0] == _version() and _python_runs():
        STAMP.unlink()  # An environment that was complete once can be updated in place.
    else:
        _run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, VENV], environment)
    wheels = wheels_folder(cache)
    if reason := bundle_mismatch(cache):
        _report(f"bundle: its packages are not used, because {reason}; fetching from the network")
    packages = ["--only-binary", ":all:", "--no-binary", BUILT_FROM_SOURCE, "requirements.lock"]
    if wheels.is_dir():
        _report("Python packages: from the bundle, no network")
        environment["UV_OFFLINE"] = "1"
        packages = ["--no-build", "--no-index", "--find-links", wheels, wheels / "requirements.txt"]
    sync = [uv, "pip", "sync", *python, "--require-hashes", *packages]
    _run(sync, environment, "The Python packages could not be fetched.")
    install = [uv, "pip", "install", "--quiet", *python, "--no-deps", "--no-build-isolation"]
    _run([*install, "--editable", "."], environment)
    temporary = STAMP.with_name("complete.partial")
    temporary.write_text(_expected_stamp())
    os.replace(temporary, STAMP)


def wheels_folder(cache):
    """Folder with a bundle's packages for this requirements.lock and this Python."""
    digest = hashlib.sha256((REPOSITORY / "requirements.lock").read_bytes()).hexdigest()[:10]
    return cache / f"wheels-{_version()}-{digest}"


def bundle_mismatch(cache):
    """Reason why an unpacked bundle's packages do not fit; empty if they fit or there is none."""
    if not (cache / MANIFEST).exists() or wheels_folder(cache).is_dir():
        return ""
    listed = json.loads((cache / MANIFEST).read_text())
    size = sum((cache / name).stat().st_size for name in listed) / 1e9
    made_for = {name.split("-")[1] for name in listed if name.startswith("wheels-")}
    if _version() in made_for:
        return f"the bundle ({size:.1f} GB) was made from another version of the course"
    others = " and ".join(sorted(made_for)) or "another"
    return f"the bundle ({size:.1f} GB) is for Python {others} and this is Python {_version()}"


def _check_bundle(cache):
    """Reject an unpacked bundle with damaged files; an intact one is checked only once."""
    manifest, checked = cache / MANIFEST, cache / CHECKED
    if not manifest.exists():
        return
    digest = file_sha256(manifest)
    if checked.exists() and checked.read_text() == digest:
        return
    _report("bundle: checking its files")
    if damaged := damaged_files(cache):
        _fail(
            f"The bundle in {cache} is damaged: {len(damaged)} file(s) differ from its list.",
            "compare the archive's SHA-256 with the one lab bundle printed, unpack it again, "
            "then run: make setup",
            damaged[:8],
        )
    checked.write_text(digest)


def damaged_files(cache):
    """Files that differ from an unpacked bundle's manifest, and jars that the manifest lacks."""
    listed = json.loads((cache / MANIFEST).read_text())
    damaged = {name for name, digest in listed.items() if file_sha256(cache / name) != digest}
    folders = {Path(name).parent for name in listed if name.startswith("jars/")}
    found = {str(folder / file.name) for folder in folders for file in (cache / folder).glob("*")}
    return sorted(damaged | (found - set(listed)))


def file_sha256(path):
    """SHA-256 of a file; empty if there is no such file."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def _uv(cache):
    """Fetch the pinned uv into the cache with pip, which verifies its hashes."""
    pin = _uv_pin()
    target = cache / "tools" / f"uv-{pin['version']}"
    if (target / "bin" / "uv").exists():
        return target / "bin" / "uv"
    _report("Python packages: fetching uv, their installer")
    partial = cache / "partial" / "tools"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    (partial / "uv.txt").write_text(requirement("uv", pin))
    environment = {**_environment(), "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}
    command = [_pip(partial, environment), "-I", "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--require-hashes", "--target", partial / "uv"]
    _run([*command, "-r", partial / "uv.txt"], environment, "uv could not be fetched.")
    target.parent.mkdir(exist_ok=True)
    shutil.rmtree(target, ignore_errors=True)
    os.replace(partial / "uv", target)
    shutil.rmtree(partial)
    return target / "bin" / "uv"


def _uv_pin():
    """uv's entry in versions.toml, read without tomllib, which Python has only since 3.11."""
    text = Path(__file__).with_name("versions.toml").read_text()
    entry = text.partition("[wheels.uv]\n")[2].partition("\n[")[0]
    (version,) = re.findall('^version = "(.+)"$', entry, re.M)
    return {"version": version, "hashes": re.findall('"(sha256:.+)"', entry)}


def requirement(name, pin):
    """Requirements line of a wheel pinned in versions.toml, with its hashes."""
    return " ".join([f"{name}=={pin['version']}", *(f"--hash={d}" for d in pin["hashes"])]) + "\n"


def _pip(folder, environment):
    """Path of a Python with pip: one from a new virtual environment, else this one."""
    own = [sys.executable, "-I", "-m"]
    make_venv, ask_pip = [*own, "venv", folder / "pip"], [*own, "pip", "--version"]
    if subprocess.run(make_venv, env=environment, capture_output=True).returncode == 0:
        return folder / "pip" / "bin" / "python"
    if subprocess.run(ask_pip, env=environment, capture_output=True).returncode:
        _fail(
            f"{sys.executable} has neither pip nor ensurepip.",
            "install your system's package for them (Debian: python3-venv), then run: make setup",
        )
    return sys.executable


def _uv_environment(cache):
    # No `|` between dicts and no tomllib so far: this runs in any Python from 3.8.
    given = {"UV_HTTP_TIMEOUT": "120", **_environment()}
    return {**given, **_uv_settings(), "UV_CACHE_DIR": str(cache / "uv")}


def _uv_settings():
    """Translate pip's settings for indexes and certificates into uv's variables."""
    command = [sys.executable, "-I", "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, env=_environment()).stdout.decode()
    of_pip = re.findall(r"^(?:global|install|:env:)\.(\S+?)='(.*)'$", listed, re.M)
    of_pip += [
        (name[4:].lower().replace("_", "-"), value)
        for name, value in os.environ.items()
        if name.startswith("PIP_")
    ]
    variables = {
        "index-url": "UV_DEFAULT_INDEX",
        "extra-index-url": "UV_INDEX",
        "trusted-host": "UV_INSECURE_HOST",
        "cert": "SSL_CERT_FILE",
    }
    settings = {
        variables[key]: value.replace("\\n", " ").strip()
        for key, value in of_pip
        if key in variables
    }
    return {name: value for name, value in settings.items() if value and name not in os.environ}


def _expected_stamp():
    parts = [
        (REPOSITORY / "requirements.lock").read_bytes(),
        # Only dependencies and commands: tool settings change nothing in `.venv`.
        (REPOSITORY / "pyproject.toml").read_bytes().split(b"[tool.")[0],
        str(REPOSITORY).encode(),
    ]
    digest = hashlib.sha256(b"\0".join(parts)).hexdigest()
    return f"{_version()} {digest}\n"


def _version():
    return "{}.{}".format(*sys.version_info)


def _stamp_text():
    try:
        return STAMP.read_text()
    except OSError:
        return ""


def _cache():
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:
        _fail("This user has no home folder.", "set HOME to your own folder.")
    cache = Path(os.environ.get("LAB_CACHE") or base / "streaming-lakehouse").expanduser()
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        _fail(
            f"LAB_CACHE={cache} cannot be used: {error.strerror}.",
            "set LAB_CACHE to a folder that you can write to.",
        )
    return cache.resolve()


def _check_disk(cache):
    needed = WARM_BYTES if (cache / "uv").exists() else COLD_BYTES
    for place in (cache, REPOSITORY):
        free = shutil.disk_usage(place).free
        if free < needed:
            _fail(
                f"Set-up needs {needed / 1e9:.0f} GB of free disk;"
                f" {place} has {free / 1e9:.1f} GB.",
                "free some space, or set LAB_CACHE to a folder on a larger disk.",
            )


def disk_used(folder):
    """Bytes on disk below a folder; hard-linked files count once."""
    sizes = {}
    for root, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                status = os.lstat(os.path.join(root, name))
                sizes[status.st_ino] = status.st_blocks * 512
    return sum(sizes.values())


@contextlib.contextmanager
def _locked(cache):
    handle = os.open(cache / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _report("another set-up is running; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _environment():
    return {name: value for name, value in os.environ.items() if not is_foreign(name)}


def is_foreign(variable):
    """Return whether an environment variable configures other work of this user."""
    return variable.startswith(FOREIGN_BEGINNINGS) and variable not in HARMLESS


def _run(command, environment, failure="Set-up could not make .venv."):
    """Run one step; in a terminal, print its messages but not the list of packages."""
    step = subprocess.Popen(
        [str(part) for part in command],
        env=environment,
        cwd=REPOSITORY,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        errors="replace",
    )
    said = []
    for line in step.stderr or ():
        said.append(line.rstrip())
        if sys.stderr.isatty() and not line.startswith((" + ", " - ", " ~ ")):
            _report(said[-1])
    if step.wait():
        text = "\n".join(said)
        what, next_step = next(
            (CAUSES[sign] for sign in CAUSES if sign in text), (failure, OFFLINE)
        )
        _fail(what, next_step, said[-8:])


def _report(text):
    print(text, file=sys.stderr, flush=True)


def _fail(what, next_step, log=()):
    _report("\n".join([what, *log, f"Next step: {next_step}"]))
    sys.exit(1)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
