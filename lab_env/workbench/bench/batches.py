"""Batches of a streaming query, from Spark's progress reports."""


def batches_of(query) -> list[dict]:
    """Return the batches of a query that wrote data: rows, seconds and end offsets."""
    return [
        {
            "batch": report["batchId"],
            "rows": report["numInputRows"],
            "seconds": report["durationMs"]["triggerExecution"] / 1000,
            "end_offsets": next(iter(report["sources"][0]["endOffset"].values())),
        }
        for report in query.recentProgress
        if report["numInputRows"]
    ]
