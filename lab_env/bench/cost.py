"""What the measured run would cost in a cloud: requests, storage and processor time, at prices of a table.

Nothing is extrapolated. The bill is for the very run that was measured: its batches, its table services,
a month of what it stores, and queries of its table. Prices are an input, `data/prices.csv`, each with its
date and source: change them there.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab_env.bench.rounds import SINKS
from lab_env.display.chart import COLOURS, INK, NAMES, new_chart, svg
from lab_env.errors import LabError
from lab_env.probes.verdict import INCONCLUSIVE, Spread
from lab_env.shop.model import DATA

PRICES = DATA / "prices.csv"
ITEMS = {
    "storage": "GB-month",
    "put": "1000 requests",
    "list": "1000 requests",
    "get": "1000 requests",
    "vcpu": "vCPU-hour",
    "memory": "GB-hour",
}
# Memory that is rented with each processor. Processor time is taken as fully used: a lower bound.
GB_A_VCPU = 2
MOST_QUERIES = 1_000_000  # what the chart looks at


@dataclass(frozen=True)
class Bill:
    """What one sink costs, in US dollars.

    Args:
        write: the batches and the table services of one run.
        storage: one month of what the run stored, half fresh and half tidy.
        query: one query of the fresh table.
    """

    write: float
    storage: float
    query: float

    def total(self, queries: float) -> float:
        """With so many queries a run."""
        return self.write + self.storage + self.query * queries


def read_prices(path: Path = PRICES) -> dict[str, float]:
    """The prices of a table.

    Args:
        path: a CSV file with item, unit, usd, region, as_of and source.

    Returns:
        US dollars by item.

    Raises:
        LabError: an item is missing, twice there, in another unit, without a date or source, or no price.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    mend = f"mend {path.name}."
    if sorted(row.get("item", "") for row in rows) != sorted(ITEMS):
        raise LabError(f"{path.name} must price each of {', '.join(ITEMS)} once.", mend)
    prices = {}
    for row in rows:
        if row["unit"] != ITEMS[row["item"]]:
            raise LabError(f"The price of {row['item']} must be for {ITEMS[row['item']]}.", mend)
        if not (row["as_of"] and row["source"]):
            raise LabError(f"The price of {row['item']} has no date or no source.", mend)
        try:
            prices[row["item"]] = float(row["usd"])
        except ValueError:
            raise LabError(f"{row['usd']!r} is no price of {row['item']}.", mend) from None
        if not 0 <= prices[row["item"]] < math.inf:
            raise LabError(f"{row['usd']!r} is no price of {row['item']}.", mend)
    return prices


def price_rows(path: Path = PRICES) -> list[list[str]]:
    """The price table as it stands in its file, without the head."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))[1:]


def bill(figures: dict[str, float], query: str, prices: dict[str, float]) -> Bill:
    """What a sink costs.

    Args:
        figures: its measured medians in one scenario, by metric.
        query: which query is asked, for example `aggregate`.
        prices: what `read_prices` returned.
    """
    hour = prices["vcpu"] + GB_A_VCPU * prices["memory"]

    def work(cpu_seconds: float, puts: float, lists: float, gets: float) -> float:
        requests = puts * prices["put"] + lists * prices["list"] + gets * prices["get"]
        return cpu_seconds / 3600 * hour + requests / 1000

    parts = [
        work(
            figures[f"{part} CPU s"],
            figures[f"{part} puts"],
            figures[f"{part} lists"],
            figures[f"{part} gets"],
        )
        for part in ("ingest", "services")
    ]
    stored = (figures["bytes stored, fresh"] + figures["bytes stored, tidy"]) / 2
    asked = f"{query}, fresh"
    lists = figures[f"{asked}: lists"]
    return Bill(
        sum(parts),
        stored / 1e9 * prices["storage"],
        work(figures[f"{asked}: CPU s"], 0, lists, figures[f"{asked}: requests"] - lists),
    )


def break_even(dear_to_write: Bill, dear_to_ask: Bill) -> float | None:
    """From how many queries a run on the first is the cheaper one.

    Args:
        dear_to_write: usually a table.
        dear_to_ask: usually files.

    Returns:
        The number; 0 when it is cheaper even without a query, None when it never is.
    """
    more = dear_to_write.total(0) - dear_to_ask.total(0)
    saved = dear_to_ask.query - dear_to_write.query
    if more <= 0 and saved >= 0:
        return 0.0
    return more / saved if more > 0 and saved > 0 else None


@dataclass(frozen=True)
class Crossing:
    """From how many queries a run on a table is cheaper than the files, over the rounds.

    Args:
        rounds: what each round says, as `break_even` does.
        at: the median, where the rounds agree on a number; else None.
        said: in words.
    """

    rounds: tuple[float | None, ...]
    at: float | None
    said: str

    @classmethod
    def of(cls, rounds: Sequence[float | None]) -> "Crossing":
        """What the rounds say together; two at least, and a spread not wider than their median."""
        found = [n for n in rounds if n is not None]
        if len(rounds) < 2 or len(found) not in (0, len(rounds)):
            return cls(tuple(rounds), None, INCONCLUSIVE)
        if not found:
            return cls(tuple(rounds), None, "never at this size")
        if not any(found):
            return cls(tuple(rounds), None, "cheaper without any query")
        spread = Spread.of(found)
        if spread.low == 0 or spread.width > spread.median:
            return cls(tuple(rounds), None, INCONCLUSIVE)
        said = f"from {spread.median:,.0f} queries a run ({spread.low:,.0f} to {spread.high:,.0f})"
        return cls(tuple(rounds), spread.median, said)


def costs(report: dict, query: str = "aggregate", prices: dict[str, float] | None = None) -> dict:
    """The bills of all scenarios of a report.

    Args:
        report: what `summary` returned.
        query: which query is asked.
        prices: what `read_prices` returned; read when left out.

    Returns:
        For each scenario `bills` by sink, from the medians, and for each table its `crossings` with the
        files.
    """
    prices = read_prices() if prices is None else prices
    found = {}
    for scenario in report["size"]["scenarios"]:
        rows = [row for row in report["metrics"] if row["scenario"] == scenario]
        bills = {
            sink: bill({row["metric"]: row["sinks"][sink]["median"] for row in rows}, query, prices)
            for sink in SINKS
        }
        each = [
            {sink: bill(_round(report, scenario, sink, n), query, prices) for sink in SINKS}
            for n in range(1, report["size"]["rounds"] + 1)
        ]
        crossings = {
            sink: Crossing.of([break_even(bills_[sink], bills_["json"]) for bills_ in each])
            for sink in SINKS
            if sink != "json"
        }
        found[scenario] = {"bills": bills, "crossings": crossings}
    return found


def _round(report: dict, scenario: str, sink: str, number: int) -> dict[str, float]:
    wanted = {"scenario": scenario, "sink": sink, "round": number}
    rows = (row for row in report["figures"] if wanted.items() <= row.items())
    return {row["metric"]: row["value"] for row in rows}


def cost_chart(bills: dict[str, Bill], title: str, crossings: dict[str, Crossing]) -> str:
    """US dollars over queries a run, a line a sink; where the rounds agree on a crossing it is marked.

    Args:
        bills: by sink.
        title: what the chart shows.
        crossings: by table.

    Returns:
        SVG text.
    """
    figure, axes = new_chart(title, "queries a run", "US cents a run")
    places = {sink: found.at for sink, found in crossings.items() if found.at}
    most = min(MOST_QUERIES, 4 * max([25, *places.values()]))
    queries = [most ** (step / 60) for step in range(61)]
    for sink, spent in bills.items():
        cents = [100 * spent.total(n) for n in queries]
        axes.plot(queries, cents, color=COLOURS[sink], label=NAMES[sink])
    for sink, place in places.items():
        if 1 <= place <= most:
            axes.plot(place, 100 * bills[sink].total(place), "o", color=COLOURS[sink])
            axes.annotate(
                f"{place:,.0f}", (place, 100 * bills[sink].total(place)), (4, -12),
                textcoords="offset points", fontsize=9, color=INK,
            )  # fmt: skip
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: f"{value:,g}")
        axis.set_minor_formatter(lambda value, _: "")
    axes.legend(loc="upper left")
    return svg(figure)
