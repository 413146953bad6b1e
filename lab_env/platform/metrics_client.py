"""Query Prometheus and the exporter; results are pandas DataFrames."""

import json
import urllib.error
import urllib.request
from urllib.parse import urlencode

import pandas as pd
from prometheus_client.parser import text_string_to_metric_families

from lab_env.platform.errors import LabError

TIMEOUT_S = 10


def query(url: str, promql: str) -> pd.DataFrame:
    """Evaluate a PromQL expression now; return a row per series with its labels and `value`.

    A scalar is one row without labels.
    """
    data = _api(url, "query", query=promql)
    if data["resultType"] == "scalar":
        return pd.DataFrame([{"value": float(data["result"][1])}])
    rows = [_labels(one["metric"]) | {"value": float(one["value"][1])} for one in data["result"]]
    return _value_last(pd.DataFrame(rows, columns=None if rows else ["value"]))


def query_range(url: str, promql: str, start: float, end: float, step: float) -> pd.DataFrame:
    """Evaluate a PromQL expression from `start` to `end` (seconds since 1970) every `step` seconds.

    Return a row per series and time: `time` (seconds since 1970), labels, and `value`.
    """
    data = _api(url, "query_range", query=promql, start=start, end=end, step=step)
    rows = [
        {"time": float(time)} | _labels(one["metric"]) | {"value": float(value)}
        for one in data["result"]
        for time, value in one["values"]
    ]
    return _value_last(pd.DataFrame(rows, columns=None if rows else ["time", "value"]))


def alerts(url: str) -> pd.DataFrame:
    """Pending and firing alerts: name, state, value, since (UTC), labels (without the name)."""
    rows = []
    for alert in _api(url, "alerts")["alerts"]:
        labels = dict(alert["labels"])
        name, value = labels.pop("alertname"), float(alert["value"])
        since = pd.Timestamp(alert["activeAt"])
        rows.append((name, alert["state"], value, since, labels))
    return pd.DataFrame(rows, columns=["name", "state", "value", "since", "labels"])


def scraped(url: str) -> pd.DataFrame:
    """Metrics on a page, as Prometheus would scrape them now: metric, labels and `value`."""
    families = text_string_to_metric_families(_get(url).decode())
    rows = [
        {"metric": sample.name} | sample.labels | {"value": sample.value}
        for family in families
        for sample in family.samples
    ]
    return _value_last(pd.DataFrame(rows, columns=None if rows else ["metric", "value"]))


def _labels(metric: dict[str, str]) -> dict[str, str]:
    name = {"metric": metric["__name__"]} if "__name__" in metric else {}
    return name | {label: text for label, text in metric.items() if label != "__name__"}


def _value_last(frame: pd.DataFrame) -> pd.DataFrame:
    """Move `value` to the end; missing labels become empty."""
    others = [column for column in frame.columns if column != "value"]
    return frame[[*others, "value"]].fillna({column: "" for column in others})


def _api(url: str, call: str, **parameters) -> dict:
    path = f"{url}/api/v1/{call}" + (f"?{urlencode(parameters)}" if parameters else "")
    return json.loads(_get(path))["data"]


def _get(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=TIMEOUT_S) as answer:
            return answer.read()
    except urllib.error.HTTPError as error:
        said = error.read().decode(errors="replace")
        raise LabError(
            f"Prometheus refuses the query: {_why(said)}", "correct the query."
        ) from None
    except OSError as error:
        place = url.partition("/api/")[0].removesuffix("/metrics")
        raise LabError(f"{place} does not answer ({error}).", "run: lab status") from None


def _why(said: str) -> str:
    try:
        return json.loads(said)["error"]
    except (ValueError, KeyError, TypeError):
        return said.strip()
