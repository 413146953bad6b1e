"""Draws the README's picture of one update from a recorded run, with the course's own code.

Code hosts such as GitHub show an SVG as an image, which cannot load style sheets, fonts or scripts.
So the SVG has its own light and dark background, and embeds the notebook's drawings as HTML.
"""

from dataclasses import dataclass
from pathlib import Path

from lab_env.course.publishing.recording import recorded_run, recorded_table
from lab_env.platform.display.html import render
from lab_env.platform.settings import REPOSITORY
from lab_env.tables.hudi.table import DataFile, Snapshot
from lab_env.tables.xray.drawing import as_html

FOLDER = REPOSITORY / "docs" / "images"
TYPES = {"COPY_ON_WRITE": "Copy-on-Write", "MERGE_ON_READ": "Merge-on-Read"}


@dataclass(frozen=True)
class Picture:
    """One picture, with its size in pixels; each part is a heading and a drawing in XHTML."""

    name: str
    alt: str
    source: str
    width: int
    height: int
    parts: tuple[tuple[str, str], ...]

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.svg"

    @property
    def svg(self) -> str:
        return render("course/publishing/picture.svg.j2", **vars(self)) + "\n"


def pictures() -> list[Picture]:
    """Draw all pictures, in the order of the README."""
    run = recorded_run()
    before = recorded_table("before")
    after = recorded_table("after", since=before)
    titles = f"Before: a {TYPES[before.table_type]} table", "After an update of ten orders"
    drawings = as_html(before), as_html(after, styled=False)
    alt = ". ".join(
        f"{title}: {', '.join(_described(table, file) for file in table.files)}"
        for title, table in zip(titles, (before, after), strict=True)
    )
    source = f"lesson 05, {run['recorded']}, {run['machine']}"
    return [
        Picture("update", f"{alt}.", source, 838, 234, tuple(zip(titles, drawings, strict=True)))
    ]


def _described(table: Snapshot, file: DataFile) -> str:
    new = "new " if file in table.new_files else ""
    return f"a {new}{file.kind} file of {file.rows:,} rows"


def drift() -> list[str]:
    """Return the names of pictures whose file is missing or outdated."""
    return [
        picture.name
        for picture in pictures()
        if not picture.path.exists() or picture.path.read_text("utf-8") != picture.svg
    ]


def draw_all() -> list[Path]:
    """Write all pictures; return the paths of their files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = []
    for picture in pictures():
        picture.path.write_text(picture.svg, encoding="utf-8")
        written.append(picture.path)
    return written
