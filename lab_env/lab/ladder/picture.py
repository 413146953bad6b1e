"""Draws the history of a fall: from the shop through the topic and the function to the output.

Time goes down, one band per delivery. The drawing is one SVG for light and dark themes, and needs
nothing else: a notebook shows it, and a browser opens it as a file.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from html import escape
from itertools import groupby
from pathlib import Path

from lab_env.lab.ladder.history import (
    KILLED,
    MEANWHILE,
    ROWS,
    SENT,
    History,
    Step,
    abridged,
    as_sentence,
)
from lab_env.platform.display.palette import AMBER, BLUE, PINK, VERMILION
from lab_env.tables.xray.captions import clock
from lab_env.tables.xray.colours import GREEN

WIDTH, MARGIN, HEAD = 760, 12, 64  # pixels, as all numbers of this module
# Left edge and width of each lane.
SHOP, TOPIC, FUNCTION, OUTPUT = (22, 196), (266, 140), (452, 60), (536, 202)
LANES = {"shop": SHOP, "topic": TOPIC, "your function": FUNCTION, "output": OUTPUT}
CALL_X, CALL_WIDTH = FUNCTION[0] + FUNCTION[1] // 2, 12
LINE, PAD, GAP = 15, 5, 7  # height of a line of text, space around it, space between two rows
# Most characters of a line in a tile, by its CSS class, and of a request on the bar of a kill.
NAME, REQUEST = {"strong": 25, "small": 31, "": 24}, 106
FRAMES = {
    "expected": "the event that the output must show",
    "erasing": "the event that removes the row",
    "mistaken": "an event that it shows instead",
}
COLOURS = {"event": BLUE, "late": AMBER, "resend": PINK, "bad": VERMILION, "good": GREEN}
# JupyterLab's colour; without it, that of a light and of a dark page.
PAGE = {
    "ink": ("--jp-content-font-color1", "#24292f", "#e6edf3"),
    "faint": ("--jp-content-font-color2", "#57606a", "#9da7b3"),
    "paper": ("--jp-layout-color0", "#fff", "#151b23"),
}


def draw(history: History) -> str:
    """Return a history as an `<svg>` element; its alternative text tells the same in words."""
    picture = _Picture(history)
    for number, steps in groupby(abridged(history.steps), lambda step: step.delivery):
        picture.delivery(number, list(steps))
    return picture.svg()


class _Picture:
    """The marks drawn so far, and the height at which the next row begins."""

    def __init__(self, history: History):
        self.history, self.y = history, HEAD
        self.bands: list[str] = []
        self.marks: list[str] = []
        self.frames: set[str] = set()  # those of `FRAMES` that were drawn
        last = history.steps[-1]
        self.right = last.right if last.wrong else ()
        self.shown = last.events if last.wrong else ()

    def delivery(self, number: int, steps: Sequence[Step]) -> None:
        """Draw a delivery's steps, and the band behind them."""
        top = self.y
        none = f", no event of this {self.history.noun}" * (steps[0].what != SENT)
        label = f"delivery {number}{none}"
        self.marks.append(_text(SHOP[0], top + 15, label, "small"))
        self.y += 22
        for place, step in enumerate(steps):
            if step.what == SENT:
                self._sent(step)
            elif step.what == MEANWHILE:
                self._bar("trouble", f"meanwhile: {step.place}")
            elif step.what == KILLED:
                self._killed(step)
            else:
                self._shown(step, [earlier.what for earlier in steps[:place]])
        self.bands.append(_box((MARGIN, WIDTH - 2 * MARGIN), top, self.y - top, "band"))
        self.y += GAP

    def svg(self) -> str:
        """Return the drawing."""
        lanes = [_lane(name, *lane, self.y - GAP) for name, lane in LANES.items()]
        title = _text(MARGIN, 22, _short(f"The life of {self.history.name}", 80), "title")
        height = self.y + LINE + PAD
        parts = "\n".join([*self.bands, *lanes, title, *self.marks, *self._legend()])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="fall" width="{WIDTH}" '
            f'height="{height}" viewBox="0 0 {WIDTH} {height}" role="img" '
            f'aria-label="{_escaped(as_sentence(self.history))}">\n<style>{_style()}</style>\n'
            f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>\n{parts}\n</svg>\n'
        )

    def _legend(self) -> Iterator[str]:
        """Yield what the frames of two of the events mean."""
        x, y = SHOP[0], self.y + 8
        for kind, meaning in FRAMES.items():
            if kind not in self.frames:
                continue
            yield _box((x, 22), y - 10, 12, f"tile event {kind}")
            yield _text(x + 30, y, meaning, "small")
            x += 250

    def _sent(self, step: Step) -> None:
        """An event's tile, with an arrow to its place in the topic."""
        if step.omitted:
            height = self._tile(SHOP, [(f"{step.omitted} more events", "")], "more")
        else:
            (name,) = step.events
            small = [(line, "small") for line in (step.about, step.note) if line]
            lines = [(name, "strong"), *small]
            height = self._tile(SHOP, lines, self._kind(name, step.note))
            self._tile(TOPIC, [(step.place, "")], "place")
            self._arrow(sum(SHOP), TOPIC[0], self.y + _height(1) // 2)
        self.y += height + GAP

    def _killed(self, step: Step) -> None:
        """A call that ends at a red bar across all lanes."""
        self._call(_height(1) + 4, "call")
        self.y += _height(1) + 4
        self._bar("kill", f"killed {step.place}")

    def _bar(self, kind: str, words: str) -> None:
        """A bar across all lanes."""
        bar = MARGIN, WIDTH - 2 * MARGIN
        self.marks.append(_box(bar, self.y, _height(1), kind, words))
        self.marks.append(_text(SHOP[0], self.y + 17, _short(words, REQUEST), "key strong"))
        self.y += _height(1) + GAP

    def _shown(self, step: Step, before: Sequence[str]) -> None:
        """The output as a reader sees it: after a call of the function, or after its kill."""
        lines = list(_rows(step))
        height = _height(len(lines))
        middle = self.y + height // 2
        if not step.called:
            words = "a reader then sees" if before[-1:] == [KILLED] else "the lab has prepared"
            self.marks.append(_text(OUTPUT[0] - 10, middle + 4, words, "small end halo"))
        else:
            self._call(height, "call again" if KILLED in before else "call")
            self._arrow(CALL_X + CALL_WIDTH // 2, OUTPUT[0], middle, "-wrong" * step.wrong)
        self._tile(OUTPUT, lines, "wrong" if step.wrong else "row" if step.events else "none")
        self.y += height + GAP
        if step.wrong:
            must = list(_rows(replace(step, events=step.right, commits=()), "must show"))
            self.y += self._tile(OUTPUT, must, "must") + GAP

    def _call(self, height: int, label: str) -> None:
        """A bar for one call of the function, which reads from the topic."""
        self._arrow(sum(TOPIC), CALL_X - CALL_WIDTH // 2, self.y + 7)
        self.marks.append(_box((CALL_X - CALL_WIDTH // 2, CALL_WIDTH), self.y, height, "bar"))
        self.marks.append(_text(CALL_X - CALL_WIDTH, self.y + 21, label, "small end"))

    def _kind(self, name: str, note: str) -> str:
        """Return the CSS classes of an event's tile, with its frame if the wrong step names it."""
        kind = note.split(":")[0] or "event"
        frame = "expected" if name in self.right else "mistaken" if name in self.shown else ""
        if not self.right and self.shown and name.startswith("erased ") and kind != "malformed":
            frame = "erasing"
        if not frame:
            return kind
        self.frames.add(frame)
        return f"{kind} {frame}"

    def _tile(self, lane: tuple[int, int], lines: Sequence[tuple[str, str]], kind: str) -> int:
        """Draw a box with lines of text and their CSS classes; return its height."""
        height = _height(len(lines))
        hover = "\n".join(text for text, _ in lines)
        self.marks.append(_box(lane, self.y, height, f"tile {kind}", hover))
        for place, (text, style) in enumerate(lines):
            y = self.y + PAD + LINE * place + 12
            x = lane[0] + 9
            if text.startswith("commit "):
                self.marks.append(f'<circle class="instant" cx="{x + 4}" cy="{y - 4}" r="4"/>')
                x += 13
            self.marks.append(_text(x, y, _short(text, NAME[style]), style))
        return height

    def _arrow(self, left: int, right: int, y: int, kind: str = "") -> None:
        line = f' class="arrow to{kind}" d="M{left + 2} {y}H{right - 8}"'
        tip = f' class="tip{kind}" d="M{right - 1} {y}l-8 -4v8z"'
        self.marks.append(f"<path{line}/><path{tip}/>")


def _rows(step: Step, word: str = "shows") -> Iterator[tuple[str, str]]:
    """Yield the lines of a tile for the output's rows: their events and their commits."""
    count = f"{len(step.events)} rows" if len(step.events) > 1 else ""
    if head := f"{word * step.wrong} {count}".strip():
        yield head, "small"
    if not step.events:
        yield "no row", "strong" if step.wrong else ""
    for place, name in enumerate(step.events[:ROWS]):
        yield name, "strong"
        if step.commits and step.commits[place].isdigit():
            yield f"commit {clock(step.commits[place])}", "small"
    if len(step.events) > ROWS:
        yield f"and {len(step.events) - ROWS} more", "small"


def _lane(name: str, left: int, width: int, bottom: int) -> str:
    x = left + width // 2
    line = f'<path class="lane" d="M{x} {HEAD - 8}V{bottom}"/>'
    return line + _text(x, HEAD - 14, name, "head")


def _height(lines: int) -> int:
    return LINE * lines + 2 * PAD


def _box(lane: tuple[int, int], y: int, height: int, kind: str, hover: str = "") -> str:
    left, width = lane
    box = f'class="{kind}" x="{left}" y="{y}" width="{width}" height="{height}" rx="4"'
    title = f"<title>{_escaped(hover)}</title>" if hover else ""
    return f"<rect {box}>{title}</rect>"


def _text(x: int, y: int, text: str, style: str = "") -> str:
    return f'<text class="{style}" x="{x}" y="{y}">{_escaped(text)}</text>'


def _short(text: str, most: int) -> str:
    """Cut a long text in its middle, because requests differ at their ends."""
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def _escaped(text: str) -> str:
    """Escape a text that a learner's output may contain; XML has no control characters."""
    return escape("".join(c if c.isprintable() or c == "\n" else "\ufffd" for c in text))


@cache
def _style() -> str:
    def page(theme: int) -> str:
        return " ".join(f"--{name}: var({of[0]}, {of[theme]});" for name, of in PAGE.items())

    own = " ".join(f"--{name}: {colour};" for name, colour in COLOURS.items())
    dark = f"@media (prefers-color-scheme: dark) {{ .fall {{ {page(2)} }} }}"
    css = Path(__file__).with_name("picture.css").read_text("utf-8")
    return f"\n.fall {{ {own} {page(1)} }}\n{dark}\n{css}"
