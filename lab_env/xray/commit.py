"""A commit as a card for a notebook, and as text with the same facts."""

from html import escape

from lab_env.display.text import duration_text
from lab_env.hudi.commits import Commit, WrittenFile
from lab_env.hudi.timeline import seconds_between
from lab_env.xray.captions import clock, counted
from lab_env.xray.colours import ACTION, INK, OTHER_ACTION, PANEL

FILE_KINDS = ("base", "log", "cdc")
CELL = "padding:2px 14px 2px 0;text-align:left;vertical-align:top"


def commit_text(commit: Commit) -> str:
    """A commit as text: its facts, then one line per file."""
    facts = [f"  {name:11}{value}" for name, value in _facts(commit).items()]
    files = [f"  file       {_file_line(file)}" for file in commit.files]
    return "\n".join([f"{commit.action} {commit.requested}", *facts, *files])


def commit_html(commit: Commit) -> str:
    """A commit as a card."""
    rows = "".join(
        f"<tr><td style='{CELL};opacity:.7'>{escape(name)}</td>"
        f"<td style='{CELL};white-space:normal'>{escape(value)}</td></tr>"
        for name, value in _facts(commit).items()
    )
    files = "".join(
        f"<li style='margin:1px 0'>{escape(_file_line(file))}</li>" for file in commit.files
    )
    return (
        "<div style='display:inline-block;max-width:920px;padding:8px 14px;margin:2px 0;"
        f"font-size:13px;border-left:4px solid {ACTION.get(commit.action, OTHER_ACTION)};"
        f"background:{PANEL};color:{INK}'>"
        f"<b style='font-size:14px'>{escape(commit.action)} {escape(commit.requested)}</b>"
        "<table style='border-collapse:collapse;background:none;color:inherit;font-size:inherit;"
        f"margin:4px 0 2px'>{rows}</table>"
        f"<details><summary style='cursor:pointer'>its files</summary>"
        f"<ul style='margin:4px 0;padding-left:18px;overflow-wrap:anywhere'>{files}</ul>"
        "</details></div>"
    )


def _facts(commit: Commit) -> dict[str, str]:
    """Label to value of each fact, in the order of the card."""
    counts = {kind: sum(file.kind == kind for file in commit.files) for kind in FILE_KINDS}
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
