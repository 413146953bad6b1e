"""Serves the metrics of the watched pipelines: `python -m lab_env.lab.monitor.exporter ...`.

It measures on each scrape. A value that could not be read for five seconds is left out, and the log
gives the reason; ages are recomputed for each scrape. The lab runs it as the service `exporter`. To
watch other pipelines, it needs a folder with the file `lessons/NAME/watched.json`, the addresses of
broker and store, and the store's keys in the environment. It interprets a table's instant times as
UTC, which the lab's writers use.
"""

import argparse
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from lab_env.lab.monitor.collector import Collector
from lab_env.lab.monitor.metrics import METRICS, Sample
from lab_env.platform.settings import Endpoints

# Prometheus announces its timeout; other clients wait longer.
TIMEOUT_HEADER = "X-Prometheus-Scrape-Timeout-Seconds"
PATIENT_S = 4.0

HEALTH, HEALTHY = "/-/healthy", b"the exporter of the pipelines\n"


def exposition(samples: Iterable[Sample]) -> bytes:
    """Format samples in Prometheus' text format, each metric with its description."""
    registry = CollectorRegistry()
    registry.register(_Families(samples))
    return generate_latest(registry)


def budget(scrape_timeout: str | None) -> float:
    """Return the seconds that a measurement may take, given the scrape timeout in the request."""
    return 0.7 * float(scrape_timeout) if scrape_timeout else PATIENT_S


class _Families:
    """Wraps samples as a prometheus_client collector."""

    def __init__(self, samples: Iterable[Sample]):
        self._samples = sorted(samples, key=lambda sample: sample.metric)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield one family per metric."""
        for metric, group in groupby(self._samples, key=lambda sample: sample.metric):
            family = GaugeMetricFamily(metric, METRICS[metric])
            for sample in group:
                # Not add_metric: pipelines without a table have fewer labels.
                family.add_sample(metric, dict(sample.labels), sample.value)
            yield family


def handler(collector: Collector) -> type[BaseHTTPRequestHandler]:
    """Make the request handler that serves a collector's metrics."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = self.path.partition("?")[0]
            if page == "/metrics":
                seconds = budget(self.headers.get(TIMEOUT_HEADER))
                self._answer(exposition(collector.samples(seconds)), CONTENT_TYPE_LATEST)
            elif page == HEALTH:
                self._answer(HEALTHY, "text/plain")
            else:
                self.send_error(404, "try /metrics")

        def _answer(self, content: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing, because a line per scrape would fill the log."""

    return Handler


def main() -> None:
    """Serve until this process is terminated."""
    parser = argparse.ArgumentParser(description="Metrics of the lab's pipelines, from outside.")
    about = "LAB_HOME: folder of the lab whose pipelines are watched"
    parser.add_argument("home", type=Path, help=about)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9464)
    parser.add_argument("--kafka", required=True, metavar="HOST:PORT")
    parser.add_argument("--s3-endpoint", required=True, metavar="URL")
    parser.add_argument("--s3-region", default="us-east-1")
    parser.add_argument("--bucket", required=True)
    given = parser.parse_args()
    # The store's keys come from AWS_ACCESS_KEY_ID and so on, which boto3 reads itself.
    endpoints = Endpoints(
        given.s3_endpoint, "", "", given.s3_region, given.bucket, kafka_bootstrap=given.kafka
    )
    collector = Collector(given.home, endpoints, lambda line: print(line, flush=True))
    server = ThreadingHTTPServer((given.host, given.port), handler(collector))
    print(f"serving on http://{given.host}:{given.port}/metrics", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
