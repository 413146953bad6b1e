"""Runs twenty concurrent writers of one table, in four processes, with a ZooKeeper lock."""

import contextlib
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Any

import psutil

from lab_env.lab.handle import namespace_of
from lab_env.lessons.recorded.campaign import Result
from lab_env.lessons.recorded.campaign_plan import Case
from lab_env.pipeline.handle import lesson_environment
from lab_env.platform import services
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.environment import clean_environment, mark
from lab_env.platform.processes.tree import end_processes, process_tree, wait_until_ended
from lab_env.tables.hudi_rs import read_rows
from lab_env.workbench.campaign.group import NAMESPACE, Group
from lab_env.workbench.campaign.rival import CONFLICT, FIRST, Attempt

PROCESSES = 4  # of five threads each
PROGRAM = "lab_env.workbench.campaign.rival"
ENDS_SECONDS = 15.0  # for a JVM to exit

Row = tuple[str, str]  # order_id, event_id


def twenty_writers(group: Group, case: Case, result: Result) -> None:
    """Let twenty writers write to the same rows; a writer that fails retries."""
    services.up(["zookeeper"], progress=lambda line: None)
    # A path below the campaign's folder: resetting the campaign also removes its lock.
    folder = f"s3a://{group.endpoints.bucket}/{namespace_of(NAMESPACE)}"
    table = f"{folder}/{group.label}-{case.id}-rivals"
    result.evidence["base"] = table
    with _rivals(group, table) as rivals:
        for rival in rivals:
            rival.answer()
        for rival in rivals:
            rival.go_on()
        answers = [json.loads(rival.answer()) for rival in rivals]
    attempts = [Attempt(**told) for answer in answers for told in answer]
    _judge(group, table, attempts, result)


def _judge(group: Group, table: str, attempts: list[Attempt], result: Result) -> None:
    done = [attempt for attempt in attempts if not attempt.error]
    lost = [attempt for attempt in attempts if attempt.error]
    unknown = [attempt for attempt in lost if CONFLICT not in attempt.error]
    result.landed = (
        f"{len(attempts)} writes, {len(lost) - len(unknown)} in conflict, {len(unknown)} failed "
        f"otherwise; {len(done)} of {len({a.writer for a in attempts})} writers done"
    )
    shown = read_rows(group.endpoints, table)
    rows = shown[["order_id", "event_id"]].itertuples(index=False, name=None)
    wrong = differences(done, unknown, list(rows))
    counts = ", ".join(f"{len(rows)} {name}" for name, rows in wrong.items()) or "equal"
    result.judgements.append(f"after: {len(shown)} rows, {counts}")
    result.evidence["said"] = "\n".join(sorted({attempt.error for attempt in lost}))[:4000]
    result.evidence["differences"] = {name: sorted(rows) for name, rows in wrong.items()}
    # No writer is promised to win in time; one that does not is no loss.
    result.outcome = "wrong" if wrong else "survived" if done else "stuck"


def differences(
    done: Iterable[Attempt], unknown: Iterable[Attempt], shown: list[Row]
) -> dict[str, set[Row]]:
    """Compare a table's rows with the writers' attempts.

    Rows of the `unknown` attempts, which failed for a reason other than a conflict, may or may not
    be in the table.

    Returns:
        Rows by kind: `missing`; `unexpected`, including rows of a write that lost a conflict;
        `doubled`, rows whose key occurs twice. Kinds without rows are left out.
    """
    known = [Attempt(FIRST, 1), *done]
    # The table itself shows which attempts of unknown fate it has.
    committed = [*known, *(a for a in unknown if (a.event, a.event) in set(shown))]
    newest: dict[str, str] = {}
    for attempt in sorted(committed, key=lambda attempt: attempt.second):
        newest[attempt.keys[1]] = attempt.event
    expected = {(a.event, a.event) for a in committed} | set(newest.items())
    keys = Counter(key for key, _ in shown)
    found = {
        "missing": expected - set(shown),
        "unexpected": set(shown) - expected,
        "doubled": {row for row in shown if keys[row[0]] > 1},
    }
    return {kind: rows for kind, rows in found.items() if rows}


class _Rival:
    """One of the writer processes."""

    def __init__(self, number: int, table: str, environment: dict[str, str]):
        self._name = f"campaign-rival-{number}"
        log = supervisor.log_path(self._name)
        zookeeper = services.SERVICES["zookeeper"].address()
        with log.open("w") as output:
            self._process: Any = subprocess.Popen(  # its pipes are annotated as optional
                [sys.executable, "-m", PROGRAM, str(number), table, zookeeper, str(log)],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                text=True,
            )

    def go_on(self) -> None:
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def answer(self) -> str:
        """Read the process's next line; raise a `RuntimeError` if it has ended."""
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a process of writers ended: {supervisor.log_tail(self._name)}")
        return line

    def processes(self) -> list[psutil.Process]:
        return process_tree(self._process.pid)

    def let_end(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()


@contextmanager
def _rivals(group: Group, table: str) -> Generator[list[_Rival]]:
    """Start the writer processes, which wait for `go_on`."""
    environment = clean_environment() | mark() | lesson_environment(group.endpoints)
    rivals: list[_Rival] = []
    try:
        for number in range(PROCESSES):
            rivals.append(_Rival(number, table, environment))
        yield rivals
    finally:
        trees = [process for rival in rivals for process in rival.processes()]
        group.count(trees)
        for rival in rivals:
            rival.let_end()
        end_processes(wait_until_ended(trees, ENDS_SECONDS))
