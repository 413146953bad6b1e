"""Read cloud prices from `data/prices.csv`, which has the region, date and source of each price.

To change a price, edit that file.
"""

import csv
import math
from collections.abc import Mapping
from pathlib import Path

from lab_env.platform.errors import LabError
from lab_env.platform.settings import REPOSITORY

PRICES = REPOSITORY / "data" / "prices.csv"


def read_prices(items: Mapping[str, str], path: Path = PRICES) -> dict[str, float]:
    """Read the prices of some items, in US dollars by item; a missing or invalid price is an error.

    Args:
        items: unit of each item, for example `{"storage": "GB-month"}`.
        path: a CSV file with item, unit, usd, region, as_of, confirmed and source. `confirmed` is
            yes if somebody read the page named as source and it states this price.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row.get("item") in items]
    fix = f"fix {path.name}."
    if sorted(row["item"] for row in rows) != sorted(items):
        raise LabError(f"{path.name} must price each of {', '.join(items)} once.", fix)
    return {row["item"]: _price(row, items[row["item"]], fix) for row in rows}


def _price(row: dict[str, str], unit: str, fix: str) -> float:
    if row["unit"] != unit:
        raise LabError(f"The price of {row['item']} must be for {unit}.", fix)
    if not (row["as_of"] and row["source"]):
        raise LabError(f"The price of {row['item']} has no date or no source.", fix)
    try:
        price = float(row["usd"])
    except ValueError:
        price = math.nan
    if not 0 <= price < math.inf:
        raise LabError(f"{row['usd']!r} is not a valid price of {row['item']}.", fix)
    return price
