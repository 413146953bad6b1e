"""Computes what a benchmark run would cost in a cloud: requests, storage and CPU time.

Nothing is extrapolated. The bill covers the measured run: its batches, its table services, one
month of storage, and queries of its table. The prices are in `data/prices.csv`, each with date and
source; edit them there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lab_env.lessons.recorded import SINKS
from lab_env.platform import prices as price_file
from lab_env.platform.display.chart import COLOURS, NAMES, new_chart, note, svg
from lab_env.platform.prices import PRICES
from lab_env.tables.probes.verdict import INCONCLUSIVE, Spread

ITEMS = {
    "storage": "GB-month",
    "put": "1000 requests",
    "list": "1000 requests",
    "get": "1000 requests",
    "vcpu": "vCPU-hour",
    "memory": "GB-hour",
}
# Memory rented with each processor. All rented processor time counts as used: a lower bound.
GB_PER_VCPU = 2
MOST_QUERIES = 1_000_000  # end of the chart


@dataclass(frozen=True)
class Bill:
    """Cost of one sink in US dollars."""

    write: float  # batches and table services of one run
    storage: float  # one month of the data, its size the mean of before and after table services
    query: float  # one query before the table services

    def total(self, queries: float) -> float:
        """Return the cost of the whole run with this number of queries."""
        return self.write + self.storage + self.query * queries


def read_prices(path: Path = PRICES) -> dict[str, float]:
    """Read the price of each item on the bill, in US dollars."""
    return price_file.read_prices(ITEMS, path)


def price_table(path: Path = PRICES) -> pd.DataFrame:
    """Return the prices with region, date and source as a table, one row per item."""
    table = pd.read_csv(path, dtype=str, index_col="item")
    return table.loc[list(ITEMS)].rename(columns={"usd": "US dollars", "as_of": "as of"})


def bill(figures: dict[str, float], query: str, prices: dict[str, float]) -> Bill:
    """Compute the cost of a sink from its measured figures, by metric, in one scenario.

    `query` is the query to bill, for example `aggregate`.
    """
    hour = prices["vcpu"] + GB_PER_VCPU * prices["memory"]

    def work(cpu_seconds: float, puts: float, lists: float, gets: float) -> float:
        requests = puts * prices["put"] + lists * prices["list"] + gets * prices["get"]
        return cpu_seconds / 3600 * hour + requests / 1000

    parts = [
        work(*(figures[f"{part} {what}"] for what in ("CPU s", "puts", "lists", "gets")))
        for part in ("ingest", "services")
    ]
    stored = (figures["bytes stored, fresh"] + figures["bytes stored, tidy"]) / 2
    fresh = f"{query}, fresh"
    lists = figures[f"{fresh}: lists"]
    return Bill(
        sum(parts),
        stored / 1e9 * prices["storage"],
        work(figures[f"{fresh}: CPU s"], 0, lists, figures[f"{fresh}: requests"] - lists),
    )


def break_even(expensive_to_write: Bill, expensive_to_query: Bill) -> float | None:
    """Return the number of queries per run above which the first sink is cheaper.

    It is 0 if that sink is always cheaper, and None if it never is.
    """
    more = expensive_to_write.total(0) - expensive_to_query.total(0)
    saved = expensive_to_query.query - expensive_to_write.query
    if more <= 0 and saved >= 0:
        return 0.0
    return more / saved if more > 0 and saved > 0 else None


@dataclass(frozen=True)
class Crossing:
    """Number of queries per run above which a table is cheaper than the files, over all rounds."""

    at: float | None  # the median if the rounds agree on a number, else None
    text: str  # the number, or the reason why there is none, in words

    @classmethod
    def of(cls, rounds: Sequence[float | None]) -> "Crossing":
        """Combine the `break_even` of each round.

        The rounds agree if there are at least two and their spread does not exceed their median.
        """
        found = [n for n in rounds if n is not None]
        if len(rounds) < 2 or len(found) not in (0, len(rounds)):
            return cls(None, INCONCLUSIVE)
        if not found:
            return cls(None, "never at this size")
        if not any(found):
            return cls(None, "cheaper without any query")
        spread = Spread.of(found)
        if spread.low == 0 or spread.width > spread.median:
            return cls(None, INCONCLUSIVE)
        text = (
            f"from {spread.median:,.0f} queries per run ({spread.low:,.0f} to {spread.high:,.0f})"
        )
        return cls(spread.median, text)


def costs(report: dict, query: str = "aggregate", prices: dict[str, float] | None = None) -> dict:
    """Compute the bills of all scenarios of a report.

    Returns:
        By scenario: `bills` by sink, computed from the medians, and `crossings`, the number of
        queries above which each table is cheaper than the files.
    """
    usd = read_prices() if prices is None else prices
    rounds: dict[tuple, dict] = {}
    medians: dict[tuple, dict] = {}
    for row in report["figures"]:
        key = row["scenario"], row["sink"], row["round"]
        rounds.setdefault(key, {})[row["metric"]] = row["value"]
    for row in report["metrics"]:
        for sink, spread in row["sinks"].items():
            medians.setdefault((row["scenario"], sink), {})[row["metric"]] = spread["median"]

    def crossing(scenario: str, table: str) -> Crossing:
        return Crossing.of(
            [
                break_even(
                    *(bill(rounds[scenario, sink, n], query, usd) for sink in (table, "json"))
                )
                for n in range(1, report["size"]["rounds"] + 1)
            ]
        )

    return {
        scenario: {
            "bills": {sink: bill(medians[scenario, sink], query, usd) for sink in SINKS},
            "crossings": {table: crossing(scenario, table) for table in ("cow", "mor")},
        }
        for scenario in report["size"]["scenarios"]
    }


def cost_chart(bills: dict[str, Bill], title: str, crossings: dict[str, Crossing]) -> str:
    """Return a chart (SVG) of cost over queries per run, one line per sink.

    A dot marks each crossing whose rounds agree.
    """
    figure, axes = new_chart(title, "queries per run", "US cents per run")
    places = {sink: found.at for sink, found in crossings.items() if found.at}
    most = min(MOST_QUERIES, 4 * max([25, *places.values()]))
    queries = [most ** (step / 60) for step in range(61)]
    for sink, spent in bills.items():
        cents = [100 * spent.total(n) for n in queries]
        axes.plot(queries, cents, color=COLOURS[sink], label=NAMES[sink])
    for sink, place in places.items():
        if 1 <= place <= most:
            cents = 100 * bills[sink].total(place)
            axes.plot(place, cents, "o", color=COLOURS[sink])
            note(axes, f"{place:,.0f}", (place, cents), (4, -12))
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_minor_formatter(lambda value, _: "")
    axes.legend(loc="upper left")
    return svg(figure)
