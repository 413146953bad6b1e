"""Event text that looks like HTML is shown as text, wherever the lab or a lesson shows it."""

import re
from html.parser import HTMLParser

import pandas as pd
import pytest

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
    """Return a chart with the hostile text in every place that takes text."""
    figure, axes = new_chart(HOSTILE, HOSTILE, HOSTILE)
    axes.bar([HOSTILE], [1], label=HOSTILE)
    axes.legend()
    return svg(figure)


def engines() -> str:
    """Return a matrix of engines with the hostile text in rows, a question and an error."""
    rows = pd.DataFrame({"op": [HOSTILE]})
    replies = {
        (HOSTILE, "mor", "Spark SQL"): Reply(rows),
        (HOSTILE, "mor", "Trino"): Reply(None, HOSTILE),
    }
    return EngineMatrix(replies)._repr_html_()


def page_of_a_tour() -> str:
    """Return a tour's page with the hostile text in a query and in a problem."""
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
    """Return a room's page with the hostile text as a seat's name and as the command to join."""
    overview = Overview()
    overview.receive(Report(seat="0" * 16, name=HOSTILE))
    return room_page(overview, join=HOSTILE)


SHOWN = {
    "card": lambda: card(HOSTILE, None, FRAME, f"`{HOSTILE}` **{HOSTILE}**", HOSTILE, HOSTILE),
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
