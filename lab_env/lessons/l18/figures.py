"""Draws two writers of one table over time: writes, locks held, and wasted work."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

from lab_env.lessons.l18.colleague import COMMITTED, Running
from lab_env.lessons.l18.locks import Holding
from lab_env.platform.display.palette import AMBER, BLUE, GREEN, GREY, VERMILION
from lab_env.platform.display.units import size_text
from lab_env.tables.hudi.timeline import to_seconds

WRITER = {"you": BLUE, "colleague": AMBER}
LEFT, TOP, WIDTH, ROW = 92, 26, 640, 46  # pixels
NOTE = 190  # pixels for what stands beside the lanes


@dataclass(frozen=True)
class Race:
    """Concurrent writes of one table; dictionaries have the keys `you` and `colleague`."""

    runs: dict[str, Running]
    commits: list[tuple[str, float]]  # writer and completion (s since 1970)
    written: Mapping[str, int]  # bytes of data files that belong to a complete commit
    wasted: Mapping[str, int]  # bytes of data files that belong to none
    locks: Sequence[Holding] = field(default_factory=list)


def race_of(lab, table: str, mine: Running, hers: Running) -> Race:
    """Collect the results of two concurrent writes to a table.

    An instant that was requested during your write is attributed to you, because the colleague was
    frozen at that time.
    """
    picture = lab.xray(table)

    def writer_of(instant: str) -> str:
        for run in (mine, hers):
            if run.began <= to_seconds(instant) + 0.001 and to_seconds(instant) <= run.ended:
                return run.who
        return ""

    written, wasted = Counter(), Counter()
    for file in picture.files:
        (written if file.committed else wasted)[writer_of(file.instant)] += file.size
    commits = [
        (writer_of(instant.requested), to_seconds(instant.completed))
        for instant in picture.instants
        if instant.writes and instant.completed
    ]
    runs = {run.who: run for run in (mine, hers)}
    return Race(runs, [c for c in commits if c[0]], written, wasted, hers.locks)


def draw_race(race: Race) -> str:
    """Draw a lane for each writer and one for the lock, over time in seconds.

    A wide bar is a write, hatched while its process was frozen; a tick is a commit, a cross an
    error. Bars in the lowest lane show who held the lock.
    """
    begin = min(run.began for run in race.runs.values())
    end = max(run.ended for run in race.runs.values())
    scale = WIDTH / max(end - begin, 0.001)

    def x(seconds: float) -> float:
        return LEFT + (min(max(seconds, begin), end) - begin) * scale

    parts = [HATCH]
    lanes = [*race.runs, *(["lock"] if race.locks else [])]
    for row, lane in enumerate(lanes):
        y = TOP + ROW * row
        parts.append(_text(0, y + 14, lane, weight="bold"))
        parts.append(_line(LEFT, y + 28, LEFT + WIDTH, y + 28, GREY))
        if lane == "lock":
            parts += [_lock(x, y, held) for held in race.locks]
        else:
            parts += _run(x, y, lane, race)
    bottom = TOP + ROW * len(lanes)
    parts.append(_text(LEFT, bottom + 4, "0 s"))
    parts.append(_text(LEFT + WIDTH, bottom + 4, f"{end - begin:.1f} s", anchor="end"))
    width, height = LEFT + WIDTH + NOTE, bottom + 14
    return (
        f"<svg viewBox='0 0 {width} {height}' width='{width}' style='max-width:100%'"
        " font-family='sans-serif' font-size='13' fill='var(--jp-content-font-color1, #333)'"
        f" xmlns='http://www.w3.org/2000/svg'>{''.join(parts)}</svg>"
    )


HATCH = (
    "<defs><pattern id='l18-frozen' width='6' height='6' patternUnits='userSpaceOnUse'"
    " patternTransform='rotate(45)'><rect width='6' height='6' fill='var(--jp-layout-color0,#fff)'"
    f"/><rect width='2' height='6' fill='{GREY}'/></pattern></defs>"
)


def _run(x, y: int, writer: str, race: Race) -> list[str]:
    run, colour = race.runs[writer], WRITER[writer]
    left, right = x(run.began), x(run.ended)
    bar = f"<rect x='{left:.1f}' y='{y}' width='{right - left:.1f}' height='20' rx='3'"
    parts = [f"{bar} fill='{colour}'><title>{escape(f'{writer}: {run.outcome}')}</title></rect>"]
    if run.frozen[1]:
        begin, end = x(run.frozen[0]), x(run.frozen[1])
        parts.append(
            f"<rect x='{begin:.1f}' y='{y}' width='{end - begin:.1f}' height='20'"
            " fill='url(#l18-frozen)'><title>frozen</title></rect>"
        )
        parts.append(_text(begin + 4, y + 42, "frozen", size=11))
    for who, when in race.commits:
        if who == writer:
            parts.append(_line(x(when), y - 6, x(when), y + 28, GREEN, 3, "commit complete"))
    if run.outcome != COMMITTED:
        parts.append(_cross(right, y + 10, run.outcome))
    written, wasted = race.written.get(writer, 0), race.wasted.get(writer, 0)
    side = LEFT + WIDTH + 14
    parts.append(_text(side, y + 8, f"{size_text(written)} committed", size=12))
    if wasted:
        parts.append(_text(side, y + 25, f"{size_text(wasted)} wasted", size=12, fill=VERMILION))
    return parts


def _lock(x, y: int, held: Holding) -> str:
    left, right = x(held.began), x(held.ended)
    who, milliseconds = held.writer or "somebody", (held.ended - held.began) * 1000
    title = f"{who} holds {held.path} for {milliseconds:.0f} ms"
    return (
        f"<rect x='{left:.1f}' y='{y + 6}' width='{max(right - left, 2):.1f}' height='14'"
        f" fill='{WRITER.get(held.writer, GREY)}'><title>{escape(title)}</title></rect>"
    )


def _cross(x: float, y: float, why: str) -> str:
    return (
        f"<g transform='translate({x:.1f} {y})' stroke='{VERMILION}' stroke-width='3.5'>"
        f"<path d='M-7 -7 L7 7 M-7 7 L7 -7' fill='none'/><title>{escape(why)}</title></g>"
    )


def _line(x1, y1, x2, y2, colour: str, width: float = 1, title: str = "") -> str:
    return (
        f"<line x1='{x1:.1f}' y1='{y1}' x2='{x2:.1f}' y2='{y2}' stroke='{colour}'"
        f" stroke-width='{width}'><title>{escape(title)}</title></line>"
    )


def _text(x, y, text: str, weight="normal", anchor="start", size=13, fill="") -> str:
    colour = f" fill='{fill}'" if fill else ""
    return (
        f"<text x='{x:.1f}' y='{y}' font-weight='{weight}' text-anchor='{anchor}'"
        f" font-size='{size}'{colour}>{escape(text)}</text>"
    )
