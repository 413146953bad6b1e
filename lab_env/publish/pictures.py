"""The pictures of the README's first screen, drawn from recorded runs by the course's own code.

An SVG that a code host shows is an image: it cannot load a style sheet, font or script. So each has
its own background, in light and dark, and contains the notebook's drawing as HTML.
"""

from dataclasses import dataclass
from html import unescape
from pathlib import Path

from lab_env.course.checking import checks_of_lesson
from lab_env.course.exercises import Exercises
from lab_env.display.html import render
from lab_env.hudi.table import DataFile, Snapshot
from lab_env.lessons.l00.figures import draw_tour, recorded_tour, summarize
from lab_env.publish.recording import EXERCISE, LESSON, recorded_facts, recorded_run, recorded_table
from lab_env.settings import REPOSITORY
from lab_env.xray.drawing import as_html

FOLDER = REPOSITORY / "docs" / "images"
TYPES = {"COPY_ON_WRITE": "Copy-on-Write", "MERGE_ON_READ": "Merge-on-Read"}
# Only the X-ray's timeline and files; a first screen has no room for its lists.
FILES_ALONE = """
.picture .xray { padding: 0; }
.picture .xray .grid { margin: 0; }
.picture .xray :is(.title, .row) { display: none; }
"""


@dataclass(frozen=True)
class Picture:
    """One picture.

    Args:
        name: of its file, without the extension.
        alt: text for readers who cannot see it; the README has the same.
        caption: its first line.
        source: place and time of the recording.
        width: pixels.
        height: pixels; anything lower is cut off.
        body: the drawing, as XHTML.
        style: CSS for this picture alone.
    """

    name: str
    alt: str
    caption: str
    source: str
    width: int
    height: int
    body: str
    style: str = ""

    @property
    def path(self) -> Path:
        """Path of its file."""
        return FOLDER / f"{self.name}.svg"

    @property
    def svg(self) -> str:
        """Content of its file."""
        return render("publish/picture.svg.j2", **vars(self)) + "\n"


def pictures() -> list[Picture]:
    """All pictures, in the order of the README."""
    run = recorded_run()
    source = f"lesson 05, {run['recorded']}, {run['machine']}"
    before = recorded_table("before")
    after = recorded_table("after", since=before)
    return [
        xray("xray_before", f"Before: a {TYPES[before.table_type]} table", before, "", 330),
        xray("xray_after", "After an update of ten orders", after, source, 500),
        tour_chart(),
        exercise_card(source),
    ]


def xray(name: str, caption: str, table: Snapshot, source: str, width: int) -> Picture:
    """Picture of a table's timeline and files."""
    files = ", ".join(_described(table, file) for file in table.files)
    alt = f"X-ray. {caption}. Its files: {files}."
    return Picture(name, alt, caption, source, width, 232, as_html(table), FILES_ALONE)


def tour_chart() -> Picture:
    """Picture of each sink's freshness in the recorded tour, and the ledger's verdict."""
    tour = recorded_tour()
    caption = unescape(summarize(tour)).partition(": ")[2].replace("\n", " ")
    curves = "A curve per sink: the share of events visible, by seconds since sent"
    alt = f"A recorded tour, {caption}. {curves}."
    source = f"{tour['made'][:10]}, {tour['cores']} cores, local disk"
    body = draw_tour(width=3.5, height=1.2, titled=False)
    return Picture("tour", alt, caption, source, 366, 184, body)


def exercise_card(source: str) -> Picture:
    """Picture of an exercise's wrong answer, and its check's message with the observed facts."""

    check = checks_of_lesson(LESSON)[EXERCISE]

    class Recorded:
        judge = staticmethod(check.judge)

        @staticmethod
        def observe(lab, answer):
            return recorded_facts()

    outcome = Exercises(None, checks=lambda _: {EXERCISE: Recorded}).judge(EXERCISE, "recorded")
    code = recorded_run()["answer"].splitlines()[-1].strip()
    body = render("publish/exercise.html.j2", code=code, card=outcome._repr_html_())
    alt = f"{outcome.title}. {outcome.text}"
    return Picture("exercise", alt, "Your turn", source, 464, 184, body)


def _described(table: Snapshot, file: DataFile) -> str:
    new = "new " if file in table.new_files else ""
    return f"a {new}{file.kind} file of {file.rows:,} rows"


def drift() -> list[str]:
    """Names of the pictures whose file is missing or differs from the current drawing."""
    return [
        picture.name
        for picture in pictures()
        if not picture.path.exists() or picture.path.read_text("utf-8") != picture.svg
    ]


def draw_all() -> list[Path]:
    """Write all pictures; return their files."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    written = []
    for picture in pictures():
        picture.path.write_text(picture.svg, encoding="utf-8")
        written.append(picture.path)
    return written
