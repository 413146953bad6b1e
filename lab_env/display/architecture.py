"""The architecture as one drawing, with the addresses of the lab that it is drawn for."""

from html import escape

from lab_env.display.palette import AMBER, BLUE, GREEN

# One box: key, column, row, title, second line. Arrows name their ends by key.
_BOXES = (
    ("load", 0, 1, "Locust", "order events + ledger"),
    ("kafka", 1, 1, "Kafka", ""),
    ("spark", 2, 1, "Spark", "Structured Streaming"),
    ("json", 3, 0, "JSON files", "the baseline"),
    ("cow", 3, 1, "Hudi COW", "Copy-on-Write"),
    ("mor", 3, 2, "Hudi MOR", "Merge-on-Read"),
    ("query", 4, 1, "Queries", "with plain Spark"),
)
_ARROWS = (
    ("load", "kafka"),
    ("kafka", "spark"),
    ("spark", "json"),
    ("spark", "cow"),
    ("spark", "mor"),
    ("json", "query"),
    ("cow", "query"),
    ("mor", "query"),
)
_WIDTH, _HEIGHT, _STEP_X, _STEP_Y = 168, 62, 214, 86
_LEFT, _TOP = 16, 56


def architecture_svg(kafka: str = "127.0.0.1:9092", s3: str = "127.0.0.1:9000") -> str:
    """The pipeline as an SVG drawing that follows the page's text colour.

    Args:
        kafka: address of the broker.
        s3: address of the object store.

    Returns:
        An `<svg>` element.
    """
    s3 = s3.partition("://")[2] or s3
    places = {
        key: (_LEFT + column * _STEP_X, _TOP + row * _STEP_Y) for key, column, row, *_ in _BOXES
    }
    details = {"kafka": kafka}
    width = _LEFT * 2 + 4 * _STEP_X + _WIDTH
    height = _TOP + 2 * _STEP_Y + _HEIGHT + 62
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        'aria-label="Locust sends order events to Kafka; Spark writes them as JSON files and as '
        'two Hudi tables on the object store; queries read the tables." '
        'style="max-width:100%;height:auto;color:var(--jp-content-font-color1,#24292f)" '
        'font-family="system-ui,sans-serif">',
        "<style>@media (prefers-color-scheme: dark){svg:root{color:#e6edf3!important}}</style>",
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="currentColor"/></marker></defs>',
        _store_frame(places, s3),
        *(_arrow(places[start], places[end]) for start, end in _ARROWS),
        *(_box(*places[key], title, details.get(key, line)) for key, _, _, title, line in _BOXES),
        _ledger_line(places, height),
        "</svg>",
    ]
    return "".join(parts)


def _box(x: int, y: int, title: str, line: str) -> str:
    middle = x + _WIDTH / 2
    return (
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="9" fill="{BLUE}" '
        f'fill-opacity="0.12" stroke="{BLUE}" stroke-width="1.5"/>'
        f'<text x="{middle}" y="{y + 27}" text-anchor="middle" font-size="17" font-weight="600" '
        f'fill="currentColor">{escape(title)}</text>'
        f'<text x="{middle}" y="{y + 47}" text-anchor="middle" font-size="12.5" '
        f'fill="currentColor" opacity="0.8">{escape(line)}</text>'
    )


def _arrow(start: tuple[int, int], end: tuple[int, int]) -> str:
    x1, y1 = start[0] + _WIDTH + 3, start[1] + _HEIGHT / 2
    x2, y2 = end[0] - 4, end[1] + _HEIGHT / 2
    return (
        f'<path d="M{x1} {y1}C{x1 + 22} {y1} {x2 - 22} {y2} {x2} {y2}" fill="none" '
        'stroke="currentColor" stroke-width="1.5" marker-end="url(#tip)"/>'
    )


def _store_frame(places: dict, s3: str) -> str:
    x, y = places["json"]
    height = 2 * _STEP_Y + _HEIGHT + 44
    return (
        f'<rect x="{x - 16}" y="{y - 32}" width="{_WIDTH + 32}" height="{height}" rx="12" '
        f'fill="{AMBER}" fill-opacity="0.10" stroke="{AMBER}" stroke-dasharray="5 4"/>'
        f'<text x="{x}" y="{y - 12}" font-size="13" fill="currentColor">MinIO · {escape(s3)}</text>'
    )


def _ledger_line(places: dict, height: int) -> str:
    x1, x2 = places["load"][0] + _WIDTH / 2, places["query"][0] + _WIDTH / 2
    y1, y2 = places["load"][1] + _HEIGHT + 3, height - 26
    return (
        f'<path d="M{x1} {y1}V{y2}H{x2}V{y1 + 3}" fill="none" stroke="{GREEN}" stroke-width="1.5" '
        'stroke-dasharray="3 4" marker-end="url(#tip)"/>'
        f'<text x="{(x1 + x2) / 2}" y="{y2 - 7}" text-anchor="middle" font-size="13" '
        'fill="currentColor">the ledger of acknowledged events checks every answer</text>'
    )
