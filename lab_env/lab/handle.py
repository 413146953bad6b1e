"""`Lab`, the handle of one lesson and the only name that a notebook imports; it only delegates.

The code that the course teaches (reads, writes, streams, SQL) is in the notebook and uses Spark's
own API.
"""

import re
import secrets
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from lab_env.course.copies import known_demos, known_lessons
from lab_env.course.exercises import NO_ANSWER, Exercises, is_reference
from lab_env.course.known_errors import explain_errors
from lab_env.course.outcomes import Card, Outcome
from lab_env.course.progress import CourseProgress
from lab_env.course.proofs import proof
from lab_env.course.room.seat import SEAT
from lab_env.lab.faults.outages import paused
from lab_env.lab.monitor import watched
from lab_env.lab.monitor.handle import PrometheusHandle
from lab_env.pipeline import session
from lab_env.pipeline.handle import Writer
from lab_env.platform import metrics_client, services, store
from lab_env.platform.errors import LabError
from lab_env.platform.install import cds_archive, java
from lab_env.platform.install.jars import jar_folder
from lab_env.platform.processes import supervisor
from lab_env.platform.processes.environment import adapt, mark, programs_of_lesson
from lab_env.platform.processes.state import folder
from lab_env.platform.processes.tree import kill_processes
from lab_env.platform.settings import REPOSITORY, Endpoints, settings
from lab_env.shop.ledger.book import Ledger, ledger_directory
from lab_env.shop.load import Load
from lab_env.shop.replay import replay
from lab_env.tables.hudi.intact import Damage, damaged_files
from lab_env.tables.xray import StoredTable, XRay, xray

if TYPE_CHECKING:
    from lab_env.tables.observed.watching import Observed

# Somebody waits for a notebook, so a store that is down is an error after seconds. Writers wait.
# (Hudi asks ten times for a table's properties, and S3A retries each time.)
IMPATIENT = {
    "spark.hadoop.fs.s3a.attempts.maximum": "2",
    "spark.hadoop.fs.s3a.retry.limit": "1",
}

ARCHITECTURE = REPOSITORY / "lab_env" / "platform" / "display" / "architecture.svg"
# Namespaces other than lessons: the tour, the benchmark, the fault campaign, and `lab load` and
# `lab replay` (`lab`).
OTHER_NAMESPACES = ("tour", "bench", "campaign", "lab")


def namespace_of(lesson: str) -> str:
    """Return a lesson's namespace: its folder in the bucket and the first part of its topic names.

    Lesson `05` has the namespace `lesson-05`; a name such as `tour` is its own namespace.
    LAB_NAMESPACE, if set, is put in front, so that several learners can share a store.
    """
    if re.fullmatch(r"\d\d", lesson):
        return f"{settings().prefix}lesson-{lesson}"
    if re.fullmatch(r"[a-z][a-z0-9-]{1,40}", lesson):
        return f"{settings().prefix}{lesson}"
    raise LabError(f"There is no lesson {lesson!r}.", "use a number of two digits, such as 05.")


def check_lesson(lesson: str) -> None:
    """Raise an error unless this version of the course has a lesson or demo of this name."""
    if lesson not in (*known_lessons(), *known_demos()):
        raise LabError(
            f"There is no lesson {lesson!r}.",
            f"choose from: {', '.join(known_lessons())}   (a string of two digits)",
        )


def _begin(lesson: str, needs: tuple[str, ...]) -> None:
    """Start the services that a lesson needs, and report to the lab room if this seat is in one."""
    check_lesson(lesson)
    adapt()
    with SEAT.entering(lesson):
        services.check_for_lesson(needs)
        services.up([*services.DEFAULT, *needs])


class Lab:
    """One lesson's handle on the running lab; `needs` names the lesson's additional services."""

    def __init__(self, lesson: str, endpoints: Endpoints, needs: tuple[str, ...] = ()):
        self.lesson = lesson
        self.endpoints = endpoints
        self.needs = needs
        self.namespace = namespace_of(lesson)
        self._session = None
        self.exercises = Exercises(self, watcher=SEAT)
        explain_errors()

    @classmethod
    def start(cls, lesson: str, *needs: str, optional: str = "") -> "Lab":
        """Start a lesson: bring up the services and clear the lesson's own tables and topics.

        Args:
            lesson: two digits, or a demo's name such as `demo-snapshot`.
            needs: services in addition to the default ones.
            optional: a service that the lesson can do without. It starts in the background; call
                `wait_for` before using it.

        Returns:
            The handle; a notebook displays it as a list of the running services.
        """
        _begin(lesson, needs)
        if optional:
            services.start_optional(optional)
        lab = cls(lesson, services.endpoints(), needs)
        if removed := summarize(reset_lesson(lesson)):
            print(f"Removed what an earlier run of {lab.namespace} left: {removed}.")
        return lab

    @classmethod
    def resume(cls, lesson: str, *needs: str) -> "Lab":
        """Continue a lesson: like `start`, but without clearing anything."""
        _begin(lesson, needs)
        return cls(lesson, services.endpoints(), needs)

    @property
    def spark(self):
        """A plain SparkSession for this lesson, started on first use.

        If the lesson needs the metastore, Spark uses it as its catalog.
        """
        return self.start_spark({})

    def start_spark(self, properties: dict[str, str]):
        """Return the session of `spark`, started with additional Spark properties.

        They override the lab's own. If a session is already running, it is returned unchanged.
        """
        if self.running_spark is None:
            java_options = cds_archive.java_options(session.LESSON_JAVA_OPTIONS)
            extra = {"spark.driver.extraJavaOptions": java_options, **IMPATIENT}
            if "metastore" in self.needs:
                extra |= session.metastore_conf(self.address("metastore"))
            self._session = session.build_session(
                self.endpoints,
                jar_folder("spark"),
                java.java_home(),
                f"lab {self.namespace}",
                extra | properties,
                log=self.spark_log,
            )
        return self._session

    @property
    def running_spark(self):
        """The session of `spark`, or None if there is none that runs."""
        ended = self._session is None or self._session.sparkContext._jsc is None
        return None if ended else self._session

    @property
    def spark_log(self) -> Path:
        """Log file of this lesson's Spark driver."""
        return supervisor.log_path(f"spark-{self.namespace}")

    @property
    def base(self) -> str:
        """The folder of this lesson's tables, for example `s3a://lakehouse/lesson-05`."""
        return f"s3a://{self.endpoints.bucket}/{self.namespace}"

    def path(self, name: str) -> str:
        """Return the path of this lesson's table, such as `s3a://lakehouse/lesson-05/orders_cow`."""
        return f"{self.base}/{name}"

    @property
    def database(self) -> str:
        """This lesson's database in the metastore, for example `lesson_13`; `start` drops it."""
        return services.database_of(self.namespace)

    def known_partitions(self, table: str) -> list[str]:
        """Return the partitions registered in the metastore for a table of this lesson."""
        return services.Metastore().partitions(self.database, table)

    def scratch(self, name: str) -> str:
        """Return a new path for a throwaway table on each call; `start` deletes the table."""
        return f"{self.base}/scratch/{name}-{secrets.token_hex(3)}"

    def topic(self, name: str) -> str:
        """Return the full name of this lesson's Kafka topic, for example `lesson-05.orders`."""
        return f"{self.namespace}.{name}"

    def stream(self, name: str) -> str:
        """Return the full name of this lesson's Kinesis stream, for example `lesson-02.orders`."""
        return f"{self.namespace}.{name}"

    def connector(self, name: str) -> str:
        """Return the full name of this lesson's connector, for example `lesson-15.orders`."""
        return f"{self.namespace}.{name}"

    def postgres(self) -> str:
        """Return the libpq connection string of this lesson's own PostgreSQL database.

        The database, for example `lesson_15`, is created if it is missing; `start` drops it. The
        string contains the password, so do not print it.
        """
        return services.Postgres().database(self.namespace)

    def zookeeper(self):
        """Return a connected kazoo client of ZooKeeper; use it in a `with` block.

        Create the lesson's locks below its own node, such as `/lesson-18`, or below the node that
        the pipeline's options use, `/lakehouse/lesson-18`; `start` deletes both.
        """
        return services.ZooKeeper().client()

    @property
    def folder(self) -> Path:
        """A local folder for this lesson's files; `start` clears it."""
        path = folder("lessons") / self.namespace
        path.mkdir(exist_ok=True)
        return path

    def address(self, service: str) -> str:
        """Return the address at which clients reach a running service, for example `kinesis`."""
        return services.service(service).address()

    def wait_for(self, service: str) -> bool:
        """Wait until the optional service is ready; return False if it was not started."""
        if not services.service(service).running():
            return False
        services.up([service], progress=lambda line: None)
        print(f"{services.service(service).title} is ready at {self.address(service)}")
        return True

    def paused(self, service: str):
        """Freeze a service during the `with` block, so that it does not respond."""
        return paused(service)

    def load(self, topic: str | None = None, source: str = "kafka", **options) -> Load:
        """Return a load generator for a topic; use it as a context manager or call its `run()`.

        Args:
            topic: full topic name; by default this lesson's `orders`.
            source: `kafka`, or `kinesis` to send to the stream of that name.
            options: rate (events/s), users, seconds, processes and more, see `Load`.
        """
        services.require_reachable(self.endpoints)
        topic = topic or self.topic("orders")
        return Load(
            self.endpoints.broker(source),
            topic,
            ledger_directory(topic),
            environment=mark(),  # `lab down` ends it too
            **options,
        )

    def replay(self, topic: str | None = None, source: str = "kafka", **options):
        """Send the recorded stream to a topic or stream; see `lab_env.shop.replay.replay`."""
        services.require_reachable(self.endpoints)
        topic = topic or self.topic("orders")
        return replay(self.endpoints.broker(source), topic, ledger_directory(topic), **options)

    def ledger(self, topic: str | None = None) -> Ledger:
        """Return a topic's ledger, which records every event sent and its acknowledgement."""
        services.require_reachable(self.endpoints)
        return Ledger(ledger_directory(topic or self.topic("orders")))

    def writer(self, name: str = "pipeline") -> Writer:
        """Return the handle of a streaming writer of this lesson."""
        return Writer(f"writer-{self.namespace}-{name}")

    def watch(self, name: str, topic: str, checkpoint: str, table: str = "") -> None:
        """Have the exporter measure a streaming query of this notebook; it always measures writers.

        Args:
            name: value of the label `pipeline` in its metrics, for example `orders`.
            topic: full name of the topic that it reads.
            checkpoint: its `checkpointLocation`.
            table: path of the Hudi table that it writes; empty if it writes none.

        Raises:
            LabError: the name is longer than 60 characters, or contains characters other than
                letters, digits and `_.-`.
        """
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,60}", name):
            next_step = "use letters, digits, dots, hyphens and underscores, for example orders."
            raise LabError(f"No pipeline can be called {name!r}.", next_step)
        pipeline = watched.Pipeline(self.namespace, name, topic, checkpoint, table)
        watched.watch(self.folder, pipeline)

    def unwatch(self, name: str) -> bool:
        """Stop measuring a query that was passed to `watch`; return False if none has this name."""
        return watched.unwatch(self.folder, name)

    def pipeline_metrics(self) -> pd.DataFrame:
        """Return the exporter's current metrics: metric, labels, value; needs no Prometheus."""
        return metrics_client.scraped(f"{self.address('exporter')}/metrics")

    @property
    def prometheus(self) -> PrometheusHandle:
        """Prometheus, with the rules and targets of this lesson; `start` removes them."""
        return PrometheusHandle(services.Prometheus(), self.namespace, services.run_promtool)

    def files(self, path: str) -> list[store.StoredObject]:
        """Return every object below a path of the object store, listed without Spark."""
        services.require_store(self.endpoints)
        return list(store.list_objects(self.endpoints, store.key_of(path) + "/"))

    def xray(self, path: str, since: XRay | None = None, check: bool = False) -> XRay:
        """Return a Hudi table's timeline and files; files that `since` does not have are marked.

        With `check`, damaged files are marked too. The result's `commit()` returns the metadata of
        a write: operation, records, bytes, files, schema, batch.
        """
        services.require_store(self.endpoints)
        return xray(self.endpoints, path, since, check)

    def observe(self, path: str) -> "AbstractContextManager[Observed]":
        """Read a Hudi table in every way during the `with` block, while you or a stream write it.

        After the block the result shows what each reader saw, as a picture, and its `verdicts`
        count the reads that were stale, showed half a commit, and so on.
        """
        from lab_env.tables.observed.watching import observed  # with hudi-rs it takes 0.3 s

        services.require_store(self.endpoints)
        return observed(self.endpoints, self.spark, path)

    def damaged_files(self, path: str) -> list[Damage]:
        """Return a Hudi table's files that were damaged after they were written; empty if intact.

        A reader may skip a damaged log without an error. Call this while no writer runs.
        """
        return damaged_files(StoredTable(self.endpoints, path))

    def check(self, exercise_id: str, answer=NO_ANSWER) -> Outcome:
        """Check an answer and return the outcome, which a notebook shows as a card.

        Raises:
            LabError: there is no answer, no such exercise, or the lab is not running.
        """
        services.require_reachable(self.endpoints)
        return self.exercises.check(exercise_id, answer)

    def hint(self, exercise_id: str) -> Card:
        """Return the next hint of an exercise."""
        return self.exercises.hint(exercise_id)

    def solution(self, exercise_id: str) -> Card:
        """Return the solution of an exercise, once you have tried it."""
        return self.exercises.solution(exercise_id)

    def use_reference(self, exercise_id: str) -> Card:
        """Run the reference answer in the notebook, unless you have solved the exercise there."""
        return self.exercises.use_reference(exercise_id, vars(sys.modules["__main__"]))

    def attack(
        self,
        exercise_id: str,
        *rungs: int,
        answer: Callable | None = None,
        seed: int | None = None,
        shrink: bool = False,
    ):
        """Attack your answer to an exercise, in a process of its own; return what it survived.

        Args:
            rungs: numbers of the rungs to climb; by default all, until your answer falls.
            answer: another function to attack; its climb does not count as yours.
            seed: the same seed gives the same events.
            shrink: after a fall, look for fewer events with which it still falls.
        """
        from lab_env.lab.ladder import attack as ladder  # only a few notebooks attack

        services.require_reachable(self.endpoints)
        exercise_id, _ = ladder.rungs_of(exercise_id)
        given = "" if answer is None else getattr(answer, "__name__", "your function")
        if answer is None:
            answer = self.exercises.answer(exercise_id, vars(sys.modules["__main__"]))
        climb = ladder.attack(
            self.endpoints, self.namespace, exercise_id, answer, rungs, seed, shrink=shrink
        )
        which = "reference" if is_reference(exercise_id, answer) else ""
        climb = replace(climb, which=which, given=given)
        climb.keep()
        return climb

    def predict(self, prediction_id: str, expected, choices=None, tolerance: float = 0) -> Card:
        """Record your prediction, a choice or a number, before the run shows the result."""
        return self.exercises.predict(prediction_id, expected, choices, tolerance)

    def record_actual(self, prediction_id: str, value) -> None:
        """Show the measured value next to your prediction; works anywhere in a cell."""
        from IPython.display import display  # only notebooks show it

        display(self.exercises.record_actual(prediction_id, value))

    def proof(self, claim: str) -> AbstractContextManager[None]:
        """Check a claim of the lesson's text; if it fails, a card shows how your run differs."""
        return proof(claim, self.lesson)

    def progress(self) -> CourseProgress:
        """Return your progress through the whole course."""
        return self.exercises.progress()

    def architecture(self):
        """Return a drawing of the course's pipeline."""
        from IPython.display import HTML  # only notebooks show it

        return HTML(ARCHITECTURE.read_text("utf-8"))

    def links(self) -> dict[str, str]:
        """Return the URLs of the lab's web pages, for a browser, by name."""
        pages = services.links()
        if self._session is not None and self._session.sparkContext.uiWebUrl:
            # "/" would redirect to the address that this machine has, which a browser may not.
            page = f"{self._session.sparkContext.uiWebUrl}/jobs/"
            pages["Spark"] = settings().browser_url(page)
        return pages

    def __repr__(self) -> str:
        rows = [f"{name:18} {address}" for name, address, _ in self._rows()]
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
        """Name and address of each running service, and whether the address is a web page."""
        used = map(services.service, (*services.DEFAULT, *self.needs))
        return [
            *((name, url, True) for name, url in self.links().items()),
            *((service.title, service.address(), False) for service in used),
        ]


def reset_lesson(lesson: str) -> dict[str, int]:
    """Remove a lesson's writers, tables, checkpoints, topics, ledgers and files, and nothing else.

    Programs that its notebook started are killed, so that none keeps writing. Return the number of
    removed objects, topics and so on, for example `{"objects": 214, "topics": 2}`. If the services
    are not running, raise `LabError` and remove nothing.
    """
    namespace = namespace_of(lesson)
    services.endpoints()  # raises unless the services are running: nothing is half cleared
    writers = _remove_writers(f"writer-{namespace}-")
    kill_processes(programs_of_lesson(namespace))
    # First what the exporter watches, so that it measures nothing that is being removed.
    shutil.rmtree(folder("lessons") / namespace, ignore_errors=True)
    cleared = services.clear(namespace)
    ledgers = list(folder("ledger").glob(f"{namespace}.*"))
    for ledger in ledgers:
        shutil.rmtree(ledger)
    return cleared | {"ledgers": len(ledgers), "writers": writers}


def _remove_writers(prefix: str) -> int:
    running = [program.name for program in supervisor.status() if program.name.startswith(prefix)]
    for name in running:
        supervisor.remove(name)
    for leftover in folder("writers").glob(f"{prefix}*"):
        shutil.rmtree(leftover)
    return len(running)


def summarize(cleared: dict[str, int]) -> str:
    """Format the result of `reset_lesson` as part of a sentence; empty if nothing was removed."""
    return ", ".join(
        f"{count:,} {what if count > 1 else what.removesuffix('s')}"
        for what, count in cleared.items()
        if count
    )
