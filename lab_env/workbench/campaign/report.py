"""Renders a campaign's page: guarantees, results, requests hit by kills, and recovery times.

It has no script, needs no network, and works in light and dark themes. A case that has not run
is always shown as *not run*.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from lab_env.lessons.recorded.campaign import Result, Results, Row, recovery_chart, summary
from lab_env.lessons.recorded.campaign_plan import PLANTED, POINTS, Case
from lab_env.lessons.recorded.verdicts import NOT_RUN, changes, verdicts
from lab_env.platform.display.chart import new_chart, svg
from lab_env.platform.display.html import render, table
from lab_env.platform.display.palette import GREEN, VERMILION

Groups = Mapping[str, dict]
ALIGNED = ("kill", "answer_lost", "store_error")  # faults that wait for a chosen request
KILL_COUNTS = ("run", "landed", "failed")
# What the tables of a campaign go through; a small one is too short to archive anything.
STATES = ("rollback", "compaction", "clean", "archive")
KEPT_EVIDENCE = ("receipts", "requests", "timelines", "xrays")
OUTCOME_ORDER = ("survived", "loud", "guarded", "stuck", "wrong", "broken")


def in_words(row: Row) -> str:
    """Summarize the results of one fault class in a line."""
    outcomes = ", ".join(f"{row.outcomes[o]} {o}" for o in OUTCOME_ORDER if o in row.outcomes)
    left = f", {row.not_run} {NOT_RUN}" if row.not_run else ""
    wanted = " or ".join(verdicts()[row.fault].expect)
    bad = f"; {row.failed} NOT AS EXPECTED" if row.failed else ""
    ran = f"{row.run} of {row.planned} run: {outcomes or '-'}{left}"
    return f"{row.fault:20} {ran}; expected {wanted}{bad}"


def problems(plan: Sequence[Case], results: Results, groups: Groups) -> list[str]:
    """Return a sentence about each unexpected result.

    The sentences cover the cases, Spark's cross-checks, what was read meanwhile and the judge's own
    test.
    """
    found = []
    for case in plan:
        result = results.get(case.id)
        if result and not result.ok:
            wanted = " or ".join(verdicts()[case.fault].expect)
            found.append(
                f"Case {case.id}, {verdicts()[case.fault].title}, {case.where}: {result.outcome}, "
                f"expected {wanted}."
            )
    for name, facts in groups.items():
        spoiled = any(not r.ok for r in results.values() if f"{r.group:02d}-{r.attempt}" == name)
        for judged in facts.get("spark", {}).values():
            if not judged["ok"] and not spoiled:
                found.append(f"Group {name}: {judged['text']}, and hudi-rs found nothing wrong.")
        for sink, views in facts.get("seen", {}).items():
            if views["wrong"] and not spoiled:
                found.append(f"Group {name}: while {sink} was written, {views['wrong'][0]}")
        for category, reported in facts.get("judge", {}).items():
            if not reported:
                found.append(f"Group {name}: the judge did not report a planted {category} order.")
    if len(plan) > 1 and len(results) == len(plan):
        reached = {kind for facts in groups.values() for kind in facts.get("reached", ())}
        due = STATES if any(case.point == "rollback" for case in plan) else STATES[:-1]
        found += [
            f"No table went through a state to survive: {s}." for s in due if s not in reached
        ]
    return found


def campaign_page(
    seed: int, size: str, plan: Sequence[Case], results: Results, groups: Groups
) -> str:
    """Render the page as an HTML document."""
    ran = [result for result in results.values() if result.outcome != NOT_RUN]
    of_size = "" if size == PLANTED else f" --size {size}"
    command = f"lab campaign --seed {seed}{of_size}"
    return render(
        "workbench/campaign/report.html.j2",
        title=f"Fault campaign, seed {seed}, {size}",
        problems=problems(plan, results, groups),
        command=command,
        run=len(ran),
        planned=len(plan),
        not_run=len(plan) - len(ran),
        summary=_summary_table(summary(plan, results)),
        promises=_promises(plan),
        changes=[
            f"{c.date}, {c.fault}: {' or '.join(c.before)}, now {' or '.join(c.after)}. {c.reason}"
            for c in changes()
        ],
        matrix=table(
            ["kill at", "before", *KILL_COUNTS, "after", *KILL_COUNTS], kill_counts(plan, results)
        ),
        unaligned=_unaligned(results),
        recovery=recovery_chart(ran) if any(r.recovery_seconds is not None for r in ran) else "",
        timeline=timeline(ran) if ran else "",
        damage=_damage(ran),
        groups=_groups(groups),
        failures=[_failure(result, command) for result in ran if not result.ok],
        cases=_cases(plan, results),
    )


def _summary_table(rows: list[Row]) -> str:
    head = ["fault", "planned", "run", "as expected", "not", NOT_RUN, "outcomes"]
    return table(
        head,
        [
            (
                verdicts()[row.fault].title,
                *(row.planned, row.run, row.as_expected, row.failed, row.not_run),
                ", ".join(f"{n} {outcome}" for outcome, n in row.outcomes.items()),
            )
            for row in rows
        ],
    )


def _promises(plan: Sequence[Case]) -> list[dict]:
    used = {case.fault for case in plan}
    return [
        {
            "title": expected.title,
            "expect": " or ".join(expected.expect),
            "promise": expected.promise,
            "source": [(s, s if s.startswith("http") else "") for s in expected.source],
        }
        for fault, expected in verdicts().items()
        if fault in used
    ]


def kill_counts(plan: Sequence[Case], results: Results) -> list[list]:
    """Count kills before and after each class of requests: planned, run, on target, failed."""
    rows = []
    for point in POINTS:
        cells: list = [point]
        for when in ("before", "after"):
            cases = [c for c in plan if c.fault == "kill" and (c.point, c.when) == (point, when)]
            ran = [results[case.id] for case in cases if case.id in results]
            landed = sum(result.landed == f"{when} {point}" for result in ran)
            bad = sum(not result.ok for result in ran)
            cells += [len(cases), len(ran), landed, bad]
        rows.append(cells)
    return rows


def _unaligned(results: Results) -> str:
    """Return a table of the requests that other faults hit, including kills off target."""
    landed = Counter(
        result.landed
        for result in results.values()
        if result.landed.startswith(("in ", "after ", "idle", "missed"))
        and not (result.fault in ALIGNED and result.where.startswith(result.landed))
    )
    return table(["landed", "times"], landed.most_common()) if landed else ""


def timeline(ran: Sequence[Result]) -> str:
    """Return a chart of the groups over time, with a numbered bar per case."""
    groups = sorted({(r.group, r.attempt) for r in ran})
    begins = {g: min(r.started_at for r in ran if (r.group, r.attempt) == g) for g in groups}
    figure, axes = new_chart(
        "Faults of each group", "minutes since the group's first fault", "",
        width=8.0, height=1.2 + 0.42 * len(groups),
    )  # fmt: skip
    for result in ran:
        group = (result.group, result.attempt)
        start = (result.started_at - begins[group]) / 60
        colour = GREEN if result.ok else VERMILION
        axes.barh(
            groups.index(group), result.seconds / 60 * 0.94, left=start, color=colour, alpha=0.55
        )
        axes.annotate(
            result.case, (start, groups.index(group)), fontsize=7, va="center", xytext=(2, 0),
            textcoords="offset points",
        )  # fmt: skip
    names = [f"group {g}" + (f", tables {a}" if a > 1 else "") for g, a in groups]
    axes.set_yticks(range(len(groups)), names)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    return svg(figure)


def _damage(ran: Sequence[Result]) -> str:
    """Return a table with the result of each reader and check on each damaged table."""
    rows = [
        (f"{r.case} {verdicts()[r.fault].title}", name, told)
        for r in ran
        for name, told in r.readers.items()
    ]
    return table(["damage", "reader or check", "says"], rows, align="left") if rows else ""


def _groups(groups: Groups) -> str:
    rows = []
    for name, facts in groups.items():
        spark = facts.get("spark") or {}
        judge = facts.get("judge") or {}
        planted = f"{sum(judge.values())} of {len(judge)}" if judge else NOT_RUN
        agrees = "; ".join(j["text"] for j in spark.values()) if spark else NOT_RUN
        seen = facts.get("seen") or {}
        views = "; ".join(
            f"{sink}: {of['reads']}, {of['errors']} errors, {len(of['wrong'])} wrong"
            for sink, of in seen.items()
        )
        rows.append((name, agrees, views or NOT_RUN, planted, facts.get("processor_seconds", "")))
    head = ["group", "Spark's cross-check", "reads by hudi-rs meanwhile"]
    head += ["planted losses reported", "processor s"]
    return table(head, rows, align="left")


def _cases(plan: Sequence[Case], results: Results) -> str:
    rows = []
    for case in plan:
        result = results.get(case.id)
        outcome = result.outcome if result else NOT_RUN
        verdict = "" if result is None else "as expected" if result.ok else "NOT AS EXPECTED"
        rows.append(
            (
                case.id,
                case.fault,
                case.where,
                outcome,
                verdict,
                result.recovery_seconds if result and result.recovery_seconds is not None else "",
                result.restarts if result else "",
                result.landed if result else "",
            )
        )
    head = ["case", "fault", "where", "outcome", "verdict", "recovery s", "restarts", "landed"]
    return table(head, rows, align="left")


def _failure(result: Result, command: str) -> dict:
    """Return the details of a failure, and the command that repeats it."""
    evidence = result.evidence
    wrong = [f"{sink}: {entry['counts']}" for sink, entry in (evidence.get("wrong") or {}).items()]
    lives = {
        f"{sink} {key}": events
        for sink, entry in (evidence.get("wrong") or {}).items()
        for key, events in entry["biographies"].items()
    }
    return {
        "title": f"Case {result.case}: {verdicts()[result.fault].title}, {result.where}",
        "command": f"{command} --case {result.case} --times 3",
        "outcome": f"{result.outcome}; landed {result.landed}",
        "repeated": evidence.get("repeated", ""),
        "lines": [*result.judgements, *wrong],
        "error": evidence.get("error") or evidence.get("said") or "",
        "lives": lives,
        "readers": result.readers,
        **{name: evidence.get(name) or {} for name in KEPT_EVIDENCE},
        "log": "\n".join(evidence.get("log") or [])[-12_000:],
        "threads": escape(evidence.get("threads") or "")[:8000],
    }
