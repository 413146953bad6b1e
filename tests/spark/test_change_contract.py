"""Row changes of a database are judged as the contract in `lab_env/pipeline/envelopes.py` says.

An oracle in plain Python judges the same records as the pipeline, in one Spark job.
"""

from collections import Counter
from datetime import UTC, datetime

import pytest
from change_grammar import COLUMNS, records
from change_oracle import Changed, judge

from lab_env.pipeline import changes
from lab_env.pipeline.envelopes import REASONS

RECORDS = "value BINARY, key BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP"
NOW = datetime(2026, 11, 21, 2, 14, 16, tzinfo=UTC)
TABLE = ("public", "orders")
AS_NUMBER = {"DATE": "unix_date(row.{0})", "TIMESTAMP": "unix_micros(row.{0})"}


@pytest.fixture(scope="module")
def sent(pytestconfig):
    """Generated records: two for every five messages of the other contract."""
    count = pytestconfig.getoption("messages") * 2 // 5
    return list(records(pytestconfig.getoption("seed"), count))


@pytest.fixture(scope="module")
def verdicts(sent) -> list[str | Changed]:
    """The contract's verdict on each record."""
    return [judge(key, value, TABLE, COLUMNS) for key, value in sent]


def test_the_grammar_reaches_every_verdict(verdicts):
    counts = Counter(v if isinstance(v, str) else "valid" for v in verdicts)
    rare = {reason: counts[reason] for reason in REASONS if counts[reason] < len(verdicts) / 2000}
    assert not rare, counts
    assert 0.25 < counts["valid"] / len(verdicts) < 0.5, counts


def test_the_pipeline_agrees_with_the_contract(spark, sent, verdicts, pytestconfig):
    wrong = [
        (record, verdict, answer)
        for record, verdict, answer in zip(sent, verdicts, _answers(spark, sent), strict=True)
        if verdict != answer
    ]
    kinds = Counter(
        tuple(v if isinstance(v, str) else "valid" for v in (right, told))
        for _, right, told in wrong
    )
    smallest = sorted(wrong, key=lambda case: len(case[0].value or b""))[:5]
    lines = [f"{record}\n    contract: {v}\n    pipeline: {told}" for record, v, told in smallest]
    seed = pytestconfig.getoption("seed")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(sent)}, seed {seed}: {kinds}", *lines])


def _answers(spark, sent) -> list[str | Changed]:
    """The pipeline's result for each record."""
    sent_rows = [
        (*(x and bytearray(x) for x in (value, key)), "shop.public.orders", 0, offset, NOW)
        if value
        else (value, key, "shop.public.orders", 0, offset, NOW)
        for offset, (key, value) in enumerate(sent)
    ]
    frame = spark.createDataFrame(sent_rows, RECORDS, verifySchema=False)
    values = [
        AS_NUMBER.get(form.partition("_")[0], "row.{0}").format(name)
        for name, form in COLUMNS.items()
    ]
    others = ("offset", "reason", "op", "commit_lsn", "lsn", "moved_from")
    found = changes.parse(frame, COLUMNS).selectExpr(*others, *values).collect()
    assert [row["offset"] for row in found] == list(range(len(sent)))
    return [row["reason"] or Changed(tuple(row)[6:], *tuple(row)[2:6]) for row in found]
