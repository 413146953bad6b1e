"""The README is short; its links work, and its pictures, lessons and figures are current."""

import re
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt
from xray_tables import PROPERTIES, T1, T2, FilesInMemory, base, committed, done, log, stat

from lab_env.course import registry
from lab_env.course.publishing import recording
from lab_env.course.publishing.pictures import drift, pictures
from lab_env.platform.settings import REPOSITORY
from lab_env.tables.hudi.reader import read_table

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
FIGURES = (REPOSITORY / "docs" / "figures.md").read_text(encoding="utf-8")
FIRST_SCREEN = README.partition("\n## ")[0]
LINKS = sorted(set(re.findall(r"\]\(([^)#:]+)", README)))
WORDS, LINES, COMMANDS_BY = 900, 40, 25


def words(markdown: str) -> list[str]:
    """Return the words of the rendered page: tables and code count, link targets and alternative
    texts do not; a word has at least one letter or digit.
    """
    texts = []
    for block in MarkdownIt("commonmark").enable("table").parse(markdown):
        texts.append(block.content if block.type == "fence" else " ")
        for part in block.children or []:
            seen = {"softbreak": " ", "text": part.content, "code_inline": part.content}
            texts.append(seen.get(part.type, ""))
    return [word for word in "".join(texts).split() if re.search(r"\w", word)]


def test_it_is_short_and_begins_with_what_to_type():
    assert len(words(README)) <= WORDS
    lines = FIRST_SCREEN.rstrip().splitlines()
    assert len(lines) <= LINES
    block = "\n".join(lines[:COMMANDS_BY])
    assert re.search(r"```console\nmake lab .*\nmake test .*\n```", block)
    assert "<" not in block  # nothing to fill in


@pytest.mark.parametrize("target", LINKS)
def test_a_link_leads_somewhere(target):
    assert (REPOSITORY / target).exists()


def test_the_lessons_are_those_of_the_sources_with_their_question_and_minutes():
    row = r"^\| \[(\d\d) [^]]+\]\(notebooks/(\w+)\.ipynb\) \| (.+) \| (\d+) \|$"
    assert re.findall(row, README, re.MULTILINE) == [
        (entry.number, entry.name, entry.title, str(entry.teach + entry.do))
        for entry in registry.lessons().values()
    ]


def test_each_picture_is_what_the_command_draws_from_the_recorded_runs():
    assert drift() == [], "run: lab author pictures"


@pytest.mark.parametrize("picture", pictures(), ids=lambda picture: picture.name)
def test_a_code_host_can_show_the_picture(picture):
    content = picture.path.read_bytes()
    assert len(content) < 150_000
    root = ElementTree.fromstring(content)  # an image has to be XML
    names = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not names & {"script", "image", "img", "link", "iframe"}
    # References within the file begin with a hash.
    links = re.findall(rb"""(?:href=["']|url\(|@import)([^"')]+)""", content)
    assert [link for link in links if not link.startswith(b"#")] == []


def test_the_drawing_shows_what_its_caption_says():
    before = recording.recorded_table("before")
    after = recording.recorded_table("after", since=before)
    assert {file.kind for file in before.files} == {"base"}
    assert [(file.kind, file.rows) for file in after.new_files] == [("log", 10)]
    assert not after.gone_files


def test_a_recorded_table_reads_like_the_table():
    keys = [*done(T1), *done(T2), base(T1), log(T2)]
    update = committed("UPSERT", stat(log(T2), written=10, updated=10))
    files = FilesInMemory("s3a://lakehouse/t", PROPERTIES, keys, {done(T2)[0]: update})
    again = recording.RecordedTable(recording.record_table(files))
    assert read_table(again) == read_table(files)
    assert [file.rows for file in read_table(again).files if file.kind == "log"] == [10]


def test_the_first_screen_has_the_figures_that_were_measured():
    lessons = registry.lessons().values()
    minutes = sorted(lesson.teach + lesson.do for lesson in lessons)
    assert f"{len(lessons)} Jupyter notebooks" in FIRST_SCREEN
    hours = f"{round(sum(minutes) / 60)} hours in all"
    assert f"{minutes[0]} to {minutes[-1]} minutes each, {hours}." in FIRST_SCREEN
    setup = re.search(r"\| first set-up, .*\| (.*?),.*; (.*?) in", FIGURES)
    assert f"the first time {setup[1]} and {setup[2]};" in FIRST_SCREEN
    minutes_of_all = int(re.search(r"`make test` took \*\*(\d+) minutes\*\*", CONTRIBUTING)[1])
    about = f"about {5 * round(minutes_of_all / 5)} minutes"
    assert about in FIRST_SCREEN and about in FIGURES
