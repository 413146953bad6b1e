"""The learner's copies of the lessons, in a folder that git ignores.

Learners work in copies so that their changes do not conflict with an update of the course, and so
that each lesson can be restarted separately. A copy that was worked on is replaced only on request.
"""

import hashlib
import json
import os
import platform
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.settings import REPOSITORY, settings

LESSONS = REPOSITORY / "notebooks"
_ORIGINS = ".origins.json"
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


def make_copies(lessons: Path = LESSONS, work: Path | None = None) -> list[str]:
    """Copy each lesson to `work` (LAB_WORK by default), but keep the copies that were worked on.

    Returns the kept ones that are outdated.
    """
    work = work or settings().work
    kept = []
    for lesson in sorted(lessons.rglob("*.ipynb")):
        name = str(lesson.relative_to(lessons))
        if not was_worked_on(name, work):
            _copy(lesson, name, work)
        elif _origins(work).get(name) not in _digests(lesson):
            kept.append(name)
    return kept


def was_worked_on(name: str, work: Path | None = None) -> bool:
    """Return True if a notebook's copy was changed; `name` is its path below the lessons."""
    work = work or settings().work
    copy = work / name
    return copy.exists() and _origins(work).get(name) not in _digests(copy)


def renew(lesson: str, lessons: Path = LESSONS, work: Path | None = None) -> Path:
    """Replace a lesson's copy with a fresh one, given its two digits; work in the copy is lost."""
    return take(name_of(lesson, lessons), lessons, work)


def take(name: str, lessons: Path = LESSONS, work: Path | None = None) -> Path:
    """Copy a notebook, given its path below the lessons' folder; overwrite an existing copy."""
    return _copy(lessons / name, name, work or settings().work)


def name_of(lesson: str, lessons: Path = LESSONS) -> str:
    """Return a lesson's file name, given its two digits; raise a LabError if there is none."""
    found = sorted(lessons.glob(f"{lesson}_*.ipynb"))
    if not found:
        raise LabError(
            f"There is no lesson {lesson!r}.", "choose one from the README's lesson map."
        )
    return found[0].name


def _copy(source: Path, name: str, work: Path) -> Path:
    copy = work / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    partial = copy.with_suffix(".partial")
    notebook = json.loads(source.read_text(encoding="utf-8"))
    notebook["metadata"] = notebook.get("metadata", {}) | KERNEL
    partial.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    # Noted first: a run killed in between leaves an old copy that counts as worked on, and is kept.
    _note(work, name, _digest(json.dumps(notebook["cells"]).encode()))
    os.replace(partial, copy)
    return copy


def _origins(work: Path) -> dict[str, str]:
    try:
        return json.loads((work / _ORIGINS).read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def _note(work: Path, name: str, digest: str) -> None:
    partial = work / f"{_ORIGINS}.partial"
    partial.write_text(json.dumps(_origins(work) | {name: digest}, indent=1))
    os.replace(partial, work / _ORIGINS)


def _digests(path: Path) -> set[str]:
    """Return digests of a notebook's cells and of its file; earlier versions stored the latter."""
    content = path.read_bytes()
    try:
        cells = json.dumps(json.loads(content)["cells"]).encode()
    except (ValueError, KeyError):  # damaged: not as it was copied
        cells = b""
    return {_digest(cells), _digest(content)}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
