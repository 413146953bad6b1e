"""The queries of a live topic divide the cores among them."""

import pytest

from lab_env.pipeline import sinks


@pytest.mark.parametrize(
    ("master", "queries", "tasks"),
    [
        ("local[2]", 4, 1),
        ("local[2]", 1, 2),
        ("local[16]", 5, 3),
        ("local[64]", 1, 8),
        ("yarn", 4, 8),
    ],
)
def test_a_query_has_its_share_of_the_cores_and_no_empty_task(
    spark, monkeypatch, master, queries, tasks
):
    chosen = sinks.settings().model_copy(update={"spark_master": master})
    monkeypatch.setattr(sinks, "settings", lambda: chosen)
    records = spark.range(8, numPartitions=8)
    assert sinks.share_cores(records, queries).rdd.getNumPartitions() == tasks
