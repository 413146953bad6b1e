"""The X-ray's drawing: nothing overlaps or is cut, every name is there, one code of colours.

Texts are measured with the DejaVu fonts that Matplotlib brings, not with the drawing's own estimate.
"""

import math
import re
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from xray_tables import DAY, OTHER_DAY, T1, T2, T3, T4, T5, base, committed, done, log, stat, table

import lab_env.xray
from lab_env.xray import colours
from lab_env.xray.axis import axis_of

SLACK = 0.6  # pixels


def group(number: int) -> str:
    return f"{number:08x}-ed49-4a87-9a58-abb72b4ab274-0"


def at(day: int, hour: int = 9, minute: int = 0) -> str:
    return f"202611{day:02d}{hour:02d}{minute:02d}00000"


def many_groups(count: int, partitions: int = 1, name: str = "day=2026-11-{:02d}"):
    """A table whose third write logs on, and fourth rewrites, some of its file groups."""
    places = [(group(n), name.format(n % partitions)) for n in range(count)]
    return table(
        *done(T1), *done(T2), *done(T3),
        *[base(T1, *place) for place in places],
        *[log(T2, *place) for place in places[::3]],
        *[base(T3, *place) for place in places[::4]],
    )  # fmt: skip


def many_instants(count: int):
    times = [at(20, 9 + n // 60, n % 60) for n in range(count)]
    keys = [
        key
        for n, t in enumerate(times)
        for key in done(t, "clean" if n % 5 == 4 else "deltacommit")
    ]
    logs = [log(t, group(1)) for n, t in enumerate(times) if n and n % 5 != 4]
    return table(*keys, base(times[0], group(1)), base(times[0], group(2), OTHER_DAY), *logs)


def over_days():
    times = [at(18), at(18, 13), at(20), at(21), at(21, 9, 1)]
    return table(*[key for t in times for key in done(t, "replacecommit")], base(times[0]))


def changed():
    before = table(*done(T1), base(T1), base(T1, "b-0", OTHER_DAY), base(T1, "c-0"))
    return table(
        *done(T1), *done(T2), *done(T3, "clean"), f".hoodie/timeline/{T4}.deltacommit.inflight",
        base(T2), base(T1, "c-0"), log(T2, "c-0"), log(T2, "c-0") + ".cdc", base(T4, "c-0"),
        base(at(20, 9, 3).replace("00000", "30000"), "c-0"), since=before,
    )  # fmt: skip


def long_names():
    day = "region=the-far-north-of-the-country/warehouse=number-two/day=2026-11-20/hour=13"
    properties = f"hoodie.table.name={'orders_' * 20}\nhoodie.table.version=9\n"
    keys = [
        *done(T1),
        *done(T2),
        base(T1, group(1), day),
        base(T2, group(1), day),
        base(T1, group(2)),
    ]
    return table(*keys, properties=properties)


TABLES = {
    **{f"{n} groups": lambda n=n: many_groups(n) for n in (1, 7, 10, 24, 60, 200)},
    "60 groups in 12 partitions": lambda: many_groups(60, 12),
    "200 partitions": lambda: many_groups(200, 200, "partition_date=number-{:03d}"),
    "200 nested partitions": lambda: many_groups(200, 200, "region=north/warehouse={:03d}/hour=3"),
    "7 partitions": lambda: many_groups(7, 7),
    "500 groups": lambda: many_groups(500, 40),
    **{f"{n} instants": lambda n=n: many_instants(n) for n in (1, 8, 14, 30, 90)},
    "days": over_days,
    "changed": changed,
    "long names": long_names,
    "empty": table,
}


@pytest.fixture(params=TABLES, scope="module")
def picture(request):
    return TABLES[request.param]()


@dataclass
class Shape:
    """A text or a rectangle of the drawing: what it is and its four corners."""

    kind: str
    words: str
    corners: list[tuple[float, float]]

    @property
    def span(self) -> tuple[float, float]:
        xs = [x for x, _ in self.corners]
        return min(xs), max(xs)


@cache
def font(bold: bool, mono: bool) -> FT2Font:
    family = "DejaVu Sans Mono" if mono else "DejaVu Sans"
    wanted = font_manager.FontProperties(family=family, weight="bold" if bold else "normal")
    found = FT2Font(font_manager.findfont(wanted))
    found.set_size(100, 72)
    return found


@cache
def letter_width(letter: str, bold: bool, mono: bool) -> float:
    return font(bold, mono).load_char(ord(letter)).linearHoriAdvance / 65536 / 100


def width_of(words: str, size: float, bold: bool, mono: bool) -> float:
    return sum(letter_width(letter, bold, mono) for letter in words) * size


def turned(corners, degrees: float, about: tuple[float, float]):
    sine, cosine = math.sin(math.radians(degrees)), math.cos(math.radians(degrees))
    return [
        (
            about[0] + (x - about[0]) * cosine - (y - about[1]) * sine,
            about[1] + (x - about[0]) * sine + (y - about[1]) * cosine,
        )
        for x, y in corners
    ]


@lru_cache(maxsize=1)
def shapes(picture) -> tuple[list[Shape], float, float]:
    """Texts and rectangles with a class, and the drawing's width and height."""
    root = ElementTree.fromstring(picture._repr_html_())
    width, height = map(float, root.get("viewBox").split()[2:])
    found = []
    for element in root.iter():
        tag = element.tag.rpartition("}")[2]
        if tag == "text":
            size, words = float(element.get("font-size")), element.text or ""
            mono = "mono" in (element.get("font-family") or "")
            wide = width_of(words, size, element.get("font-weight") == "600", mono)
            x, y = float(element.get("x")), float(element.get("y"))
            x -= {"start": 0, "middle": wide / 2, "end": wide}[element.get("text-anchor")]
            top, bottom = y - 0.75 * size, y + 0.2 * size
            corners = [(x, top), (x + wide, top), (x + wide, bottom), (x, bottom)]
            if turn := re.fullmatch(r"rotate\((\S+) (\S+) (\S+)\)", element.get("transform") or ""):
                degrees, *about = map(float, turn.groups())
                corners = turned(corners, degrees, tuple(about))
            found.append(Shape("text", words, corners))
        elif tag == "rect" and element.get("class"):
            x, y, wide, high = (float(element.get(name)) for name in ("x", "y", "width", "height"))
            corners = [(x, y), (x + wide, y), (x + wide, y + high), (x, y + high)]
            found.append(Shape(element.get("class").removeprefix("xray-"), "", corners))
    return found, width, height


def overlap(one: Shape, other: Shape) -> bool:
    """Whether two convex shapes share more than an edge: no line parts them."""
    for a, b in ((one, other), (other, one)):
        for (x1, y1), (x2, y2) in zip(a.corners, [*a.corners[1:], a.corners[0]], strict=True):
            length = math.hypot(x2 - x1, y2 - y1)
            if not length:
                return False
            nx, ny = (y2 - y1) / length, (x1 - x2) / length
            mine = [x * nx + y * ny for x, y in a.corners]
            theirs = [x * nx + y * ny for x, y in b.corners]
            if max(mine) <= min(theirs) + SLACK or max(theirs) <= min(mine) + SLACK:
                return False
    return True


def near(one: Shape, other: Shape) -> bool:
    """A cheap first look."""
    (x1, y1), (x2, y2) = one.corners[0], other.corners[0]
    return abs(y1 - y2) < 80 and abs(x1 - x2) < 700


def test_no_two_texts_overlap(picture):
    texts = [shape for shape in shapes(picture)[0] if shape.kind == "text"]
    clashes = [
        (a.words, b.words) for a, b in combinations(texts, 2) if near(a, b) and overlap(a, b)
    ]
    assert clashes == []


def test_no_two_boxes_of_files_overlap(picture):
    boxes = [shape for shape in shapes(picture)[0] if shape.kind in ("file", "strip")]
    assert [(a, b) for a, b in combinations(boxes, 2) if near(a, b) and overlap(a, b)] == []


def test_frames_of_slices_do_not_overlap(picture):
    frames = [shape for shape in shapes(picture)[0] if shape.kind == "slice"]
    assert [(a, b) for a, b in combinations(frames, 2) if near(a, b) and overlap(a, b)] == []


def test_nothing_leaves_the_picture_and_no_word_leaves_its_box(picture):
    found, width, height = shapes(picture)
    for shape in found:
        for x, y in shape.corners:
            assert -SLACK <= x <= width + SLACK and -SLACK <= y <= height + SLACK, shape
    assert width <= 950
    boxes = [shape for shape in found if shape.kind in ("file", "chip", "pill")]
    for words in (shape for shape in found if shape.kind == "text"):
        for box in boxes:
            if near(words, box) and overlap(words, box):
                assert box.span[0] - SLACK <= words.span[0] <= words.span[1] <= box.span[1] + SLACK


def test_boxes_of_files_are_drawn(picture):
    kinds = [shape.kind for shape in shapes(picture)[0]]
    assert ("file" in kinds) == bool(picture.files)


def hovers(picture) -> str:
    root = ElementTree.fromstring(picture._repr_html_())
    return "\n".join(e.text for e in root.iter() if e.tag.endswith("title"))


@pytest.mark.parametrize("count", [1, 7, 60, 200])
def test_every_full_name_appears_under_the_pointer(count):
    picture = many_groups(count, min(count, 5))
    told = hovers(picture)
    assert [file.name for file in picture.files if file.name not in told] == []
    assert [i for i in picture.instants if i.requested not in told or i.completed not in told] == []
    assert picture.path in told


def test_the_text_form_tells_what_the_pointer_tells(picture):
    words = repr(picture)
    for file in (*picture.files, *picture.gone_files):
        assert file.name in words and file.group in words and file.partition in words
        assert f"{file.size:,} bytes" in words
    for instant in picture.instants:
        line = next(line for line in words.splitlines() if f"requested {instant.requested}" in line)
        assert instant.action in line and (instant.completed or instant.state) in line
    for part, row in picture.parts().iterrows():
        assert (
            f"{part} {row.objects} (" in words
            and f"{part} {row.objects} (" in picture._repr_html_()
        )


def test_beyond_200_file_groups_it_says_what_is_left_out():
    picture = many_groups(500, 40)
    assert "and 300 more file groups" in picture._repr_html_()
    assert "more file groups" not in many_groups(200, 40)._repr_html_()
    words = repr(picture)
    assert [file for file in picture.files if file.name not in words] == []


def test_many_instants_share_the_first_column_and_are_told_there():
    picture = many_instants(90)
    assert "earlier" in picture._repr_html_()
    told = hovers(picture)
    assert [instant for instant in picture.instants if instant.requested not in told] == []
    assert "earlier" not in many_instants(30)._repr_html_()


def test_where_room_is_short_the_numbers_of_rows_stay_whole():
    first, *optional = [at(20, 9, minute) for minute in range(7)]
    insert = stat(base(first, group(1)), written=1000, inserted=1000, group=group(1))
    updates = [stat(log(t, group(1)), written=250, updated=250, group=group(1)) for t in optional]
    contents = {
        done(instant)[0]: committed("UPSERT", told)
        for instant, told in zip([first, *optional], [insert, *updates], strict=True)
    }
    picture = table(
        *[key for instant in (first, *optional) for key in done(instant)],
        *[told["path"] for told in (insert, *updates)],
        contents=contents,
    )
    assert ">1,000 rows + 1,500 changes</text>" in picture._repr_html_()


def test_a_file_stands_under_its_instant():
    picture = many_groups(1)
    axis = axis_of(picture, 150, 930)
    boxes = sorted(s.span for s in shapes(picture)[0] if s.kind == "file")
    assert len(boxes) == 3
    spacing = axis.columns[1].x - axis.columns[0].x
    assert boxes[1][0] - boxes[0][0] == pytest.approx(spacing)


def test_files_of_one_slice_and_instant_share_a_box_that_tells_them_all():
    logs = [log(T2, version=number) for number in (1, 2)]
    picture = table(*done(T1), *done(T2), base(T1), *logs)
    assert ">2 logs</text>" in picture._repr_html_()
    assert all(name.rpartition("/")[2] in hovers(picture) for name in logs)


def test_slices_that_would_cover_each_other_stand_in_lanes():
    # The first log of two is complete only after the compaction was requested: it joins its slice.
    picture = table(
        *done(T1), *done(T2, end_of=T5), *done(T3), *done(T4, "commit"),
        base(T1), log(T2), log(T3), base(T4),
    )  # fmt: skip
    assert [[file.instant for file in s.files] for s in picture.slices] == [[T1, T3], [T4, T2]]
    frames = [shape for shape in shapes(picture)[0] if shape.kind == "slice"]
    assert len(frames) == len(picture.slices)
    assert [(a, b) for a, b in combinations(frames, 2) if overlap(a, b)] == []


def test_the_time_between_instants_is_written_from_seconds_to_days():
    svg = over_days()._repr_html_()
    for words in ("+4 h", "+1 min", "+1 d", ">11-18<", ">11-20<", ">11-21<"):
        assert words in svg, words


def test_what_a_write_added_rewrote_and_removed_is_said():
    picture = changed()
    svg = picture._repr_html_()
    assert {f.group for f in picture.gone_files} == {"a-0", "b-0"}
    assert {f.group for f in picture.rewritten_files} == {"a-0", "c-0"}
    for word in ("new", "rewritten", "removed"):
        assert f">{word}</text>" in svg and f"{word} since the last look" in repr(picture)
    assert "new since last look" in svg and "removed since last look" in svg
    unmarked = many_groups(7)
    assert "since" not in unmarked._repr_html_() and "since" not in repr(unmarked)


def test_the_legend_explains_only_what_is_there():
    plain = table(*done(T1), base(T1))._repr_html_()
    assert "solid:" not in plain and "hollow" not in plain and "not committed" not in plain
    svg = changed()._repr_html_()
    for words in ("solid:", "hollow: not complete", "not committed: no reader sees it", "cdc log"):
        assert words in svg


def test_the_metadata_tables_partitions_are_told():
    folder = ".hoodie/metadata"
    names = (
        f"{folder}/files/a",
        f"{folder}/files/b",
        f"{folder}/record_index/a",
        f"{folder}/.hoodie/x",
    )
    picture = table(*done(T1), base(T1), *names)
    for form in (repr(picture), picture._repr_html_()):
        assert "files 2 (2.0 KB)" in form and "record_index 1 (1.0 KB)" in form
    assert list(picture.metadata_partitions.index) == ["files", "record_index"]


def test_colours_come_from_one_place():
    named = {value for value in vars(colours).values() if isinstance(value, str)}
    known = {c.lower() for text in named for c in re.findall(r"#[0-9A-Fa-f]{3,6}\b", text)}
    for make in TABLES.values():
        used = re.findall(r"[:\"]\s*(#[0-9A-Fa-f]{3,6})\b", make()._repr_html_())
        assert {colour.lower() for colour in used} <= known
    for source in Path(lab_env.xray.__file__).parent.glob("*.py"):
        if source.name != "colours.py":
            assert re.findall(r"#[0-9A-Fa-f]{6}\b|#[0-9A-Fa-f]{3}\b", source.read_text()) == []


def test_text_takes_its_colour_from_the_page():
    svg = changed()._repr_html_()
    fills = set(re.findall(r"<text[^>]*style=\"fill:([^\"]*)\"", svg))
    assert fills <= {colours.INK, colours.FAINT, colours.ON_FILE, colours.ON_NEW}
    assert colours.INK.startswith("var(--jp-") and colours.FAINT.startswith("var(--jp-")


def test_rows_are_told_where_commits_tell_them():
    contents = {done(T1)[0]: committed("INSERT", stat(base(T1), written=1234, inserted=1234))}
    picture = table(*done(T1), base(T1), contents=contents)
    assert picture.rows == 1234
    assert "1,234 rows" in picture._repr_html_() and "1,234 rows" in repr(picture)
    with_log = table(*done(T1), *done(T2), base(T1), log(T2), contents=contents)
    assert with_log.rows is None


def test_an_unpartitioned_and_an_empty_table_say_so():
    assert "(no partitions)" in table(*done(T1), base(T1, day=""))._repr_html_()
    assert "no write yet" in table()._repr_html_() and DAY not in table()._repr_html_()
