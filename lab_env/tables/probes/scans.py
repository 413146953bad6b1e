"""Number of files that a query's scans read, as Spark counts them in the executed plan.

The Spark UI shows the same numbers in its SQL tab. `DataFrame.inputFiles` is no substitute: it
lists the table's files before any filter has skipped some.
"""


def files_read(query) -> int:
    """Run a Spark query in full, and count the files that its scans read."""
    return rows_and_files_read(query)[1]


def rows_and_files_read(query) -> tuple[list, int]:
    """Run a query once; return its rows and the number of files that its scans read."""
    # A plan counts its files in its first run only, so a copy of the query is run.
    query = query.select("*")
    rows = query.collect()
    scans = _leaves(query._jdf.queryExecution().executedPlan())
    metrics = [scan.metrics().get("numFiles") for scan in scans]
    return rows, sum(metric.get().value() for metric in metrics if metric.isDefined())


def _leaves(node) -> list:
    """Return a plan's leaves, including those inside an adaptive plan and its finished stages."""
    name = node.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        return _leaves(node.executedPlan())
    if name.endswith("QueryStageExec"):
        return _leaves(node.plan())
    children = [node.children().apply(n) for n in range(node.children().size())]
    return [leaf for child in children for leaf in _leaves(child)] if children else [node]
