"""`Lab`: one lesson's handle, all that a notebook imports. It only delegates.

What the course teaches (reads, writes, streams, SQL) stands in the notebook, in Spark's own API.
"""

import re
import secrets
import shutil
import sys
from contextlib import AbstractContextManager
from html import escape
from pathlib import Path

from lab_env import services, store
from lab_env.course.exercises import Exercises
from lab_env.course.outcomes import Card, Outcome
from lab_env.course.progress import CourseProgress
from lab_env.course.proofs import proof
from lab_env.display.architecture import architecture_svg
from lab_env.errors import LabError
from lab_env.install import cds_archive, fetch, java
from lab_env.pipeline import session
from lab_env.pipeline.handle import Writer
from lab_env.processes import supervisor
from lab_env.processes.environment import mark
from lab_env.processes.state import folder
from lab_env.settings import REPOSITORY, Endpoints
from lab_env.shop.ledger import Ledger, ledger_directory
from lab_env.shop.load import Load
from lab_env.shop.replay import replay
from lab_env.shop.topics import delete_topics
from lab_env.xray import XRay, xray

# Spaces beside the lessons: of the tour, the benchmark, and `lab load` and `lab replay`.
OTHER_SPACES = ("tour", "bench", "lab")


def namespace_of(lesson: str) -> str:
    """The name that a lesson's tables, topics and writers carry, for example `lesson-05`.

    Args:
        lesson: a number of two digits; other names stand for themselves, like `tour`.

    Returns:
        The name: a folder of the bucket and the first part of each topic.

    Raises:
        LabError: no bucket folder or topic can be called so.
    """
    if re.fullmatch(r"\d\d", lesson):
        return f"lesson-{lesson}"
    if re.fullmatch(r"[a-z][a-z0-9-]{1,40}", lesson):
        return lesson
    raise LabError(f"There is no lesson {lesson!r}.", "use a number of two digits, such as 05.")


def database_of(namespace: str) -> str:
    """The database of a space in the Hive Metastore, where a name has no hyphen."""
    return namespace.replace("-", "_")


def known_lessons() -> list[str]:
    """The numbers of the lessons that this copy of the course has."""
    return sorted(path.name[:2] for path in (REPOSITORY / "notebooks").glob("[0-9][0-9]_*.ipynb"))


def known_demos() -> list[str]:
    """The demos that this copy of the course has, for example `demo-time-travel`."""
    folder = REPOSITORY / "notebooks" / "demos"
    return sorted(f"demo-{path.stem}" for path in folder.glob("*.ipynb"))


def check_lesson(lesson: str) -> None:
    """Refuse what is no lesson or demo of this copy of the course.

    Args:
        lesson: two digits, for example `05`, or a demo's name.

    Raises:
        LabError: there is none of that number; the text says which there are.
    """
    if lesson not in (*known_lessons(), *known_demos()):
        raise LabError(
            f"There is no lesson {lesson!r}.",
            f"choose from: {', '.join(known_lessons())}, as text of two digits.",
        )


class Lab:
    """One lesson's handle on the running lab.

    Args:
        lesson: two digits, for example `05`, or a name like `tour`.
        endpoints: where the services are.
        needs: the services that the lesson asked for beyond the default ones.
    """

    def __init__(self, lesson: str, endpoints: Endpoints, needs: tuple[str, ...] = ()):
        self.lesson = lesson
        self.endpoints = endpoints
        self.needs = needs
        self.namespace = namespace_of(lesson)
        self._session = None
        self.exercises = Exercises(self)

    @classmethod
    def start(cls, lesson: str, *needs: str, optional: str = "") -> "Lab":
        """Begin a lesson: services up, this lesson's own tables and topics cleared.

        Args:
            lesson: two digits, or a demo's name like `demo-snapshot`.
            needs: services beyond the default ones.
            later: a service that starts while the lesson begins, and that it can do without; `wait_for` waits.

        Returns:
            The handle; showing it lists what runs where.
        """
        check_lesson(lesson)
        services.up([*services.DEFAULT, *needs] if needs else None)
        if optional:
            services.start_optional(optional)
        cleared = reset_lesson(lesson)
        lab = cls(lesson, services.endpoints(), needs)
        if any(cleared.values()):
            print(f"Cleared from an earlier run of {lab.namespace}: {summarize(cleared)}.")
        return lab

    @classmethod
    def resume(cls, lesson: str, *needs: str) -> "Lab":
        """Continue a lesson: as `start`, but nothing is cleared."""
        check_lesson(lesson)
        services.up([*services.DEFAULT, *needs] if needs else None)
        return cls(lesson, services.endpoints(), needs)

    @property
    def spark(self):
        """A plain SparkSession for this lesson, started at first use.

        With a lesson that asked for the metastore, Spark's table names live there.
        """
        if self._session is None:
            java_options = cds_archive.java_options(session.LESSON_JAVA_OPTIONS)
            extra = {"spark.driver.extraJavaOptions": java_options}
            if "metastore" in self.needs:
                extra |= session.metastore_conf(self.address("metastore"))
            self._session = session.build_session(
                self.endpoints,
                fetch.jars("spark"),
                java.java_home(),
                f"lab {self.namespace}",
                extra,
                log=self.spark_log,
            )
        return self._session

    @property
    def spark_log(self) -> Path:
        """The file that takes what this lesson's Spark driver logs."""
        return supervisor.log_path(f"spark-{self.namespace}")

    @property
    def base(self) -> str:
        """The folder of this lesson's tables, for example `s3a://lakehouse/lesson-05`."""
        return f"s3a://{self.endpoints.bucket}/{self.namespace}"

    def path(self, name: str) -> str:
        """Where a table of this lesson lies, for example `s3a://lakehouse/lesson-05/orders_cow`."""
        return f"{self.base}/{name}"

    @property
    def database(self) -> str:
        """This lesson's database in the metastore, for example `lesson_13`; a start clears it."""
        return database_of(self.namespace)

    def known_partitions(self, table: str) -> list[str]:
        """The partitions of one of this lesson's tables, as the metastore itself knows them."""
        return services.SERVICES["metastore"].partitions(self.database, table)

    def scratch(self, name: str) -> str:
        """A path for a table to try things on, new at each call; a lesson's start clears it."""
        return f"{self.base}/scratch/{name}-{secrets.token_hex(3)}"

    def topic(self, name: str) -> str:
        """The Kafka topic of this lesson with that name, for example `lesson-05.orders`."""
        return f"{self.namespace}.{name}"

    def stream(self, name: str) -> str:
        """The Kinesis stream of this lesson with that name, for example `lesson-02.orders`."""
        return f"{self.namespace}.{name}"

    @property
    def folder(self) -> Path:
        """A folder for files of this lesson on this machine; a lesson's start clears it."""
        place = folder("lessons") / self.namespace
        place.mkdir(exist_ok=True)
        return place

    def address(self, service: str) -> str:
        """What a client needs to reach a running service, for example `kinesis`."""
        return services.service(service).address()

    def wait_for(self, service: str) -> bool:
        """Wait for a service that was started for `optional`; whether it is there, or was left out."""
        if not services.service(service).running():
            return False
        services.up([service], progress=lambda line: None)
        print(f"{services.service(service).title} is ready at {self.address(service)}")
        return True

    def paused(self, service: str):
        """Hold a service still while the body of the `with` runs; it answers nothing then."""
        return services.paused(service)

    def load(self, topic: str | None = None, **options) -> Load:
        """Live load on a topic; use it as a context manager or call its `run()`.

        Args:
            topic: full topic name; this lesson's `orders` when not given.
            options: rate (events/s), users, seconds, processes and the like, see `Load`.
        """
        topic = topic or self.topic("orders")
        return Load(
            self.endpoints.kafka_bootstrap,
            topic,
            ledger_directory(topic),
            environment=mark(),  # `lab down` ends it too
            **options,
        )

    def replay(self, topic: str | None = None, **options):
        """Send the recorded stream to a topic, see `lab_env.shop.replay.replay`."""
        topic = topic or self.topic("orders")
        return replay(self.endpoints.kafka_bootstrap, topic, ledger_directory(topic), **options)

    def ledger(self, topic: str | None = None) -> Ledger:
        """The ledger of what the broker acknowledged on a topic."""
        return Ledger(ledger_directory(topic or self.topic("orders")))

    def writer(self, name: str = "pipeline") -> Writer:
        """The handle of this lesson's streaming writer with that name."""
        return Writer(f"writer-{self.namespace}-{name}")

    def files(self, path: str) -> list[store.StoredObject]:
        """Every object below a path of the store, listed without Spark."""
        return list(store.list_objects(self.endpoints, store.key_of(path) + "/"))

    def xray(self, path: str, since: XRay | None = None) -> XRay:
        """A Hudi table's timeline and files; with an earlier snapshot, what is new is marked.

        Its `commit()` tells what a write recorded: operation, records, bytes, files, schema, batch.
        """
        return xray(self.endpoints, path, since)

    def check(self, exercise_id: str, answer) -> Outcome:
        """Judge an answer; the outcome is shown as a card."""
        return self.exercises.check(exercise_id, answer)

    def hint(self, exercise_id: str) -> Card:
        """The next hint of an exercise."""
        return self.exercises.hint(exercise_id)

    def solution(self, exercise_id: str) -> Card:
        """The worked code of an exercise, once you have tried it."""
        return self.exercises.solution(exercise_id)

    def use_reference(self, exercise_id: str) -> Card:
        """Set the reference answer's names in the notebook unless the exercise is solved in it."""
        return self.exercises.use_reference(exercise_id, vars(sys.modules["__main__"]))

    def predict(self, prediction_id: str, expected, choices=None, tolerance: float = 0) -> Card:
        """Keep what you expect, before the run shows it: a choice, or a number."""
        return self.exercises.predict(prediction_id, expected, choices, tolerance)

    def record_actual(self, prediction_id: str, value) -> Card:
        """Set what was measured beside what you expected."""
        return self.exercises.record_actual(prediction_id, value)

    def proof(self, claim: str) -> AbstractContextManager[None]:
        """Assert what a lesson's text claims; if it does not hold, a card says how your run differs."""
        return proof(claim)

    def progress(self) -> CourseProgress:
        """Your progress over the whole course."""
        return self.exercises.progress()

    def architecture(self):
        """The course's pipeline as a drawing, with this lab's addresses."""
        from IPython.display import HTML  # only notebooks show it

        return HTML(architecture_svg(self.endpoints.kafka_bootstrap, self.endpoints.s3_endpoint))

    def links(self) -> dict[str, str]:
        """The web pages of the lab, by name."""
        pages = services.links()
        if self._session is not None:
            pages["spark"] = self._session.sparkContext.uiWebUrl
        return pages

    def __repr__(self) -> str:
        rows = [f"{name:14} {address}" for name, address, _ in self._rows()]
        return "\n".join([f"Lesson {self.lesson}: tables in {self.base}", *rows])

    def _repr_html_(self) -> str:
        cell = "<td style='text-align:left'>{}</td>"
        rows = "".join(
            f"<tr>{cell.format(escape(name))}"
            + cell.format(f"<a href='{at}' target='_blank'>{at}</a>" if page else at)
            + "</tr>"
            for name, at, page in ((name, escape(at), page) for name, at, page in self._rows())
        )
        heading = f"<b>Lesson {escape(self.lesson)}</b>: tables in <code>{escape(self.base)}</code>"
        return f"{heading}<table>{rows}</table>"

    def _rows(self) -> list[tuple[str, str, bool]]:
        """What runs where: name, address, and whether the address is a page for a browser."""
        return [
            *((name, url, True) for name, url in self.links().items()),
            ("Kafka", self.endpoints.kafka_bootstrap, False),
            ("S3", self.endpoints.s3_endpoint, False),
        ]


def reset_lesson(lesson: str) -> dict[str, int]:
    """Clear a lesson's tables, checkpoints, topics, names, ledgers and writers, and nothing else.

    Args:
        lesson: two digits, or a name like `tour`.

    Returns:
        How many of each were cleared: objects, topics, streams, names (of tables in the metastore),
        ledgers, writers.

    Raises:
        LabError: no such lesson, or the services are not running.
    """
    namespace = namespace_of(lesson)
    endpoints = services.endpoints()
    cleared = {"objects": 0, "topics": 0, "streams": 0, "names": 0, "ledgers": 0, "writers": 0}
    cleared["writers"] = _remove_writers(f"writer-{namespace}-")
    cleared["objects"] = store.delete_prefix(endpoints, f"{namespace}/")
    cleared["topics"] = len(delete_topics(endpoints.kafka_bootstrap, f"{namespace}."))
    cleared["streams"] = len(services.SERVICES["kinesis"].delete_streams(f"{namespace}."))
    cleared["names"] = len(services.SERVICES["metastore"].drop_database(database_of(namespace)))
    shutil.rmtree(folder("lessons") / namespace, ignore_errors=True)
    for ledger in folder("ledger").glob(f"{namespace}.*"):
        shutil.rmtree(ledger)
        cleared["ledgers"] += 1
    return cleared


def _remove_writers(prefix: str) -> int:
    running = [program.name for program in supervisor.status() if program.name.startswith(prefix)]
    for name in running:
        supervisor.remove(name)
    for leftover in folder("writers").glob(f"{prefix}*"):
        shutil.rmtree(leftover)
    return len(running)


def summarize(cleared: dict[str, int]) -> str:
    """What `reset_lesson` returned, as part of a sentence."""
    found = [
        f"{count:,} {name if count > 1 else name.removesuffix('s')}"
        for name, count in cleared.items()
        if count
    ]
    return ", ".join(found) or "nothing, there was nothing"
