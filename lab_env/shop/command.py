"""What `lab load`, `lab replay` and `lab ledger` do; the commands only pass their arguments."""

from lab_env.errors import LabError
from lab_env.settings import Endpoints, settings
from lab_env.shop.ledger import Ledger, known_ledgers, ledger_directory
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
    """Put live load on a topic and show its numbers.

    Args:
        endpoints: the running services.
        topic: topic name.
        rate: events a second; None for as fast as possible.
        users: number of simulated users.
        seconds: length; None until Ctrl-C.
        processes: number of processes that send.
        web: serve Locust's web UI.
        environment: variables for Locust's processes beside those of this one.

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
            f"`lab status` shows whether it runs; `lab ledger --topic {topic}` asks the topic.",
        )


def replay(
    endpoints: Endpoints,
    topic: str,
    n: int | None,
    rate: float | None,
    skip: int,
) -> None:
    """Send the recorded stream to a topic.

    Args:
        endpoints: the running services.
        topic: topic name.
        n: number of sends; all when left out.
        rate: sends a second; as fast as possible when left out.
        skip: leave out this many sends at the beginning.

    Raises:
        LabError: the broker cannot be reached or a send was not acknowledged.
    """
    bootstrap = endpoints.broker(settings().source)
    print(replay_stream(bootstrap, topic, ledger_directory(topic), n, rate, skip))


def ledger(endpoints: Endpoints, topic: str) -> None:
    """Settle a topic's ledger and show it.

    Args:
        endpoints: the running services.
        topic: topic name.

    Raises:
        LabError: nothing was sent to the topic, or it cannot be read, or it and the ledger differ.
    """
    directory = ledger_directory(topic)
    if not directory.exists():
        known = ", ".join(known_ledgers())
        raise LabError(
            f"No ledger of a topic {topic} is here.",
            f"choose with --topic one of: {known}." if known else "`lab load` starts one.",
        )
    book = Ledger(directory)
    settlement = book.settle(endpoints.broker(settings().source), topic)
    print(book)
    print(settlement)
    if not settlement.ok:
        raise LabError(
            "The topic and its ledger differ.",
            "wait for the send timeout and ask again; what stays was sent by someone else.",
        )
