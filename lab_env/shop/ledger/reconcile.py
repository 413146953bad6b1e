"""Compare tables with the ledger: missing, duplicate, stale or unexpected keys.

The functions take the ledger's frame and the table's rows; they need no service.
"""

from dataclasses import asdict, dataclass, field

import pandas as pd

from lab_env.platform.display.card import card

EXAMPLES = 5
TABLE = ("missing", "duplicate", "stale", "altered", "ghost", "unexpected")
LOG = ("missing", "short", "duplicate", "unexpected")
DEAD = ("missing", "duplicate", "wrong_reason", "unexpected")


@dataclass(frozen=True)
class Reconciliation:
    """A sink compared with its expected content.

    Args:
        categories: kinds of difference that apply to this sink.
        expected: number of rows that it should have.
        missing: keys that it lacks.
        duplicate: surplus rows of expected keys.
        stale: keys whose row is not the winning version.
        altered: keys whose row is the winning version, but with another event time.
        ghost: keys that were erased but are in the table.
        unexpected: keys that were never acknowledged.
        short: rows of resent events that a sink with one row per message lacks.
        wrong_reason: dead letters with a wrong reason.
        resends: acknowledged resends; each adds a row to a sink with one row per message.
        unknown: sends without a known outcome; the comparison leaves out their keys.
        examples: up to five keys of each category.
    """

    sink: str
    categories: tuple[str, ...]
    rows: int
    expected: int
    missing: int = 0
    duplicate: int = 0
    stale: int = 0
    altered: int = 0
    ghost: int = 0
    unexpected: int = 0
    short: int = 0
    wrong_reason: int = 0
    resends: int = 0
    unknown: int = 0
    examples: dict[str, list[str]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True if nothing differs and no send is unknown."""
        return not self.unknown and not any(getattr(self, name) for name in self.categories)

    def as_dict(self) -> dict:
        """All figures and `ok`, for a report."""
        facts = asdict(self) | {"ok": self.ok}
        facts.pop("categories")
        return facts

    def _figures(self) -> dict[str, int]:
        names = ("rows", "expected", *self.categories, "unknown")
        return {name.replace("_", " "): getattr(self, name) for name in names}

    def _title(self) -> str:
        return f"{self.sink}: " + ("reconciles with the ledger" if self.ok else "differs")

    def _note(self) -> str:
        notes = [f"{name}: {', '.join(keys)}" for name, keys in self.examples.items()]
        if self.resends:
            notes.append(f"{self.resends:,} rows are intended resends")
        if self.unknown:
            notes.append("to decide the unknown sends, settle the ledger")
        return "; ".join(notes)

    def _repr_html_(self) -> str:
        return card(self._title(), self.ok, _one_row(self._figures()), self._note())

    def __str__(self) -> str:
        figures = ", ".join(f"{value:,} {name}" for name, value in self._figures().items())
        note = self._note()
        return f"{self._title()}: {figures}" + (f" ({note})" if note else "")

    __repr__ = __str__


@dataclass(frozen=True)
class Accounting:
    """Number of acknowledged sends by destination, from the table and the dead letters.

    Args:
        acked: acknowledged sends.
        applied: versions that are in the table, and erases of orders that are not in it.
        superseded: events older than the version in the table.
        duplicate: acknowledged resends of an acknowledged event.
        dead: acknowledged malformed sends in the dead letters.
        unknown: sends without a known outcome, counted in none of the others.
    """

    acked: int
    applied: int
    superseded: int
    duplicate: int
    dead: int
    unknown: int

    @property
    def unaccounted(self) -> int:
        """Number of acknowledged sends that none of the other fields counts."""
        return self.acked - self.applied - self.superseded - self.duplicate - self.dead

    @property
    def ok(self) -> bool:
        """True if acked = applied + superseded + duplicate + dead and no send is unknown."""
        return self.unaccounted == 0 and self.unknown == 0

    def as_dict(self) -> dict:
        """All figures and `ok`, for a report."""
        return self._figures() | {"ok": self.ok}

    def _figures(self) -> dict[str, int]:
        return asdict(self) | {"unaccounted": self.unaccounted}

    def _repr_html_(self) -> str:
        return card(self._title(), self.ok, _one_row(self._figures()))

    def _title(self) -> str:
        return "every acknowledged send is accounted for" if self.ok else "some sends are not"

    def __str__(self) -> str:
        return (
            f"{self.acked:,} acknowledged = {self.applied:,} applied + {self.superseded:,} "
            f"superseded + {self.duplicate:,} duplicate + {self.dead:,} dead"
            f" + {self.unaccounted:,} unaccounted; {self.unknown:,} unknown"
        )

    __repr__ = __str__


def table(sends: pd.DataFrame, frame, name: str = "table") -> Reconciliation:
    """Compare a table that has one row per order with the ledger.

    The table must have exactly the orders that are not erased, each in its winning version: the
    acknowledged one with the highest event time.

    Args:
        frame: a pandas or Spark DataFrame with order_id, event_id and order_ts (timestamp, text or
        microseconds since 1970 UTC).
    """
    rows = _rows(frame)
    valid = _valid(sends)
    unknown = valid[valid["state"] == "unknown"]
    winners = _winners(valid)
    winners = winners[~winners["order_id"].isin(unknown["order_id"])]
    judged = rows[~rows["order_id"].isin(unknown["order_id"])]

    erased = winners["op"] == "erase"
    live, gone = winners[~erased], winners.loc[erased, "order_id"]
    shown = live.merge(judged, on="order_id", suffixes=("", "_shown"))
    shown["current"] = shown["event_id"] == shown["event_id_shown"]
    current_orders = shown.loc[shown["current"], "order_id"]
    altered = shown["current"] & (shown["order_ts"] != shown["order_ts_shown"])
    keys = {
        "missing": live.loc[~live["order_id"].isin(judged["order_id"]), "order_id"],
        "duplicate": rows.loc[rows["order_id"].duplicated(), "order_id"],
        "stale": shown.loc[~shown["order_id"].isin(current_orders), "order_id"].drop_duplicates(),
        "altered": shown.loc[altered, "order_id"].drop_duplicates(),
        "ghost": gone[gone.isin(judged["order_id"])],
        "unexpected": judged.loc[
            ~judged["order_id"].isin(winners["order_id"]), "order_id"
        ].drop_duplicates(),
    }
    return _reconciliation(name, TABLE, keys, len(rows), len(live), unknown=len(unknown))


def log(sends: pd.DataFrame, frame, name: str = "json") -> Reconciliation:
    """Compare a sink that has one row per message with the ledger.

    The sink must have each valid acknowledged event once, plus once per acknowledged resend.
    """
    rows = _to_pandas(frame, ["event_id"])["event_id"].fillna("(null)")
    valid = _valid(sends)
    unknown = valid[valid["state"] == "unknown"]
    acked = valid[valid["state"] == "acked"]
    counts = pd.concat(
        [acked["event_id"].value_counts(), rows.value_counts()], axis=1, keys=["sent", "held"]
    ).fillna(0)
    counts = counts[~counts.index.isin(unknown["event_id"])].astype(int)
    counts.index.name = "event_id"
    ids = counts.index.to_series()
    surplus = (counts["held"] - counts["sent"]).where(counts["sent"] > 0, 0)
    keys = {
        "missing": ids[counts["held"] == 0],
        "short": ids.repeat((-surplus.where(counts["held"] > 0, 0)).clip(lower=0)),
        "duplicate": ids.repeat(surplus.clip(lower=0)),
        "unexpected": ids[counts["sent"] == 0],
    }
    return _reconciliation(
        name,
        LOG,
        keys,
        len(rows),
        len(acked),
        resends=len(acked) - acked["event_id"].nunique(),
        unknown=len(unknown),
    )


def dead(sends: pd.DataFrame, frame, name: str = "dead letters") -> Reconciliation:
    """Compare the dead letters, with partition, offset and reason, with the ledger.

    They must be exactly the acknowledged malformed sends, each once and with the right reason. The
    keys of the result are `partition:offset`.
    """
    rows = _dead_rows(frame)
    malformed = _malformed(sends)
    both = malformed.merge(rows, on="place", suffixes=("", "_shown"))
    wrong = both["reason"] != both["reason_shown"]
    known = rows["place"].isin(malformed["place"])
    keys = {
        "missing": malformed.loc[~malformed["place"].isin(rows["place"]), "place"],
        "duplicate": rows.loc[known & rows["place"].duplicated(), "place"],
        "wrong_reason": both.loc[wrong, "place"].drop_duplicates(),
        "unexpected": rows.loc[~known, "place"].drop_duplicates(),
    }
    unknown = sends["kind"].str.startswith("malformed") & (sends["state"] == "unknown")
    return _reconciliation(name, DEAD, keys, len(rows), len(malformed), unknown=int(unknown.sum()))


def account(sends: pd.DataFrame, table_frame, dead_frame) -> Accounting:
    """Account for every acknowledged send, from the table and the dead letters.

    The numbers add up only if the table has each order in its winning version. The frames are as
    for `table` and `dead`.
    """
    valid = _valid(sends)
    acked = valid[valid["state"] == "acked"]
    events = acked.drop_duplicates("event_id")
    winners = _winners(valid).set_index("order_id")
    rows = _rows(table_frame)
    # Each order's version in the table: an acknowledged event of that order.
    versions = rows.merge(events[["order_id", "event_id", "order_ts"]], on=["order_id", "event_id"])
    shown = versions.groupby("order_id")["order_ts_y"].max()
    # An order that is missing from the table had its erase applied.
    erased = winners[(winners["op"] == "erase") & ~winners.index.isin(rows["order_id"])]
    shown = pd.concat([shown, erased["order_ts"]])
    behind = events["order_ts"] - events["order_id"].map(shown)
    malformed = _malformed(sends)
    return Accounting(
        acked=int((sends["state"] == "acked").sum()),
        applied=int((behind == 0).sum()),
        superseded=int((behind < 0).sum()),
        duplicate=len(acked) - len(events),
        dead=int(malformed["place"].isin(_dead_rows(dead_frame)["place"]).sum()),
        unknown=int((sends["state"] == "unknown").sum()),
    )


def _valid(sends: pd.DataFrame) -> pd.DataFrame:
    return sends[~sends["kind"].str.startswith("malformed")]


def _winners(valid: pd.DataFrame) -> pd.DataFrame:
    """Each order's acknowledged version with the highest event time."""
    acked = valid[valid["state"] == "acked"]
    newest = acked.groupby("order_id", sort=False)["order_ts"].idxmax()
    return acked.loc[newest, ["order_id", "event_id", "op", "order_ts"]]


def _malformed(sends: pd.DataFrame) -> pd.DataFrame:
    """Acknowledged malformed sends with their position in the topic and their reason."""
    acked = sends[(sends["state"] == "acked") & sends["kind"].str.startswith("malformed")]
    return acked.assign(place=place_of(acked), reason=acked["kind"].str.partition(":")[2])


def _dead_rows(frame) -> pd.DataFrame:
    rows = _to_pandas(frame, ["partition", "offset", "reason"])
    return rows.assign(place=place_of(rows))


def place_of(frame: pd.DataFrame) -> pd.Series:
    """Return each message's `partition:offset`."""
    return frame["partition"].astype(str) + ":" + frame["offset"].astype(str)


def _rows(frame) -> pd.DataFrame:
    """Rows of a table with their event time in microseconds."""
    columns = ["order_id", "event_id", "order_ts"]
    kinds = dict(frame.dtypes) if isinstance(frame.dtypes, list) else {}
    if kinds.get("order_ts") == "timestamp":
        # Spark gives pandas timestamps in the session's time zone; a number has none.
        frame = frame.selectExpr("order_id", "event_id", "unix_micros(order_ts) AS order_ts")
    rows = _to_pandas(frame, columns)
    return rows.assign(
        order_id=rows["order_id"].fillna("(null)"), order_ts=_micros(rows["order_ts"])
    )


def _micros(times: pd.Series) -> pd.Series:
    if pd.api.types.is_integer_dtype(times):
        return times.astype("int64")
    times = pd.to_datetime(times, utc=True).dt.tz_localize(None)
    return times.astype("datetime64[us]").astype("int64")


def _to_pandas(frame, columns: list[str]) -> pd.DataFrame:
    if isinstance(frame, pd.DataFrame):
        return frame[columns]
    return frame.select(*columns).toPandas()


def _reconciliation(
    sink: str,
    categories: tuple[str, ...],
    keys: dict[str, pd.Series],
    rows: int,
    expected: int,
    **figures: int,
) -> Reconciliation:
    examples = {
        name: [str(key) for key in found.drop_duplicates()[:EXAMPLES]]
        for name, found in keys.items()
        if len(found)
    }
    counts = {name: len(found) for name, found in keys.items()}
    return Reconciliation(sink, categories, rows, expected, **counts, **figures, examples=examples)


def _one_row(figures: dict[str, int]) -> pd.DataFrame:
    return pd.DataFrame([figures.values()], columns=list(figures), index=[""], dtype=object)
