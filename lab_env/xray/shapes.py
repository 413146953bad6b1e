"""The drawing's words and marks: strings of SVG, and how wide a text will be.

Widths are those of DejaVu Sans, the widest of the fonts that browsers take for `system-ui`, so what
fits here fits everywhere.
"""

from html import escape

from lab_env.xray.colours import FAINT, INK

SANS = "system-ui,-apple-system,'Segoe UI',sans-serif"
MONO = "ui-monospace,SFMono-Regular,Menlo,monospace"
MONO_WIDTH = 0.603
BOLD = 1.13  # bold letters are wider by this much at most
# Width in parts of the font's size: the letters of each.
_LETTERS = {
    0.3: "'IJijl|",
    0.35: " ,./:;\\·",
    0.4: "()-[]ft",
    0.45: "!r",
    0.55: '?csz_"*',
    0.6: "FLkvxy",
    0.65: "$0123456789EPSTYabdeghnopqu",
    0.75: "ABCKRVXZNU",
    0.85: "&DGHOQ+<=>#w→×",
    1.0: "Mm@W%…",
}
_WIDTH = {letter: width for width, letters in _LETTERS.items() for letter in letters}


def text_width(words: str, size: float, bold: bool = False, mono: bool = False) -> float:
    """How many pixels a text takes at most."""
    if mono:
        return len(words) * MONO_WIDTH * size
    return sum(_WIDTH.get(letter, 1.0) for letter in words) * size * (BOLD if bold else 1)


def fitted(words: str, room: float, size: float, bold: bool = False, mono: bool = False) -> str:
    """A text cut in its middle so that it takes no more than `room` pixels."""
    if text_width(words, size, bold, mono) <= room:
        return words
    for kept in range(len(words) - 1, 1, -1):
        head = words[: (kept + 1) // 2 - 1] if kept > 2 else words[:1]
        short = f"{head}…{words[len(words) - kept // 2 :]}"
        if text_width(short, size, bold, mono) <= room:
            return short
    return "…"


def text(
    x: float,
    y: float,
    words: str,
    size: float,
    colour: str = INK,
    anchor: str = "start",
    bold: bool = False,
    mono: bool = False,
    more: str = "",
) -> str:
    """Words with their base line at y."""
    weight = ' font-weight="600"' if bold else ""
    family = f' font-family="{MONO}"' if mono else ""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}"{weight}{family}'
        f' style="fill:{colour}"{more}>{escape(words)}</text>'
    )


def box(
    x: float,
    y: float,
    width: float,
    height: float,
    fill: str = "none",
    stroke: str = "none",
    radius: float = 5,
    thick: float = 1.3,
    dash: str = "",
    opacity: float = 1,
    edge: float = 1,
    kind: str = "",
) -> str:
    """A rounded rectangle; `opacity` is its filling's, `edge` its border's, `kind` its class
    (after `xray-`)."""
    parts = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"',
        f' style="fill:{fill};stroke:{stroke}"',
        f' fill-opacity="{opacity:g}"' if opacity != 1 else "",
        f' stroke-opacity="{edge:g}"' if edge != 1 else "",
        f' stroke-width="{thick:g}"' if stroke != "none" else "",
        f' stroke-dasharray="{dash}"' if dash else "",
        f' class="xray-{kind}"' if kind else "",
        "/>",
    ]
    return "".join(parts)


def line(x1: float, y1: float, x2: float, y2: float, colour: str = FAINT, more: str = "") -> str:
    """A straight line."""
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" style="stroke:{colour}" fill="none"{more}/>'


def mark(action: str, x: float, y: float, colour: str, filled: bool, paper: str) -> str:
    """An instant's mark: its shape says what kind of action it is, hollow says not complete."""
    shapes = {
        "compaction": "M0 -9L9 0L0 9L-9 0Z",
        "logcompaction": "M0 -9L9 0L0 9L-9 0Z",
        "clustering": "M-7 -7H7V7H-7Z",
        "replacecommit": "M-7 -7H7V7H-7Z",
        "rollback": "M7 -7V7L-8 0Z",
        "restore": "M7 -7V7L-8 0Z",
        "clean": "M0 -5A5 5 0 1 1 0 5A5 5 0 1 1 0 -5Z",
        "savepoint": "M-6 -7H6V7L0 3L-6 7Z",
    }
    path = shapes.get(action, "M0 -7.5A7.5 7.5 0 1 1 0 7.5A7.5 7.5 0 1 1 0 -7.5Z")
    fill = colour if filled else paper
    dash = "" if filled else ' stroke-dasharray="3 2"'
    return (
        f'<path d="{path}" transform="translate({x:.1f} {y:.1f})" stroke-width="2"{dash} '
        f'style="fill:{fill};stroke:{colour}"/>'
    )


def hover(told: str, *parts: str) -> str:
    """Parts of the drawing that tell more under the pointer."""
    return f"<g><title>{escape(told)}</title>{''.join(parts)}</g>"


def flow(widths: list[float], left: float, right: float, gap: float) -> list[tuple[float, int]]:
    """Where things of these widths go, side by side, in as many lines as they need.

    Args:
        widths: of each, in pixels.
        left: where a line begins.
        right: where it must end.
        gap: between two of them.

    Returns:
        For each its x and the number of its line.
    """
    places, x, row = [], left, 0
    for width in widths:
        if x > left and x + width > right:
            x, row = left, row + 1
        places.append((x, row))
        x += width + gap
    return places
