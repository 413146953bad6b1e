"""Builds the files of the ejected project and writes them into a folder.

The commented options, the parsing, and the check that a checkpoint belongs to its table are copied
from the source of the lab's pipeline modules. Everything else is in the folder `templates`; in the
lab, it is spread over the writer and its services.
"""

import hashlib
import json
import shlex
import tomllib
from pathlib import Path

from lab_env.pipeline import (
    checkpoint,
    guard,
    hadoop,
    layout,
    messages,
    options,
    parsing,
    session,
    tasks,
    topic,
    writer,
)
from lab_env.platform import jvm, store
from lab_env.platform.errors import LabError
from lab_env.platform.install.jars import jar_folder
from lab_env.platform.install.java import java_home
from lab_env.platform.install.versions import versions
from lab_env.platform.processes.environment import adaptations
from lab_env.platform.settings import REPOSITORY, Endpoints, Settings, settings
from lab_env.shop import events
from lab_env.workbench.eject import definitions as source

TEMPLATES = Path(__file__).with_name("templates")
MANIFEST = ".ejected.json"  # each written file's SHA-256: whether somebody has changed it
SINKS = ("cow", "mor", "dead")
COPIED = (
    checkpoint,
    events,
    guard,
    hadoop,
    jvm,
    messages,
    options,
    parsing,
    session,
    tasks,
    topic,
    writer,
)
# Variables of a machine with a proxy, or whose /tmp is too small or mounted noexec.
OF_THIS_MACHINE = ("no_proxy", "NO_PROXY", "TMPDIR")
# With one of them set, programs would use other keys than the given ones, or another store.
OTHER_KEYS = (
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
)
# Hadoop's metrics, which nobody reads here, log a host name that does not resolve as an error.
NO_METRICS = "logger.metrics.name = org.apache.hadoop.metrics2\nlogger.metrics.level = off\n"
# The jars that spark-submit is told by name; what they need it finds itself.
NAMED_JARS = ("org.apache.hudi:", "org.apache.spark:spark-sql-kafka", "org.apache.hadoop:")


def eject(folder: Path) -> list[str]:
    """Write the project into a folder; return the names of the files that were not up to date.

    The folder must be new or empty, or contain an earlier project that nobody has changed. Such a
    project is updated; other files are not touched.
    """
    files = project_files()
    try:
        _check_folder(folder, files)
        changed = [name for name, text in files.items() if _text(folder / name) != text]
        for name in changed:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(files[name], encoding="utf-8")
            if files[name].startswith("#!"):
                path.chmod(0o755)
    except OSError as error:
        raise LabError(
            f"{folder} cannot be written: {error.strerror}.", "choose another folder."
        ) from None
    return changed


def settings_for(endpoints: Endpoints, topic: str, base: str) -> dict[str, str]:
    """Return environment variables to run the project with this lab's servers, jars, Java and heap.

    The store's keys are among them. `base` is the folder for tables and checkpoints, `s3a://...`.
    """
    found = adaptations()
    return store.keys_as_variables(endpoints) | {
        "KAFKA_BOOTSTRAP": endpoints.kafka_bootstrap,
        "KAFKA_TOPIC": topic,
        "TABLES": base,
        "S3_ENDPOINT": endpoints.s3_endpoint,
        "S3_REGION": endpoints.s3_region,
        "JARS": str(jar_folder("spark")),
        "JAVA_HOME": str(java_home()),
        "DRIVER_MEMORY": settings().spark_memory,
        **{name: found[name] for name in OF_THIS_MACHINE if name in found},
    }


def shell_lines(endpoints: Endpoints, topic: str, base: str) -> list[str]:
    """Return `settings_for` as lines for a shell, and one against variables of other keys."""
    found = settings_for(endpoints, topic, base)
    others = [name for name in OTHER_KEYS if name not in found and endpoints.s3_access_key]
    exports = [f"export {name}={shlex.quote(value)}" for name, value in found.items()]
    return [f"unset {' '.join(others)}", *exports] if others else exports


def project_files() -> dict[str, str]:
    """Return the text of each file of the project, by name."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # takes 0.1 s

    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # Python, shell and Markdown: nothing of it is HTML
    )
    facts = _facts()
    files = {
        name.removesuffix(".j2"): templates.get_template(name).render(facts)
        for name in templates.list_templates()
    }
    for path in (
        REPOSITORY / "LICENSE",
        Path(str(session.__file__)).with_name("log4j2.properties"),
    ):
        files[path.name] = path.read_text(encoding="utf-8")
    files["log4j2.properties"] += NO_METRICS
    return files | {MANIFEST: _manifest(files)}


def _facts() -> dict[str, object]:
    course = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = dict(pin.split("==") for pin in course["dependencies"])
    jars = [jar for jar in versions()["jars"]["spark"] if jar.startswith(NAMED_JARS)]
    return {
        "python": course["requires-python"],
        "pins": pins,
        "packages": ",".join(jars),
        "java_options": " ".join(session.ANYWHERE),
        "driver_memory": Settings.model_fields["spark_memory"].default,
        "max_offsets": writer.MAX_OFFSETS,
        "folders": {sink: layout.FOLDERS[sink] for sink in SINKS},
        "source": source,
        "modules": {module.__name__.rpartition(".")[2]: module for module in COPIED},
    }


def _manifest(files: dict[str, str]) -> str:
    sums = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    return json.dumps(dict(sorted(sums.items())), indent=1) + "\n"


def _check_folder(folder: Path, files: dict[str, str]) -> None:
    """Raise a `LabError` if writing into the folder would overwrite somebody's work."""
    if folder.exists() and not folder.is_dir():
        raise LabError(f"{folder} is a file.", "choose the name of a new folder.")
    if not folder.is_dir() or not any(folder.iterdir()):
        return
    known = _known(folder)
    if not known:
        raise LabError(
            f"{folder} is not empty.", f"choose a new one, for example {folder / 'orders-stream'}"
        )
    changed = sorted(
        name
        for name in {*known, *files} - {MANIFEST}
        if _sum(folder / name) != known.get(name, _ABSENT)
    )
    if changed:
        raise LabError(
            f"{folder} has your work in it: {', '.join(changed)} changed since it was ejected.",
            "choose a new folder, and compare: diff -r OLD NEW",
        )


_ABSENT = ""  # the sum of a file that is not there


def _known(folder: Path) -> dict[str, str]:
    """Read an earlier project's manifest; empty if there is none."""
    try:
        known = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _sum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else _ABSENT


def _text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None
