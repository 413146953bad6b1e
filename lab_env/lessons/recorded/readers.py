"""Tables of what readers saw wrong while tables were written, from runs of `lab bench readers`."""

import pandas as pd

from lab_env.platform.display.chart import NAMES
from lab_env.tables.observed.judge import BACK, FRESH, ONCE, UNBORN, WHOLE

COLUMNS = {
    "reads": "reads",
    "errors": "error",
    FRESH: "stale",
    WHOLE: "half a commit",
    BACK: "older than before",
    UNBORN: "not complete",
    ONCE: "missed or again",
}


def counts_of(run: dict) -> pd.DataFrame:
    """Sum a run's counts over its seeds: a row per table and reader, reads by what was wrong.

    A count is missing where a rule says nothing about a reader. A read may count in two columns.
    """
    rows = pd.DataFrame(run["rows"]).drop(columns="seed").replace({"table": NAMES})
    counts = rows.groupby(["table", "reader"]).sum(min_count=1).astype("Int64")
    return counts.rename(columns=COLUMNS)[list(COLUMNS.values())]


def shown(run: dict, table: str) -> pd.DataFrame:
    """Return the counts of one table, `cow` or `mor`, for the eye: a dash for a missing one."""
    counts = counts_of(run).loc[NAMES[table]].astype(object)
    return counts.where(counts.notna(), "–")


def conditions(run: dict) -> str:
    """Return how a run was made, in a sentence."""
    tables = [table for one in run["runs"] for table in one["tables"].values()]
    services = pd.DataFrame([table["services"] for table in tables]).sum().astype(int)
    done = ", ".join(f"{count} {service}s" for service, count in services.items())
    size = run["size"]
    return (
        f"Measured {run['made'][:10]} on {run['cores']} cores: {len(size['seeds'])} runs of"
        f" {size['seconds'] // 60} minutes with {sum(table['commits'] for table in tables)}"
        f" commits, {done}; the writer was killed {sum(one['kills'] for one in run['runs'])} times."
    )
