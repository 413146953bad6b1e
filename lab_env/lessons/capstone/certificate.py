"""Stores exam records and renders the certificate, an HTML page that works offline."""

from pathlib import Path

from lab_env.course import progress
from lab_env.course.answers import agree
from lab_env.lessons.capstone.exam import Record
from lab_env.platform.display.html import render, table
from lab_env.platform.errors import LabError
from lab_env.platform.processes.state import folder

FOLDER = "capstone"
PREDICTIONS = {
    "22.p1": "rows of the killed delivery that a query shows before the restart",
    "22.p2": "data files that a query of all tables opens at the end",
}
COLOURS = {"passed": "#1a9850", "refused": "#d73027", "not run": "#8C8C8C"}


def keep(record: Record) -> Path:
    """Save an exam's record; return the file's path."""
    path = folder(FOLDER) / f"{record.variant}-{record.seed}.json"
    path.write_text(record.to_json(), encoding="utf-8")
    return path


def records() -> list[Record]:
    """Return all saved records, oldest first."""
    found = [
        Record.from_json(path.read_text(encoding="utf-8")) for path in folder(FOLDER).glob("*.json")
    ]
    return sorted(found, key=lambda record: record.taken)


def newest_passed(variant: str = "") -> Record:
    """Return the newest passed exam of a variant; by default, of any."""
    found = [record for record in records() if variant in ("", record.variant)]
    if passed := [record for record in found if record.passed]:
        return passed[-1]
    if not found:
        of_variant = f" of the variant {variant}" if variant else ""
        raise LabError(f"No exam{of_variant} was taken here.", "open lesson 22 and take one.")
    last = found[-1]
    raise LabError(
        f"No exam is passed yet. The last one, {last.variant} with seed {last.seed}, failed: "
        f"{last.refusal}",
        "change your functions in lesson 22 and take another exam.",
    )


def write_certificate(record: Record) -> Path:
    """Write the certificate of a passed exam; return the file's path."""
    path = folder(FOLDER) / "certificate.html"
    kept = progress.read()
    page = certificate_html(record, kept["predictions"], kept["ladder"])
    path.write_text(page, encoding="utf-8")
    return path


def certificate_html(
    record: Record, predictions: dict[str, dict], ladder: dict[str, dict] | None = None
) -> str:
    """Render the certificate, with the learner's predictions and best climbs by id."""
    judged = {name: p for name, p in predictions.items() if {"expected", "actual"} <= set(p)}
    rows = [
        (meaning, judged[name]["expected"], judged[name]["actual"])
        for name, meaning in PREDICTIONS.items()
        if name in judged
    ]
    life = [list(entry.values()) for entry in record.biography]
    heads = list(record.biography[0]) if record.biography else ["delivery"]
    return render(
        "lessons/capstone/certificate.html.j2",
        title="Streaming lakehouse: capstone",
        problems=[],
        failed="",
        passed="All six phases passed.",
        record=record,
        phases=phases_html(record),
        biography=table(heads, life, align="left"),
        predictions=rows and table(("prediction", "expected", "measured"), rows, align="left"),
        right=sum(
            agree(p["expected"], p["actual"], float(p.get("tolerance", 0))) for p in judged.values()
        ),
        made=len(judged),
        ladder=progress.ladder_text(ladder or {}),
        note=[part for part in record.note.split("\n\n") if part.strip()],
    )


def phases_html(record: Record) -> str:
    """Render an exam's phases as an HTML table."""
    return render("lessons/capstone/record.html.j2", record=record, colours=COLOURS)


def phases_text(record: Record) -> str:
    """Format an exam's phases as text."""
    lines = []
    for number, phase in enumerate(record.phases, 1):
        lines.append(f"{number} {phase.name}: {phase.verdict}, {phase.seconds:.0f} s")
        if phase.figures:
            lines.append("  " + " · ".join(f"{v} {name}" for name, v in phase.figures.items()))
        lines += [f"  {text}" for text in (phase.example, phase.message) if text]
    return "\n".join(lines)
