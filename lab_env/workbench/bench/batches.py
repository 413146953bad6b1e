"""Reads the batches of a streaming query from Spark's progress reports."""


def batches_of(query) -> list[dict]:
    """Return rows, seconds and end offsets of each batch that wrote data."""
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
