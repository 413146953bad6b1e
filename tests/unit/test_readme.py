"""The README's links work, and its pictures and list of lessons are current."""

import re
from xml.etree import ElementTree

import pytest
from xray_tables import PROPERTIES, T1, T2, FilesInMemory, base, committed, done, log, stat

from lab_env.course import registry
from lab_env.course.publishing import recording
from lab_env.course.publishing.pictures import drift, pictures
from lab_env.platform.settings import REPOSITORY
from lab_env.tables.hudi.reader import read_table

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
LINKS = sorted(set(re.findall(r"\]\(([^)#:]+)", README)))


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
