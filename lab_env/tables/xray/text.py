"""The X-ray as plain text: the same facts as the drawing, but for any number of file groups."""

from lab_env.tables.hudi.table import Snapshot
from lab_env.tables.xray import captions


def as_text(table: Snapshot) -> str:
    """List a snapshot's table, timeline, file slices, cleaned files and other objects as text."""
    lines = [
        f"{table.name} · {table.table_type} · table version {table.version} · {table.path}",
        captions.totals(table),
        "timeline",
    ]
    if table.history:
        lines += [f"  archived {captions.instant(table, instant)}" for instant in table.history]
    for instant in table.instants:
        mark = f" · new since {table.compared_with}" if instant in table.new_instants else ""
        lines.append(f"  {captions.instant(table, instant)}{mark}")
    removed = table.gone_files
    for partition in sorted({*table.partitions, *(file.partition for file in removed)}):
        lines.append(f"partition {partition}" if partition else "no partitions")
        for part in table.slices:
            if part.partition == partition:
                lines.append(f"  {captions.slice_of(table, part, indent=4)}")
        for file in table.uncommitted:
            if file.partition == partition:
                lines.append(f"  file group {file.group}\n    {captions.file(table, file)}")
        for file in removed:
            if file.partition == partition:
                lines.append(f"  file group {file.group}\n    {captions.removed(table, file)}")
    if table.cleaned:
        lines.append("deleted by cleans")
        lines += [f"  {captions.cleaned(file)}" for file in table.cleaned]
    if table.damage:
        lines.append("damaged")
        lines += [f"  {key}: {why}" for key, why in sorted(table.damage.items())]
    parts = ", ".join(captions.parts(table.parts()))
    lines.append(f"{captions.counted(table.objects, 'object')}: {parts}")
    if partitions := captions.parts(table.metadata_partitions):
        lines.append(f"metadata table: {', '.join(partitions)}")
    return "\n".join(lines)
