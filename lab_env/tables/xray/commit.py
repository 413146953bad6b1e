"""Formats a commit as a card for a notebook, and as text with the same facts."""

from lab_env.platform.display.html import render
from lab_env.platform.display.units import duration_text
from lab_env.tables.hudi.commits import Commit, WrittenFile
from lab_env.tables.hudi.timeline import seconds_between
from lab_env.tables.xray import colours
from lab_env.tables.xray.captions import SHORT, clock, counted


def commit_text(commit: Commit) -> str:
    """Format a commit as text: its facts, then one line per file."""
    facts = [f"  {name:11}{value}" for name, value in _facts(commit).items()]
    files = [f"  file       {_file_line(file)}" for file in commit.files]
    return "\n".join([f"{commit.action} {commit.requested}", *facts, *files])


def commit_html(commit: Commit) -> str:
    """Format a commit as a card."""
    return render(
        "tables/xray/commit.html.j2",
        commit=commit,
        facts=_facts(commit),
        files=map(_file_line, commit.files),
        colour=colours.ACTION.get(commit.action, colours.OTHER_ACTION),
        colours=colours,
    )


def _facts(commit: Commit) -> dict[str, str]:
    """Return the card's facts in order, by label."""
    counts = {kind: sum(file.kind == kind for file in commit.files) for kind in SHORT}
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "none"
    took = duration_text(seconds_between(commit.requested, commit.completed))
    facts = {
        "operation": f"{commit.operation} ({commit.action})",
        "requested": _moment(commit.requested),
        "completed": f"{_moment(commit.completed)}, {took} later",
        "records": f"{commit.inserted:,} inserted · {commit.updated:,} updated · "
        f"{commit.deleted:,} deleted",
        "written": f"{counted(commit.records_written, 'record')}, "
        f"{counted(len(commit.files), 'file')} ({kinds}), {commit.bytes_written:,} bytes",
    }
    if commit.replaced:
        facts["replaced"] = counted(len(commit.replaced), "file group")
    if commit.checkpoint:
        facts["checkpoint"] = ", ".join(
            f"batch {batch} of {query}" for query, batch in commit.checkpoint.items()
        )
    if commit.schema:
        facts["schema"] = ", ".join(f"{name} {kind}" for name, kind in commit.schema.items())
    return facts


def _moment(instant: str) -> str:
    return f"{clock(instant)} ({instant})"


def _file_line(file: WrittenFile) -> str:
    folder = f"{file.partition}/" if file.partition else ""
    if file.kind == "cdc":
        return f"{folder}{file.name}: {file.size:,} bytes, change log"
    counts = f"{file.inserted:,} inserted, {file.updated:,} updated, {file.deleted:,} deleted"
    return f"{folder}{file.name}: {file.size:,} bytes, records: {file.written:,} written, {counts}"
