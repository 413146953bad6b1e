"""What the README promises is there: its links, its pictures, its figures."""

import re
from xml.etree import ElementTree

import pytest
from xray_tables import PROPERTIES, T1, T2, FilesInMemory, base, committed, done, log, stat

from lab_env.course import registry
from lab_env.display.architecture import DRAWING, KAFKA, S3, architecture_svg
from lab_env.hudi.reader import read_table
from lab_env.publish import recording
from lab_env.publish.pictures import FOLDER, drift, pictures
from lab_env.settings import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (REPOSITORY / "CONTRIBUTING.md").read_text(encoding="utf-8")
FIRST_SCREEN = README.partition("\n## ")[0]
LINKS = sorted(set(re.findall(r"\]\(([^)#:]+)\)", README)))


@pytest.mark.parametrize("target", LINKS)
def test_a_link_leads_somewhere(target):
    assert (REPOSITORY / target).exists()


def test_its_picture_is_the_one_that_a_lesson_draws_with_the_addresses_of_its_lab():
    assert str(DRAWING.relative_to(REPOSITORY)) in LINKS
    # One address in the place of the other: each is replaced once, and no replacement is replaced.
    drawn = architecture_svg(kafka=S3, s3=f"http://{KAFKA}")
    assert f">{S3}<" in drawn and f"MinIO · {KAFKA}<" in drawn
    assert "&lt;b&gt;:9092" in architecture_svg("<b>:9092", S3)


def test_each_picture_is_what_the_command_draws_from_the_recorded_runs():
    assert drift() == [], "run: lab author pictures"


def test_the_first_screen_shows_every_picture_and_says_what_it_shows():
    shown = re.findall(r"!\[([^\]]+)\]\(([^)]+)\)", FIRST_SCREEN)
    assert shown == [
        (picture.alt, str(picture.path.relative_to(REPOSITORY))) for picture in pictures()
    ]
    assert set(FOLDER.iterdir()) == {picture.path for picture in pictures()}


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


def test_the_pictures_show_one_update_and_a_wrong_answer():
    before = recording.recorded_table("before")
    after = recording.recorded_table("after", since=before)
    assert {file.kind for file in before.files} == {"base"}
    assert [(file.kind, file.rows) for file in after.new_files] == [("log", 10)]
    wrong = registry.exercise(recording.EXERCISE).wrong[0].code
    assert recording.recorded_run()["answer"] == wrong, "run: lab author pictures --record"
    assert recording.recorded_facts().first == 3  # O-1 among them
    assert "O-1" not in recording.recorded_facts().second


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
    assert f"{minutes[0]} to {minutes[-1]} minutes each, {hours}," in FIRST_SCREEN
    setup = re.search(r"\| first set-up, .*\| (.*?),.*; (.*?) in", README)
    assert f"the first time {setup[1]} and {setup[2]};" in FIRST_SCREEN
    minutes_of_all = int(re.search(r"the whole takes \*\*(\d+) minutes\*\*", CONTRIBUTING)[1])
    assert f"about {round(minutes_of_all, -1)} minutes" in FIRST_SCREEN
