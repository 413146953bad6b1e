"""The X-ray as a drawing: instants from left to right, each file below the instant that wrote it.

It is an HTML grid for light and dark themes. A few file groups are drawn as rows with a box per
file; many are drawn as tiles. The text form always lists everything.
"""

from lab_env.platform.display import html
from lab_env.platform.display.units import duration_text, size_text
from lab_env.tables.hudi.table import Snapshot
from lab_env.tables.xray import captions, colours
from lab_env.tables.xray.columns import Columns, columns_of
from lab_env.tables.xray.rows import groups_of, lanes_of
from lab_env.tables.xray.tiles import first_groups, shared_prefix, tiles_of

ROWS, CLOSE_ROWS = 10, 24  # most file groups in rows with two lines, and in rows with one
HEAD_ROWS = 5  # labels, line, requested, completed, dates
SHAPES = {
    "compaction": "diamond",
    "logcompaction": "diamond",
    "clustering": "square",
    "replacecommit": "square",
    "rollback": "triangle",
    "restore": "triangle",
    "clean": "dot",
    "savepoint": "flag",
}


def as_html(table: Snapshot, styled: bool = True) -> str:
    """Draw a snapshot with at most 200 file groups; a line states how many are left out.

    `styled` includes the style sheet, which several drawings on one page can share.
    """
    groups = groups_of(table)
    count = sum(map(len, groups.values()))
    tiled = count > CLOSE_ROWS
    columns = columns_of(table)
    detailed = count <= ROWS
    headed = not detailed or any(len(ids) > 1 for ids in groups.values())
    panels = [] if tiled else _panels(table, columns, groups, headed)
    return html.render(
        "tables/xray/drawing.html.j2",
        table=table,
        styled=styled,
        columns=columns,
        dates=sorted({captions.date(instant.requested) for instant in table.instants}),
        panels=panels,
        last_row=panels[-1]["end"] if panels else HEAD_ROWS + 1,
        detailed=detailed,
        headed=headed,
        tiled=tiled,
        writers=_writers(table),
        groups=groups,
        count=count,
        shown=first_groups(groups),
        tiles=tiles_of(table) if tiled else {},
        prefix=shared_prefix(list(groups)) if tiled else "",
        legend=_legend(table, tiled),
        captions=captions,
        colours=colours,
        shapes=SHAPES,
        duration_text=duration_text,
        size_text=size_text,
    )


def _writers(table: Snapshot) -> dict[str, int]:
    """Return the index of each named writer's colour."""
    names = list(dict.fromkeys(table.writers.values()))
    return {name: place % len(colours.WRITERS) for place, name in enumerate(names)}


def _panels(
    table: Snapshot, columns: Columns, groups: dict[str, list[str]], headed: bool
) -> list[dict]:
    """Return the partitions, with the grid rows of each partition and its file groups."""
    panels, row = [], HEAD_ROWS + 1
    for partition, ids in groups.items():
        row += 1  # space above the panel
        size = sum(file.size for file in table.files if file.partition == partition)
        panel = {"partition": partition, "bytes": size, "begin": row, "rows": []}
        row += headed
        for group in ids:
            lanes = lanes_of(table, columns, partition, group)
            panel["rows"].append({"group": group, "begin": row, "lanes": lanes})
            row += len(lanes)
        panels.append(panel | {"end": row})
    return panels


def _legend(table: Snapshot, tiled: bool) -> list[tuple[str, str]]:
    """Return the CSS classes and the text of each legend entry; labelled marks need no entry."""
    older = any(not part.current and part.files for part in table.slices)
    logs = any(file.kind == "log" for file in table.files)
    entries = {
        ("tile current base", "a file group with a base file"): tiled,
        ("tile current base foot", "with logs, and their number"): tiled and logs,
        ("tile current base behind", "older slices behind it"): tiled and older,
        ("mark circle", "an instant: one action on the table"): table.instants,
        ("slice current", "solid: a query of the newest state reads it"): table.current
        and not tiled,
        ("slice older", "dashed: an older version"): not tiled and older,
        ("cdc", "cdc log"): any(file.kind == "cdc" for file in table.files),
        ("file loose", "not committed: no reader sees it"): table.uncommitted,
        ("mark hollow", "hollow: not complete"): any(not i.completed for i in table.instants),
        ("file new", f"new since {table.compared_with}"): table.since,
        ("file new removed", f"removed since {table.compared_with}"): table.gone_files,
        ("file damaged", "damaged: named above"): table.damage,
    }
    by = [] if tiled else [(f"by writer-{n}", f"by {name}") for name, n in _writers(table).items()]
    return [*(entry for entry, wanted in entries.items() if wanted), *by]
