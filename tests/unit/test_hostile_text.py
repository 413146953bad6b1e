"""Text that looks like HTML or Markdown is shown as it was written, wherever the lab shows it."""

import random
import re
from html import unescape
from html.parser import HTMLParser

import pandas as pd
import pytest

from lab_env.course.outcomes import Outcome
from lab_env.course.room.overview import Overview
from lab_env.course.room.report import Report
from lab_env.course.room.server import page as room_page
from lab_env.lessons.l13.figures import EngineMatrix, Reply
from lab_env.platform.display.card import card, styled
from lab_env.platform.display.chart import new_chart, svg
from lab_env.platform.display.html import frame_table, table
from lab_env.platform.settings import REPOSITORY
from lab_env.workbench.bench import report as bench_report
from lab_env.workbench.tour import report as tour_report
from lab_env.workbench.tour.tour import Tour

HOSTILE = "<img src=x onerror=alert(1)>"
FRAME = pd.DataFrame({HOSTILE: [HOSTILE, "O-17"], "n": [1, 2]}, index=[HOSTILE, "b"])


def chart() -> str:
    figure, axes = new_chart(HOSTILE, HOSTILE, HOSTILE)
    axes.bar([HOSTILE], [1], label=HOSTILE)
    axes.legend()
    return svg(figure)


def engines() -> str:
    rows = pd.DataFrame({"op": [HOSTILE]})
    replies = {
        (HOSTILE, "mor", "Spark SQL"): Reply(rows),
        (HOSTILE, "mor", "Trino"): Reply(None, HOSTILE),
    }
    return EngineMatrix(replies)._repr_html_()


def page_of_a_tour() -> str:
    tour = Tour(500, 60, problems=[HOSTILE])
    sink = dict.fromkeys(
        [*tour_report.VERDICTS, "commits", "files", "bytes", "freshness_p50_s", "freshness_p95_s"],
        1,
    )
    tour.sinks = {"cow": sink}
    tour.queries = [{"sink": "cow", "query": HOSTILE, "rows": 1, "seconds": 0.5}]
    tour.series = {"store": [{"at": 1, "sink": "cow", "files": 1, "bytes": 1}], "began_at": 1}
    return tour_report.tour_page(tour)


def page_of_a_room() -> str:
    overview = Overview()
    overview.receive(Report(seat="0" * 16, name=HOSTILE))
    return room_page(overview, join=HOSTILE)


SHOWN = {
    "card": lambda: card(HOSTILE, None, FRAME, f"`{HOSTILE}` **{HOSTILE}**", HOSTILE, HOSTILE),
    "outcome": lambda: Outcome("05.1", "not yet", HOSTILE)._repr_html_(),
    "styled": lambda: styled(FRAME).to_html(),
    "styled with formats": lambda: styled(FRAME, {"n": "{:.1f}"}).hide(axis="index").to_html(),
    "styled with left columns": lambda: styled(FRAME).set_table_styles([]).to_html(),
    "chart": chart,
    "engines": engines,
    "table": lambda: table([HOSTILE], [[HOSTILE]]),
    "table of a frame": lambda: frame_table(FRAME),
    "page of the tour": page_of_a_tour,
    "page of a room": page_of_a_room,
    "page of the benchmark": lambda: bench_report.page({"problems": [HOSTILE]}),
}


class Tags(HTMLParser):
    """Collects a page's tags, its event attributes and its text."""

    def __init__(self, html: str):
        super().__init__()
        self.found: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        self.found += [tag, *(name for name, _ in attributes if name.startswith("on"))]

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("what", SHOWN)
def test_it_is_text_and_no_tag(what):
    page = Tags(SHOWN[what]())
    assert {"img", "onerror"} & set(page.found) == set()
    assert HOSTILE in page.text


PIECES = ["**", "*", "_", "<b>", "&lt;", "options", " ", "{}", "'", '"', "\\", "#", "```"[:2], "é"]


def draw(rng: random.Random, without: str = "") -> str:
    """Return random code made of pieces that Markdown or HTML could interpret."""
    text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 12))).strip() or "x"
    return text.replace(without, "") or "x" if without else text


@pytest.mark.parametrize("seed", range(50))
def test_the_code_in_a_card_comes_out_as_it_went_in(seed):
    rng = random.Random(seed)
    inline, block = draw(rng, without="`"), draw(rng)
    html = card("Title", None, note=f"Say `{inline}` **now**:\n\n```\n{block}\n```\n\nThen go on.")
    assert f">{inline}</code> **now**:" in unescape(html)
    assert f">{block}</pre>" in unescape(html)
    assert "Then go on." in html


def test_no_lesson_shows_a_table_by_a_way_that_does_not_escape():
    # `frame.style` and `to_html(escape=False)` show text as HTML; `styled(frame)` does not.
    raw = re.compile(r"\.style\b(?!\.access)|\bescape=False")
    sources = list((REPOSITORY / "lab_env").rglob("*.py"))
    assert len(sources) > 100
    uses = {
        path.name: line.strip()
        for path in sources
        for line in path.read_text().splitlines()
        if raw.search(line) and path.name != "card.py"
    }
    assert uses == {}
