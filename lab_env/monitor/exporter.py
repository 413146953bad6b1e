"""Serves the metrics of the watched pipelines: `python -m lab_env.monitor.exporter ...`.

It measures when it is asked. What it could not read for five seconds has no number; ages are
computed anew for each scrape. Its log says why something could not be read. The lab starts it as
the service `exporter`. For pipelines elsewhere it needs the file `lessons/NAME/watched.json` in
some folder, the addresses of broker and store, and the store's keys in the environment. Times of a
table count as UTC, as the lab's writers have them.
"""

import argparse
from collections.abc import Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from lab_env.monitor.collector import Collector
from lab_env.monitor.metrics import METRICS, Sample
from lab_env.settings import Endpoints

# Prometheus says how long it will wait; others are patient.
TIMEOUT_HEADER = "X-Prometheus-Scrape-Timeout-Seconds"
PATIENT_S = 4.0

HEALTH, HEALTHY = "/-/healthy", b"the exporter of the pipelines\n"


def exposition(samples: Iterable[Sample]) -> bytes:
    """Samples in Prometheus' text format, each metric with its description."""
    registry = CollectorRegistry()
    registry.register(_Families(samples))
    return generate_latest(registry)


def budget(scrape_timeout: str | None) -> float:
    """How many seconds a measurement may take, by the time-out that the scrape announces."""
    return 0.7 * float(scrape_timeout) if scrape_timeout else PATIENT_S


class _Families:
    """Samples as a collector of prometheus_client."""

    def __init__(self, samples: Iterable[Sample]):
        self._samples = sorted(samples, key=lambda sample: sample.metric)

    def describe(self) -> list:
        """Nothing: what is there is only known when it is collected."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """One family for each metric."""
        for metric, group in groupby(self._samples, key=lambda sample: sample.metric):
            family = GaugeMetricFamily(metric, METRICS[metric])
            for sample in group:
                # Not add_metric: pipelines without a table have fewer labels.
                family.add_sample(metric, dict(sample.labels), sample.value)
            yield family


def handler(collector: Collector) -> type[BaseHTTPRequestHandler]:
    """The request handler that serves the metrics of a collector."""

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
            """A line for each scrape would fill the log."""

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True


def main() -> None:
    """Serve until this process is ended."""
    parser = argparse.ArgumentParser(description="Metrics of the lab's pipelines, from outside.")
    parser.add_argument("home", type=Path, help="LAB_HOME: what its writers and lessons watch")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=9464)
    parser.add_argument("--kafka", required=True, metavar="HOST:PORT")
    parser.add_argument("--s3-endpoint", required=True, metavar="URL")
    parser.add_argument("--s3-region", default="us-east-1")
    parser.add_argument("--bucket", required=True)
    given = parser.parse_args()
    # The keys of the store come by AWS_ACCESS_KEY_ID and so on, which boto3 reads itself.
    endpoints = Endpoints(
        given.s3_endpoint, "", "", given.s3_region, given.bucket, kafka_bootstrap=given.kafka
    )
    collector = Collector(given.home, endpoints, lambda line: print(line, flush=True))
    server = _Server((given.host, given.port), handler(collector))
    print(f"serving on http://{given.host}:{given.port}/metrics", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
