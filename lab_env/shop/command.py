"""Implementation of `lab load`, `lab replay` and `lab ledger`; the CLI only passes arguments."""

from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints, settings
from lab_env.shop.ledger.book import Ledger, known_ledgers, ledger_directory
from lab_env.shop.load import Load
from lab_env.shop.replay import replay as replay_stream


def load(
    endpoints: Endpoints,
    topic: str,
    rate: float | None,
    users: int,
    seconds: float | None,
    processes: int,
    web: bool,
    environment: dict[str, str],
) -> None:
    """Send live load to a topic and show live numbers.

    Args:
        rate: events per second; None for no limit.
        seconds: duration; None until Ctrl-C.

    Raises:
        LabError: the load did not start or died, or a send was not acknowledged.
    """
    port = settings().locust_port if web else None
    run = Load(
        endpoints.broker(settings().source),
        topic,
        ledger_directory(topic),
        rate,
        users,
        seconds,
        processes,
        port,
        environment=environment,
    )
    run.start()
    if run.page:
        print(f"Locust's web UI: {run.page}")
    try:
        lost = run.wait()
    except KeyboardInterrupt:
        lost = run.stop()
    if lost:
        raise LabError(
            f"{lost} sends were not acknowledged.",
            f"run: lab status   (then: lab ledger --topic {topic}, which reads the topic)",
        )


def replay(
    endpoints: Endpoints,
    topic: str,
    n: int | None,
    rate: float | None,
    skip: int,
) -> None:
    """Send the recorded stream to a topic; the arguments are those of `replay.replay`."""
    bootstrap = endpoints.broker(settings().source)
    print(replay_stream(bootstrap, topic, ledger_directory(topic), n, rate, skip))


def ledger(endpoints: Endpoints, topic: str) -> None:
    """Settle a topic's ledger and show it; raise `LabError` if the topic differs from it."""
    directory = ledger_directory(topic)
    if not directory.exists():
        known = ", ".join(known_ledgers())
        raise LabError(
            f"There is no ledger for the topic {topic}.",
            f"choose with --topic one of: {known}." if known else "start one: lab load",
        )
    book = Ledger(directory)
    settlement = book.settle(endpoints.broker(settings().source), topic)
    print(book)
    print(settlement)
    if not settlement.ok:
        raise LabError(
            "The topic and its ledger differ.",
            "wait for the send timeout and run this again; "
            "differences that stay were sent by another program.",
        )
