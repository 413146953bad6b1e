"""The learner's copies of the lessons, in a folder that git ignores.

Learners work in copies so that their changes do not conflict with course updates, and so that each
lesson can be restarted separately. A copy that was worked on is replaced only on request.
"""

import contextlib
import hashlib
import json
import os
import platform
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.processes.locks import exclusive
from lab_env.platform.processes.state import folder
from lab_env.platform.settings import REPOSITORY, settings

LESSONS = REPOSITORY / "notebooks"
# As this Python's kernel describes itself: JupyterLab would write it into the notebook and call the
# notebook unsaved.
KERNEL = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
        "version": platform.python_version(),
    },
}


def known_lessons() -> list[str]:
    """Return the numbers of the course's lessons."""
    return sorted(path.name[:2] for path in LESSONS.glob("[0-9][0-9]_*.ipynb"))


def known_demos() -> list[str]:
    """Return the names of the course's demos, for example `demo-time-travel`."""
    notebooks = (LESSONS / "demos").glob("*.ipynb")
    return sorted(f"demo-{path.stem}" for path in notebooks)


def make_copies() -> list[str]:
    """Copy each lesson to LAB_WORK, except where a copy was worked on.

    Returns the copies that were left unchanged although they are outdated.
    """
    kept = []
    with _lock():
        for lesson in sorted(LESSONS.rglob("*.ipynb")):
            name = str(lesson.relative_to(LESSONS))
            if not was_worked_on(name):
                take(name)
            elif _origins().get(name) != _digest(lesson):
                kept.append(name)
    return kept


def was_worked_on(name: str) -> bool:
    """Return True if the learner changed a copy; `name` is its path below the lessons' folder."""
    copy = settings().work / name
    return copy.exists() and _origins().get(name) != _digest(copy)


def renew(lesson: str) -> Path:
    """Replace a lesson's copy with a fresh one; the learner's work in it is lost."""
    return take(name_of(lesson))


def take(name: str) -> Path:
    """Copy a notebook over any existing copy; `name` is its path below the lessons' folder."""
    copy = settings().work / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    notebook = json.loads((LESSONS / name).read_text(encoding="utf-8"))
    notebook["metadata"] = notebook.get("metadata", {}) | KERNEL
    text = json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
    # Noted first: a run killed in between leaves an old copy that counts as worked on, and is kept.
    with _lock():
        _replace(_notes(), json.dumps(_origins() | {name: _digest(LESSONS / name)}, indent=1))
        _replace(copy, text)
    return copy


def name_of(lesson: str) -> str:
    """Return the file name of a lesson, given its two digits; raise a LabError if there is none."""
    found = sorted(LESSONS.glob(f"{lesson}_*.ipynb"))
    if not found:
        raise LabError(
            f"There is no lesson {lesson!r}.", "choose one from the README's lesson map."
        )
    return found[0].name


def _lock():
    """Let only one command at a time change copies and their notes."""
    return exclusive(folder("run", 0o700) / "copies.lock")


def _notes() -> Path:
    return settings().work / ".origins.json"


def _origins() -> dict[str, str]:
    try:
        return json.loads(_notes().read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def _replace(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def _digest(path: Path) -> str:
    """Return a digest of a notebook's cells; of the whole file if it is damaged."""
    content = path.read_bytes()
    with contextlib.suppress(ValueError, KeyError):
        content = json.dumps(json.loads(content)["cells"]).encode()
    return hashlib.sha256(content).hexdigest()
