"""Freshness: time from sending an event until a reader can see it in a sink.

The interval ends when the store completes the commit that contains the event. It does not end at
the commit's requested time, when no reader can see the rows yet.
"""

import numpy as np
import pandas as pd

from lab_env.tables.hudi.timeline import is_instant


def event_freshness(
    sends: pd.DataFrame, batches: pd.DataFrame, completions: dict[str, float]
) -> pd.Series:
    """Return the seconds from sending an event until it is visible, for each acknowledged send.

    Args:
        sends: acknowledged sends from the ledger: partition, offset, sent_at (µs since 1970).
        batches: one sink's batches in order: batch, end_offsets (dict by partition number).
        completions: completion time (s since 1970) of the sink's commits, by name.

    Returns:
        Seconds in the order of `sends`; NaN where no commit is known.
    """
    visible = batch_completions(batches, completions)
    seconds = pd.Series(np.nan, index=sends.index)
    for partition, group in sends.groupby("partition"):
        ends = np.array(
            [offsets.get(str(int(partition)), 0) for offsets in batches["end_offsets"]], dtype=float
        )
        # The event is in the first batch whose end offset lies beyond it.
        position = np.searchsorted(ends, group["offset"].to_numpy(dtype=float), side="right")
        padded = np.append(visible, np.nan)
        seconds.loc[group.index] = padded[position] - group["sent_at"].to_numpy(dtype=float) / 1e6
    return seconds


def batch_completions(batches: pd.DataFrame, completions: dict[str, float]) -> np.ndarray:
    """Return the time (s since 1970) when each batch became visible; NaN where unknown.

    A file sink names its log entries by batch number. A Hudi table has one completed write per
    batch, in the same order; if their counts differ, all times are unknown. The arguments are those
    of `event_freshness`.
    """
    if not any(map(is_instant, completions)):  # batch numbers of a file sink
        return np.array([completions.get(str(batch), np.nan) for batch in batches["batch"]])
    times = [completions[name] for name in sorted(completions)]
    if len(times) != len(batches):
        return np.full(len(batches), np.nan)
    return np.array(times)
