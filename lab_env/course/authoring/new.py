"""Creates a new lesson from a template that passes every rule and can be run."""

import re
from pathlib import Path

from lab_env.course.authoring.build import COURSE, Tree
from lab_env.platform.errors import LabError

_HERE = Path(__file__).parent


def new_lesson(number: str, slug: str, tree: Tree = COURSE) -> list[Path]:
    """Write a new lesson's source and checks; raise a LabError if its name is invalid or taken."""
    if not re.fullmatch(r"\d\d", number) or not re.fullmatch(r"[a-z0-9_]+", slug):
        raise LabError(
            f"{number!r} {slug!r} does not name a lesson.",
            "give two digits and a slug of lower-case letters: lab author new 05 cow_and_mor",
        )
    files = {
        tree.lesson(number) / f"{number}_{slug}.py": "skeleton.py.txt",
        tree.lesson(number) / "__init__.py": "",
        tree.lesson(number) / "checks.py": "skeleton_checks.py.txt",
    }
    taken = [
        *tree.lesson(number).glob(f"{number}_*.py"),
        *(path for path in files if path.exists()),
    ]
    if taken:
        raise LabError(f"Lesson {number} exists: {taken[0].name}.", "choose another number.")
    for path, skeleton in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        text = (_HERE / skeleton).read_text("utf-8") if skeleton else ""
        path.write_text(text.replace("NN", number), "utf-8")
    return [path for path, skeleton in files.items() if skeleton]
