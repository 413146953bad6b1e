"""The faults: each function injects one fault class into a group and fills in the result.

Everything sent is committed before a fault starts and after it ends. A fault that damages a table
or a checkpoint damages a copy.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pandas as pd

from lab_env.lab.faults.full_disk import SmallStore, small_store
from lab_env.lab.faults.gate import Rule
from lab_env.lab.faults.outages import cut_power, kill_service, paused
from lab_env.lessons.recorded.campaign import Result
from lab_env.lessons.recorded.campaign_plan import Case
from lab_env.pipeline.sinks import checkpoint_path, table_path
from lab_env.pipeline.topic import LOST_ITS_END, RECREATED
from lab_env.platform import services, store
from lab_env.platform.brokers.topics import ensure_topic
from lab_env.platform.settings import Endpoints
from lab_env.shop.ledger.book import Ledger
from lab_env.workbench.campaign import inputs
from lab_env.workbench.campaign.clones import (
    FILE_DAMAGE,
    Clone,
    cut,
    damaged_table,
    older_checkpoint,
    read_damaged,
)
from lab_env.workbench.campaign.group import FIRST_EVENTS, Group, Stuck
from lab_env.workbench.campaign.judge import Judgement
from lab_env.workbench.campaign.rivals import twenty_writers

SERVERS = {"store": "minio", "broker": "kafka"}
ALIGNED_SECONDS = 90.0  # maximum wait for a request of the wanted class
FULL_SECONDS = 15.0  # how long the store stays full
ERRORS = 3  # 503 answers in a row
LONG_BATCH_PATIENCE = 20.0  # seconds
MORE_EVENTS = 200  # that a fault could lose
GUARDS = ("Next step: put the right", "Next step: set the clock right")  # the guard's texts
CLOCK_BACK = "-Duser.timezone=America/New_York"  # five hours behind UTC, which everything else uses

Fault = Callable[[Group, Case, Result], None]


class NotReached(Exception):
    """The fault did not happen, so nothing is known about it."""


def run_case(group: Group, case: Case, result: Result) -> None:
    """Run a case; fill in the outcome, the point that it hit, and evidence of a failure."""
    began = time.monotonic()
    result.started_at = time.time()
    try:
        group.ensure_running()
        FAULTS[case.fault](group, case, result)
    except Stuck as error:
        result.outcome = "stuck"
        result.evidence["error"] = str(error)[:4000]
        result.evidence["threads"] = group.thread_dump()
    except Exception as error:  # a campaign continues, and reports its own failures too
        result.outcome = "broken"
        result.evidence["error"] = f"{type(error).__name__}: {error}"[:4000]
    finally:
        group.gate.disarm()
    result.seconds = round(time.monotonic() - began, 1)
    if not result.ok:
        with suppress(Exception):  # collecting evidence must not hide the failure
            result.evidence |= group.evidence()


def kill(group: Group, case: Case, result: Result) -> None:
    """Kill the writer at a chosen request or after a certain time, and restart it."""
    if case.point:
        if case.point == "rollback":
            _leave_something_to_roll_back(group, case.sink)
            rule = _arm(group, case)
            group.start_writer()
        else:
            group.aim()
            rule = _arm(group, case)
        group.feeder.resume()
        _await(rule)
        landed = f"{case.when} {case.point}"
    else:
        group.feeder.resume()
        time.sleep(case.seconds)
        landed = _landing(group)
    group.kill_writer()
    group.feeder.pause()
    result.landed = landed
    result.evidence["receipts"] = group.receipts()
    _settle_and_judge(group, result)


def stopped(server: str, group: Group, case: Case, result: Result) -> None:
    """Freeze a server under load."""
    _load(group, result)
    with paused(server):
        time.sleep(case.seconds)
    _recover_and_judge(group, result)


def killed(server: str, group: Group, case: Case, result: Result) -> None:
    """Kill a server under load; the supervisor restarts it."""
    _load(group, result)
    kill_service(server)
    services.up(progress=lambda line: None)
    _recover_and_judge(group, result)


def _load(group: Group, result: Result) -> None:
    group.feeder.resume()
    time.sleep(1)
    result.landed = _landing(group)


def refused_or_lost(action: str, times: int, group: Group, case: Case, result: Result) -> None:
    """Make the gate answer a few requests with 503, or drop the store's response to one."""
    rule = _arm(group, case, action, times=times)
    group.feeder.resume()
    _await(rule)
    result.landed = f"{case.when} {case.point}"
    time.sleep(2)
    _recover_and_judge(group, result)


def disk_full(group: Group, case: Case, result: Result) -> None:
    """Fill the store's disk under load, and free the space after a while."""
    with small_store(group.endpoints) as small:
        if small:
            _fill_disk(group, small, case, result)
        else:
            _answer_507(group, result)


def bad_input(send: Callable[[Group], str], group: Group, case: Case, result: Result) -> None:
    """Send invalid input under load; it must never appear in a table."""
    group.feeder.resume()
    result.landed = send(group)
    _recover_and_judge(group, result)


def topic_made_anew(group: Group, case: Case, result: Result) -> None:
    """Recreate a topic while its writer is stopped; its offsets then refer to other messages."""
    with _own_group(group, case) as own:
        own.begin()
        own.stop_writer()
        ensure_topic(own.endpoints.kafka_bootstrap, own.topic, reset=True)
        own.feeder.send(MORE_EVENTS)
        _expect_refusal(own, RECREATED, result)


def power_cut(group: Group, case: Case, result: Result) -> None:
    """Lose messages that a writer has read; it is dead until new ones have their offsets."""
    with _own_group(group, case) as own:
        own.begin()
        own.kill_writer()
        cut_power(own.topic)
        own.feeder.send(FIRST_EVENTS)
        _expect_refusal(own, LOST_ITS_END, result)


def _expect_refusal(own: Group, why: str, result: Result) -> None:
    """Start a writer, which has to refuse its topic."""
    own.start_writer()
    own.writer.wait_until(lambda: own.writer.state()["state"] == "failed", "it refused")
    said = own.writer.state()["error"]
    result.landed, result.evidence["said"] = own.topic, said[:2000]
    result.outcome = "guarded" if why in said and "Next step" in said else "loud"


def long_batch(group: Group, case: Case, result: Result) -> None:
    """Make a batch exceed the watchdog's limit: it writes many files, each delayed by a second."""
    with _own_group(group, case) as own:
        own.feeder, own.patience = inputs.many_dates(own), LONG_BATCH_PATIENCE
        own.gate.arm("data", "hold_after", times=1_000_000, seconds=1)
        own.begin()
        own.writer.wait_first_batches()  # its report follows the commit
        longest = own.writer.progress()["seconds"].max()
        result.landed = f"a batch of {longest:.0f} s, patience {own.patience:g} s"
        _recover_and_judge(own, result)
        if longest <= own.patience:
            result.outcome = "broken"


@contextmanager
def _own_group(group: Group, case: Case, at: Endpoints | None = None) -> Generator[Group]:
    """Stop the group's writer; make a separate pipeline for a case that would damage the tables."""
    group.stop_writer()
    own = Group(at or group.endpoints, f"{group.label}-{case.id}", int(case.id))
    try:
        yield own
    finally:
        group.processor_seconds += own.end()


def _fill_disk(group: Group, small: SmallStore, case: Case, result: Result) -> None:
    """Run a separate pipeline on a small disk, and fill the disk."""
    with _own_group(group, case, small.endpoints) as own:
        own.begin()
        own.feeder.resume()
        written = small.fill()
        time.sleep(FULL_SECONDS)
        refused = sum(r.status == 507 for r in own.gate.last(400))
        result.landed = f"a full tmpfs: {written / 1e6:.0f} MB of ballast, {refused} answers 507"
        small.make_room()  # also for the writer that is stopped at the end
        if not refused:
            raise NotReached("The store took every write although its disk was full.")
        _recover_and_judge(own, result)
        if not result.ok:
            result.evidence |= own.evidence()


def _answer_507(group: Group, result: Result) -> None:
    """Make the gate answer every write with 507; used where a small disk cannot be mounted."""
    rule = group.gate.arm("any", "error", times=1_000_000, status=507)
    group.feeder.resume()
    _await(rule)
    result.landed = "507 by the gate: no tmpfs here"
    time.sleep(FULL_SECONDS)
    group.gate.disarm()
    _recover_and_judge(group, result)


def damage(group: Group, case: Case, result: Result) -> None:
    """Damage a copy of a table, and read it with each reader."""
    _feed_more(group)
    table, key = damaged_table(group, case)
    result.landed = key
    result.evidence["table"] = table
    result.readers = read_damaged(group, table, case.sink)
    result.outcome = outcome_of(result.readers)


def damage_for_writer(group: Group, case: Case, result: Result) -> None:
    """Damage a copy of tables and checkpoints, and run a writer on it."""
    _feed_more(group)
    group.stop_writer()
    clone = Clone(group, case)
    result.landed = DAMAGE[case.fault](clone, case)
    group.feeder.send(MORE_EVENTS)
    options = {"jvm_options": CLOCK_BACK} if case.fault == "clock_back" else {}
    said = clone.run(**options)
    result.evidence |= {"base": clone.base, "said": said[:2000]}
    judged = clone.judge()
    result.judgements = [str(judgement) for judgement in judged]
    wrong = any(not judgement.ok for judgement in judged)
    if any(step in said for step in GUARDS):
        result.outcome = "guarded"
    elif said:
        # The writer stopped with an error; its earlier writes must be right.
        result.outcome = "wrong" if clone.wrong_up_to_its_batch() else "loud"
    else:
        result.outcome = "wrong" if wrong else "survived"
    if wrong and result.outcome in ("wrong", "survived"):
        _tell(result, judged)


def planted(group: Group, case: Case, result: Result) -> None:
    """Add an order to the ledger that was never sent; the judge must report it missing."""
    group.rest()
    frame = group.feeder.ledger.frame()
    one = frame[(frame["state"] == "acked") & (frame["kind"] == "event")].tail(1)
    fictive = one.assign(send_id="planted", event_id="planted", order_id="planted")
    group.feeder.ledger = _LedgerWith(group.feeder.ledger.directory, fictive)
    result.landed = "the ledger"
    _judge(group, result, whole=True)


class _LedgerWith(Ledger):
    """A topic's ledger with an additional send that never happened."""

    def __init__(self, directory: Path, more: pd.DataFrame):
        super().__init__(directory)
        self._more = more

    def frame(self) -> pd.DataFrame:
        return pd.concat([super().frame(), self._more], ignore_index=True)


def outcome_of(readers: dict[str, str]) -> str:
    """Derive a damage case's outcome from the results of `read_damaged`."""
    answers = [told for name, told in readers.items() if not name.startswith("check")]
    found = any(told.startswith("found") for told in readers.values())
    if any(told.startswith("wrong") for told in answers):
        return "guarded" if found else "wrong"
    if any(told.startswith("error") for told in answers):
        return "loud"
    return "guarded" if found else "survived"


def _arm(group: Group, case: Case, action: str = "", **options) -> Rule:
    """Set the gate's rule for a case."""
    is_checkpoint = case.point in ("offsets", "commits")
    part = f"_checkpoints/{case.sink}/" if is_checkpoint else f"orders_{case.sink}/"
    return group.gate.arm(case.point, action or f"hold_{case.when}", k=case.k, part=part, **options)


def _await(rule: Rule) -> None:
    """Wait for the request at which a fault happens."""
    if not rule.wait(ALIGNED_SECONDS):
        raise NotReached(f"In {ALIGNED_SECONDS:.0f} s no {rule.kind} request came to disturb.")


def _leave_something_to_roll_back(group: Group, sink: str) -> None:
    """Kill the writer while a commit of the sink is in flight, so that it must be rolled back."""
    group.aim()
    rule = group.gate.arm("data", "hold_after", part=f"orders_{sink}/")
    group.feeder.resume()
    _await(rule)
    group.kill_writer()
    group.feeder.pause()


def _settle_and_judge(group: Group, result: Result) -> None:
    """Judge the tables of a killed writer, restart it, and judge again when it has caught up."""
    group.feeder.settle()
    _judge(group, result, whole=False)
    if result.outcome == "wrong":
        return
    result.recovery_seconds, result.restarts = group.recover(start=True)
    _judge(group, result, whole=True)


def _recover_and_judge(group: Group, result: Result) -> None:
    """Wait until everything sent during the fault is committed; then judge the tables."""
    result.recovery_seconds, result.restarts = group.recover()
    group.rest()
    _judge(group, result, whole=True)


def _judge(group: Group, result: Result, whole: bool) -> None:
    judged = group.judge(whole)
    when = "after" if whole else "immediately"
    result.judgements += [f"{when}: {judgement}" for judgement in judged]
    result.outcome = "survived" if all(judgement.ok for judgement in judged) else "wrong"
    if result.outcome == "wrong":
        _tell(result, judged)


def _tell(result: Result, judged: list[Judgement]) -> None:
    result.evidence["wrong"] = {
        j.sink: {"counts": j.wrong, "examples": j.examples, "biographies": j.biographies}
        for j in judged
        if not j.ok
    }


def _feed_more(group: Group) -> None:
    """Send more updates, so that damage to a log file would lose some."""
    group.feeder.pause()
    group.feeder.send(MORE_EVENTS)
    group.recover()


def _landing(group: Group) -> str:
    """Name the kind of request that the fault hit: the oldest open write, else the last one."""
    if in_flight := group.gate.in_flight():
        return f"in {in_flight[0].kind}"
    writes = [r for r in group.gate.last(60) if r.kind not in ("read", "delete")]
    return f"after {writes[-1].kind}" if writes else "idle"


def _lose_checkpoint(clone: Clone, case: Case) -> str:
    folder = store.key_of(checkpoint_path(clone.base, case.sink)) + "/"
    store.delete_prefix(clone.group.endpoints, folder)
    return folder


def _cut_metadata(clone: Clone, case: Case) -> str:
    folder = store.key_of(table_path(clone.base, case.sink)) + "/.hoodie/metadata/files/"
    logs = [e for e in store.list_objects(clone.group.endpoints, folder) if ".log." in e.key]
    newest = max(logs, key=lambda entry: entry.modified)
    return cut(clone.group.endpoints, newest.key, keep=newest.size // 2)


DAMAGE: dict[str, Callable[[Clone, Case], str]] = {
    "offsets_cut": lambda clone, case: cut(
        clone.group.endpoints, clone.newest_offsets(case.sink), keep=0
    ),
    "offsets_gone": lambda clone, case: clone.delete(clone.newest_offsets(case.sink)),
    "metadata_cut": _cut_metadata,
    "checkpoint_lost": _lose_checkpoint,
    "checkpoint_replaced": older_checkpoint,
    "clock_back": lambda clone, case: CLOCK_BACK,
}

FAULTS: dict[str, Fault] = {
    "kill": kill,
    **{f"{role}_stopped": partial(stopped, server) for role, server in SERVERS.items()},
    **{f"{role}_killed": partial(killed, server) for role, server in SERVERS.items()},
    "store_error": partial(refused_or_lost, "error", ERRORS),
    "answer_lost": partial(refused_or_lost, "lost", 1),
    "disk_full": disk_full,
    **dict.fromkeys(FILE_DAMAGE, damage),
    **dict.fromkeys(DAMAGE, damage_for_writer),
    "odd_messages": partial(bad_input, inputs.send_odd_messages),
    "transaction_aborted": partial(bad_input, inputs.abort_transaction),
    "topic_made_anew": topic_made_anew,
    "power_cut": power_cut,
    "long_batch": long_batch,
    "writers_20": twenty_writers,
    "planted": planted,
}
