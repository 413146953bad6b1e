"""The pipeline judges row changes by the contract in `lab_env/pipeline/envelopes.py`.

An oracle in plain Python judges the same records as the pipeline, in one Spark job.
"""

import pytest
from change_grammar import COLUMNS, records
from change_oracle import Changed, judge
from contract import assert_agree, assert_every_reason
from kafka_rows import frame_of

from lab_env.pipeline import changes
from lab_env.pipeline.envelopes import REASONS

TABLE = ("public", "orders")
AS_NUMBER = {"DATE": "unix_date(row.{})", "TIMESTAMP": "unix_micros(row.{})"}


@pytest.fixture(scope="module")
def sent(pytestconfig):
    """Generated records: two for every five messages in the event contract's tests."""
    count = pytestconfig.getoption("messages") * 2 // 5
    return list(records(pytestconfig.getoption("seed"), count))


@pytest.fixture(scope="module")
def verdicts(sent) -> list[str | Changed]:
    """The contract's verdict on each record."""
    return [judge(key, value, TABLE, COLUMNS) for key, value in sent]


def test_the_grammar_reaches_every_verdict(verdicts):
    assert_every_reason(verdicts, REASONS, most_valid=0.5)


def test_the_pipeline_agrees_with_the_contract(spark, sent, verdicts, pytestconfig):
    assert_agree(sent, verdicts, _answers(spark, sent), pytestconfig.getoption("seed"))


def _answers(spark, sent) -> list[str | Changed]:
    """The pipeline's result for each record."""
    keys, values = zip(*sent, strict=True)
    frame = frame_of(spark, values, keys, "shop.public.orders")
    forms = {name: form.partition("_")[0] for name, form in COLUMNS.items()}
    columns = [AS_NUMBER.get(form, "row.{}").format(name) for name, form in forms.items()]
    others = ("offset", "reason", "op", "commit_lsn", "lsn", "moved_from")
    found = changes.parse(frame, COLUMNS).selectExpr(*others, *columns).collect()
    assert [row["offset"] for row in found] == list(range(len(sent)))
    return [row["reason"] or Changed(tuple(row)[6:], *tuple(row)[2:6]) for row in found]
