"""The Locust user that sends the shop's load to Kafka or Kinesis; `shop.load.Load` starts it.

All users of a process share one model, one producer and one ledger. Locust counts a request when
the broker has acknowledged it, so its rates and response times are those of acknowledged events.
The settings come as JSON in the environment variable SHOP_LOAD: see `Plan`.
"""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

import gevent
from locust import User, constant, events, runners, task

from lab_env.platform.brokers.broker import is_kinesis
from lab_env.shop.model import OrderModel, Send, Shares, WallClock
from lab_env.shop.producer import open_sender

TICK_S = 0.1  # a user wakes up this often and sends the events that are due
BURST = 200  # without a rate limit: sends between two polls for acknowledgements
IN_FLIGHT = 20_000  # without a rate limit: more than this would only wait in the client's queue

# Workers report every 3 s by default, too slow for live numbers.
runners.WORKER_REPORT_INTERVAL = 1.0


@dataclass(frozen=True)
class Plan:
    """Settings of the load, as in `load.Load`.

    Args:
        topic: it must exist.
        run: part of every id; must be unique among all runs on a topic.
        rate: total events per second of all `users`; None for no limit.
        stats_file: file for live numbers, one JSON object per line.
        parent: pid of the process that started the load; the load ends when that process has ended.
    """

    bootstrap: str
    topic: str
    ledger_dir: str
    run: str
    rate: float | None
    users: int
    seconds: float | None
    processes: int
    seed: int
    shares: dict[str, float]
    stats_file: str
    parent: int


class Shop:
    """Model, sender and statistics that all users of one process share.

    `worker_id` is part of every id of this process, and `request` is Locust's request event.
    """

    def __init__(self, plan: Plan, worker_id: str, seed: int, request):
        self._request = request
        self._request_type = "KINESIS" if is_kinesis(plan.bootstrap) else "KAFKA"
        self.model = OrderModel(seed, Shares.of(**plan.shares), worker_id, WallClock())
        self.sender = open_sender(
            plan.bootstrap,
            plan.topic,
            Path(plan.ledger_dir),
            delivered=self._delivered,
            pause=gevent.sleep,
            name=worker_id,
        )
        self._poller = gevent.spawn(self._poll)

    def send(self, count: int) -> None:
        """Send the next events of the shop."""
        following = self.model.next
        self.sender.send_all([following() for _ in range(count)])

    def close(self) -> None:
        """Send the held-back events and wait for every acknowledgement."""
        self.sender.send_all(list(self.model.drain()))
        self.sender.flush()
        self._poller.kill()
        self.sender.close()

    def _poll(self) -> None:
        while True:
            self.sender.poll()
            gevent.sleep(0.01)

    def _delivered(self, send: Send, milliseconds: float, error: str | None) -> None:
        self._request.fire(
            request_type=self._request_type,
            name=send.op,
            response_time=milliseconds,
            response_length=len(send.value),
            exception=error and Exception(error),
            context={},
        )


PLAN = Plan(**json.loads(os.environ["SHOP_LOAD"]))
shop: Shop | None = None
starts = 0
watcher: gevent.Greenlet  # in the process that leads


class Shopper(User):
    """User that sends its share of the rate in small bursts."""

    def on_start(self) -> None:
        self.began = time.monotonic()
        self.sent = 0

    wait_time = constant(0 if PLAN.rate is None else TICK_S)

    @task
    def send_what_is_due(self) -> None:
        assert shop  # a test opens it before its users start
        if PLAN.rate is None:
            if shop.sender.waiting() < IN_FLIGHT:
                shop.send(BURST)
            return
        due = int((time.monotonic() - self.began) * PLAN.rate / PLAN.users) - self.sent
        if due > 0:
            self.sent += due
            shop.send(due)


def _sends(environment) -> bool:
    """True if this process sends; a master only coordinates the others."""
    return not isinstance(environment.runner, runners.MasterRunner)


def _leads(environment) -> bool:
    return not isinstance(environment.runner, runners.WorkerRunner)


@events.test_start.add_listener
def open_shop(environment, **_) -> None:
    global shop, starts
    if _sends(environment):
        starts += 1
        index = getattr(environment.runner, "worker_index", 0)
        again = f"r{starts}" if starts > 1 else ""  # started again in the web UI
        seed = PLAN.seed + index + 1000 * (starts - 1)
        shop = Shop(PLAN, f"{PLAN.run}{index}{again}", seed, environment.events.request)
    if _leads(environment) and PLAN.seconds:
        gevent.spawn_later(PLAN.seconds, finish, environment)


@events.test_stop.add_listener
def close_shop(environment, **_) -> None:
    global shop
    if shop:
        shop.close()
        shop = None


def finish(environment) -> None:
    """End the run: every process collects its acknowledgements, then Locust quits.

    With Locust's own `--run-time`, a master quits half a second after the stop and loses the
    workers' later reports.
    """
    environment.runner.stop()
    environment.runner.quit()
    if environment.web_ui:
        environment.web_ui.stop()


@events.quitting.add_listener
def complete(environment, **_) -> None:
    """Stop the run before Locust sets its exit status, so that the last failures count."""
    if _leads(environment):
        environment.runner.stop()
        environment.runner.quit()
        watcher.kill()
        write_stats(environment, final=True)


@events.test_stopping.add_listener
def miss_workers(environment, **_) -> None:
    """Fail the run if a worker died."""
    if isinstance(environment.runner, runners.MasterRunner):
        alive = environment.runner.worker_count
        if alive < PLAN.processes:
            print(f"{PLAN.processes - alive} of {PLAN.processes} worker processes died.")
            environment.process_exit_code = 3


@events.init.add_listener
def watch(environment, **_) -> None:
    global watcher
    if _leads(environment):
        watcher = gevent.spawn(_watch, environment)


def _watch(environment) -> None:
    while True:
        gevent.sleep(0.5)
        write_stats(environment)
        if os.getppid() != PLAN.parent:
            finish(environment)


def write_stats(environment, final: bool = False) -> None:
    """Append the current numbers to the stats file."""
    stats = environment.runner.stats
    total = stats.total
    numbers = {
        "time": time.time(),
        "users": environment.runner.user_count,
        "acked": total.num_requests - total.num_failures,
        "failures": total.num_failures,
        "p50_ms": total.get_current_response_time_percentile(0.5),
        "p95_ms": total.get_current_response_time_percentile(0.95),
        "errors": [error.to_name() for error in stats.errors.values()],
        "final": final,
    }
    with open(PLAN.stats_file, "a", encoding="utf-8") as file:
        file.write(json.dumps(numbers) + "\n")
