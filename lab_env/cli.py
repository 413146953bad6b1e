"""The `lab` command; every subcommand delegates to the package that does the work.

Heavy imports happen inside the commands, so that `lab status` answers at once.
"""

import errno
import json
import sys
import traceback
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

from lab_env.platform.errors import LabError
from lab_env.shop import RATE, USERS, default_topic

# `lab --help` lists the commands in these panels, in this order.
PANELS = {
    "Every day": ("jupyter", "goto", "progress", "reset", "up", "down", "status", "doctor"),
    "Your way": ("path", "testout", "attack"),
    "The whole pipeline": ("tour", "load", "replay", "ledger", "watch", "bench", "campaign"),
    "Now and then": ("setup", "logs", "eject", "certificate", "cloud"),
    "For instructors": ("demo", "room", "bundle"),
    "For authors": ("author", "site"),
}


class Panels(TyperGroup):
    """The commands of `lab` in the panels of its help."""

    def __init__(self, **options):
        super().__init__(**options)
        found, self.commands = self.commands, {}
        for panel, names in PANELS.items():
            for name in names:
                self.commands[name] = found.pop(name)
                self.commands[name].rich_help_panel = panel
        assert not found, f"PANELS lacks {', '.join(found)}"


# Click itself suggests a command for a mistyped one; Typer would repeat it.
_commands = partial(typer.Typer, rich_markup_mode="markdown", suggest_commands=False)
app = _commands(
    cls=Panels,
    epilog="Example: lab jupyter",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# Into a file or a pipe, a table is as wide as its content.
out = Console(highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else 1000)
err = Console(stderr=True, highlight=False, soft_wrap=True)

author = _commands(
    help="Write lessons: create, build, check, run. See CONTRIBUTING.md.",
    epilog="Example: lab author run 05",
    no_args_is_help=True,
)
app.add_typer(author, name="author")
cloud = _commands(
    help="Run the course on AWS: template, cost, settings, deletion.\n\n"
    "Nothing else in the course needs an AWS account. See docs/cloud.md.",
    epilog="Example: lab cloud cost --stream kinesis",
    no_args_is_help=True,
)
app.add_typer(cloud, name="cloud")
room = _commands(epilog="Example: lab room --bind 0.0.0.0")
app.add_typer(room, name="room")

Names = Annotated[list[str] | None, typer.Argument(help="services to start")]
Topic = Annotated[
    str,
    typer.Option(
        help="Kafka topic, or Kinesis stream",
        default_factory=default_topic,
        show_default="lab.orders",
    ),
]
StackName = Annotated[str, typer.Argument(help="name of the CloudFormation stack")]
# Passed by bootstrap.py: when set-up began, and how large the cache was then.
Since = Annotated[float | None, typer.Option(hidden=True)]
Before = Annotated[int | None, typer.Option(hidden=True)]
Browser = Annotated[bool, typer.Option(help="open a browser where there is a display")]
Region = Annotated[
    str | None, typer.Option(help="AWS region; by default from AWS_REGION or the AWS profile")
]


def main() -> None:
    """Run the `lab` command; every error becomes one sentence, its next step and exit status 1."""
    try:
        app()
    except KeyboardInterrupt:
        err.print("stopped")
        sys.exit(130)
    except Exception as error:
        _show(_explained(error))
        sys.exit(1)


def _explained(error: Exception) -> LabError:
    """An error as one sentence with a next step; what nobody expected goes to a file whole."""
    if isinstance(error, LabError):
        return error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return LabError("The disk is full.", "free some space, then run the command again.")
    return _unexpected()


@app.callback(invoke_without_command=True)
def overview(context: typer.Context) -> None:
    """The lakehouse lab. `lab` alone shows what is running, and the next step."""
    from lab_env.platform.processes.environment import adapt

    if context.invoked_subcommand != "cloud":  # which works with the user's AWS profile
        with suppress(LabError):  # `lab doctor` reports settings that are wrong
            adapt()
    if context.invoked_subcommand:
        return
    from lab_env.course import progress as kept
    from lab_env.course.jupyterlab.running import running_jupyterlab
    from lab_env.course.next_step import next_step, typed
    from lab_env.course.registry import lessons
    from lab_env.platform import services
    from lab_env.platform.install.announced import running_set_up
    from lab_env.platform.services.doctor import needs_setup

    if line := running_set_up():
        out.print(f"Set-up is still running: {escape(line)}")
        return
    rows = services.status()
    _print_status(rows)
    course = kept.CourseProgress(lessons(), kept.read())
    step = next_step(rows, course, needs_setup(), running_jupyterlab())
    out.print(f"\nNext step: {escape(step)}")
    out.print(f"All commands: {typed('--help')}")


@app.command(epilog="Example: lab setup")
def setup(since: Since = None, before: Before = None) -> None:
    """Fetch and build what the lab needs, into a cache."""
    from lab_env.platform.setup import set_up

    with _progress() as say:
        done = set_up(say, since, before)
    out.print(escape(done))


@app.command(epilog="Example: lab up trino")
def up(names: Names = None) -> None:
    """Start services and wait until they are ready.

    Without names it starts `minio` and `kafka`. The others:

    - `kinesis`: an emulated Kinesis
    - `metastore`: the Hive Metastore
    - `trino`: Trino; its first start fetches 0.8 GB
    - `postgres`: PostgreSQL; its first start fetches 25 MB
    - `connect`: Kafka Connect with Debezium; its first start fetches 17 MB
    - `zookeeper`: the lock server for several writers of one table
    - `cluster`: a Spark master and two workers of one core
    - `prometheus`: alert rules and a live page; its first start builds it
    - `exporter`: the metrics of the pipelines, for Prometheus
    """
    from lab_env.platform import services

    _start_services(names)
    _print_status(services.status())
    _warn()


@app.command(epilog="Example: lab down")
def down(
    purge: Annotated[
        bool, typer.Option("--purge", help="also remove all tables, topics, logs and progress")
    ] = False,
) -> None:
    """Stop services, writers and live loads, but not JupyterLab."""
    from lab_env.course.jupyterlab.running import open_notebooks
    from lab_env.platform import services
    from lab_env.platform.processes.state import home

    services.down(purge)
    out.print("Services, writers and live loads are stopped.")
    if notebooks := open_notebooks():
        out.print(escape(f"Still open, with a kernel each: {', '.join(notebooks)}."))
        out.print("Their cells that need a service fail until: .venv/bin/lab up")
    if purge:
        out.print(escape(f"Removed from {home()}: {services.purged_contents()}."))
        for service in services.SERVICES.values():
            if service.external:
                out.print(escape(f"{service.title} at {service.address()} keeps what it has."))


@app.command(epilog="Example: lab status --watch 5")
def status(
    seconds: Annotated[
        float | None,
        typer.Argument(
            min=0.5, max=3600, help="with --watch: seconds between refreshes; default 2"
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="refresh until Ctrl-C, with the pipelines")
    ] = False,
) -> None:
    """Show what is running, and where.

    `--watch` refreshes until Ctrl-C and adds for each pipeline: its unread messages, and the age of
    the oldest (look at that first); the ages of the newest message read, of the last commit and of
    the oldest pending instant; and the most log files in one file group.
    """
    from lab_env.platform import services

    if as_json and watch:
        raise LabError("--watch and --json exclude each other.", "leave out one of them.")
    if seconds and not watch:
        raise LabError("Seconds go with --watch.", f"run: lab status --watch {seconds:g}")
    if watch:
        from lab_env.workbench.live import watch as watch_lab

        watch_lab(out, seconds or 2.0, _status_table)
        return
    rows = services.status()
    if as_json:
        print(json.dumps([row.as_dict() for row in rows], indent=2))
    else:
        _print_status(rows)


@app.command(epilog="Example: lab doctor")
def doctor() -> None:
    """Check the machine and the lab; say how to fix each problem.

    When something is wrong, run this first. If it finds nothing, it starts a Spark session, which
    takes some seconds. Its exit status is 1 if something must be fixed.
    """
    from rich.table import Table

    from lab_env.course.room.command import tell_verdict, verdict_of
    from lab_env.lab.trial import try_session
    from lab_env.platform.services.doctor import run_checks

    marks = {"ok": "[green]ok[/]", "warn": "[yellow]warn[/]", "fail": "[red]FAIL[/]"}
    findings = run_checks(try_session)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        table.add_row(marks[finding.verdict], finding.subject, escape(finding.fact))
        if finding.fix:
            table.add_row("", "", f"[bold]{escape(finding.fix)}[/]")
    out.print(table)
    worst, subjects = verdict_of(findings)
    about = escape(", ".join(subjects))
    sentences = {
        "ok": "[green]All good.[/]",
        "warn": f"[yellow]The lab works. Look at: {about}.[/]",
        "fail": f"[red]To fix: {about}.[/]",
    }
    out.print(sentences[worst])
    tell_verdict(findings)
    if worst == "fail":
        raise typer.Exit(1)


@app.command(epilog="Example: lab logs kafka -n 200")
def logs(
    name: Annotated[str, typer.Argument(help="a name from lab status")],
    lines: Annotated[int, typer.Option("-n", min=1, help="how many lines")] = 50,
) -> None:
    """Show the last lines of a service's or writer's log."""
    from lab_env.platform.processes import supervisor
    from lab_env.platform.processes.state import folder

    if not supervisor.log_path(name).is_file():
        known = sorted(path.stem for path in folder("logs").glob("*.log"))
        raise LabError(
            f"There is no log of {name!r}.",
            f"choose from: {', '.join(known)}" if known else "run: lab up",
        )
    print(supervisor.log_tail(name, lines))


@app.command(epilog="Example: lab reset 05")
def reset(
    lesson: Annotated[str, typer.Argument(help="a lesson's number; or tour, bench, campaign, lab")],
    yes: Annotated[bool, typer.Option("--yes", help="discard answers without asking")] = False,
) -> None:
    """Start a lesson over, with a fresh notebook and no tables.

    Its topics and ledgers are deleted too. The command asks before it discards your work. `tour`,
    `bench` and `campaign` remove what these commands wrote, `lab` what `lab load` and `lab replay`
    sent.
    """
    from lab_env.course import copies
    from lab_env.course.jupyterlab.running import running_jupyterlab
    from lab_env.lab.handle import (
        OTHER_NAMESPACES,
        known_demos,
        known_lessons,
        namespace_of,
        reset_lesson,
        summarize,
    )

    namespaces = (*known_lessons(), *OTHER_NAMESPACES, *known_demos())
    if lesson not in namespaces:
        known = ", ".join(namespaces)
        raise LabError(f"There is no lesson {lesson!r}.", f"choose from: {known}")
    is_lesson = lesson in known_lessons()
    if is_lesson and not yes and copies.was_worked_on(copies.name_of(lesson)):
        question = f"Your copy of lesson {lesson} has work of yours in it. Discard it?"
        _ask(question, f"to discard it: lab reset {lesson} --yes")
    removed = summarize(reset_lesson(lesson))
    outcome = f"removed {removed}" if removed else "nothing to remove"
    out.print(f"{namespace_of(lesson)}: {outcome}.")
    if is_lesson:
        out.print(escape(f"A fresh copy: {copies.renew(lesson)}"))
        if running_jupyterlab():
            out.print("If its tab is open, do not save: choose File > Reload Notebook from Disk.")


def _ask(question: str, next_step: str) -> None:
    """Go on only if the user says yes; where nobody can be asked, the next step has the option."""
    if not _at_terminal():
        raise LabError(question, next_step)
    typer.confirm(question, abort=True)


@app.command(epilog="Example: lab tour --seconds 30")
def tour(
    seconds: Annotated[int, typer.Option(min=5, max=3600, help="seconds of live load")] = 60,
    rate: Annotated[int, typer.Option(min=1, max=100_000, help="events per second")] = 500,
) -> None:
    """Run the whole pipeline on live load; prove nothing is lost.

    It fills three sinks at the same time, runs every query type, compares the revenue per minute
    with a batch query, and checks every event against the ledger. The report is
    `.lab/tour/index.html`.
    """
    from lab_env.workbench.tour import tour as measured

    raise typer.Exit(measured.main(seconds=seconds, rate=rate) or 0)


@app.command(epilog="Example: lab watch lesson-05/orders_cow")
def watch(
    table: Annotated[str, typer.Argument(help="its folder in the bucket, or s3a://...")],
    seconds: Annotated[int, typer.Option(min=5, max=3600, help="how long")] = 60,
) -> None:
    """Read a Hudi table in every way while it is written; say what each reader saw.

    It counts the reads that were stale, showed half of a commit, or went back. The picture is
    `.lab/observed/index.html`.
    """
    from lab_env.lab import observe

    with _progress() as say:
        seen, made = observe.watch(table, seconds, say)
    counts = _table("reader", *seen.shown.columns)
    for row in seen.shown.itertuples():
        counts.add_row(*map(str, row))
    out.print(counts)
    out.print(escape(str(made)))


@app.command(epilog="Example: lab bench growth")
def bench(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            help="set-up, start-up, load, tour, profile, backlog, sinks, growth, readers, commit,"
            " tuning, formats, bill"
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="more data, more repetitions")] = False,
) -> None:
    """Measure this machine, the pipeline and its tables.

    Without names it runs all parts but six: `readers` counts what readers saw wrong while tables
    were written and their writer killed; `commit` records every request of a small commit and
    compares options; `tuning` changes five other settings, one at a time; `formats` writes one
    stream into Hudi, Delta Lake and Iceberg; `bill` counts their requests over many commits;
    `profile` shows where the writer spends its time under the tour's load. Only `--full` compares
    figures with goals. The report is `.lab/bench/index.html`.
    """
    from lab_env.workbench.bench import command

    raise typer.Exit(command.main(parts, full, out))


@app.command(epilog="Example: lab campaign --size full --resume")
def campaign(
    seed: Annotated[int, typer.Option(help="the same seed gives the same faults")] = 17,
    size: Annotated[str, typer.Option(help="small (minutes) or full (two hours)")] = "small",
    minutes: Annotated[
        float | None, typer.Option(min=1, help="start no new fault after this many")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="continue an earlier campaign")] = False,
    case: Annotated[str | None, typer.Option(help="run only this fault, for example 042")] = None,
    times: Annotated[int, typer.Option(min=1, help="how often to run it")] = 1,
) -> None:
    """Damage a running pipeline, then check its tables.

    A fault kills, stops or damages something, in some cases at a certain request. Then the tables
    must agree with the ledger. The full campaign has 151 faults and takes about two hours. The
    report is in `.lab/campaign/`.
    """
    from lab_env.workbench.campaign import campaign as faults

    raise typer.Exit(faults.main(seed, size, minutes, resume, case, times, out))


@app.command(epilog="Example: lab load --rate 1000 --seconds 30")
def load(
    topic: Topic,
    rate: Annotated[int, typer.Option(min=1, help="events per second")] = RATE,
    users: Annotated[int, typer.Option(min=1, help="Locust users")] = USERS,
    seconds: Annotated[int, typer.Option(min=1, help="duration")] = 60,
    processes: Annotated[int, typer.Option(min=1, help="Locust processes")] = 1,
    web: Annotated[bool, typer.Option("--web", help="also open Locust's web page")] = False,
) -> None:
    """Send live orders with Locust.

    They go to Kafka, or to what `LAB_SOURCE` names.
    """
    from lab_env.platform import services
    from lab_env.platform.processes.environment import mark
    from lab_env.shop import command as shop

    shop.load(services.endpoints(), topic, rate, users, seconds, processes, web, mark())


@app.command(epilog="Example: lab replay -n 1000 --rate 100")
def replay(
    topic: Topic,
    n: Annotated[
        int | None, typer.Option("-n", min=1, help="how many events; all by default")
    ] = None,
    rate: Annotated[
        int | None, typer.Option(min=1, help="events per second; no limit by default")
    ] = None,
    skip: Annotated[int, typer.Option(min=0, help="how many events to skip at the start")] = 0,
) -> None:
    """Send the recorded orders.

    They go to Kafka, or to what `LAB_SOURCE` names.
    """
    from lab_env.platform import services
    from lab_env.shop import command as shop

    shop.replay(services.endpoints(), topic, n, rate, skip)


@app.command(epilog="Example: lab ledger --topic lab.orders")
def ledger(topic: Topic) -> None:
    """Show what the broker acknowledged, by kind of event."""
    from lab_env.platform import services
    from lab_env.shop import command as shop

    shop.ledger(services.endpoints(), topic)


@app.command(epilog="Example: lab jupyter --no-browser")
def jupyter(
    browser: Browser = True,
    since: Since = None,
    before: Before = None,
) -> None:
    """Open JupyterLab on the first lesson, and start the services.

    If set-up is needed, it runs in the meantime. If this lab already runs a JupyterLab, the command
    opens that one.
    """
    from lab_env.course import copies
    from lab_env.course.jupyterlab.running import running_jupyterlab, starting_jupyterlab
    from lab_env.course.jupyterlab.server import ENDING
    from lab_env.platform.install.announced import announced
    from lab_env.platform.services.doctor import needs_setup
    from lab_env.platform.settings import settings
    from lab_env.platform.setup import set_up

    for name in copies.make_copies():
        take = f"lab reset {name[:2]}" if name[:2].isdigit() else f"lab demo {Path(name).stem}"
        out.print(escape(f"{name} has a newer version than your copy; to take it: {take}"))
    _warn()
    lesson = f"{settings().work.name}/{copies.name_of('00')}"

    def prepare() -> int:
        """Set up what is missing, and start the services; 1 if that failed, which is shown."""
        try:
            if since is not None or needs_setup():
                with _progress() as say, announced(say) as announce:
                    done = set_up(announce, since, before)
                out.print(escape(done))
            _start_services()
        except Exception as error:  # JupyterLab stays: Lab.start says what is missing
            _show(_explained(error))
            return 1
        return 0

    if running := running_jupyterlab():
        print(f"JupyterLab runs already: {running.page(lesson)}", flush=True)
        _open_page(running.page(lesson), browser)
        raise typer.Exit(prepare())
    with starting_jupyterlab(lesson, browser) as server:
        print(f"JupyterLab: {server.page(lesson)}", flush=True)
        prepare()
        print(ENDING, flush=True)
        status = server.wait()
    raise typer.Exit(status)


@app.command(epilog="Example: lab demo snapshot")
def demo(
    name: Annotated[str, typer.Argument(help="name of the demo")],
    slides: Annotated[bool, typer.Option(help="make slides instead, in one HTML file")] = False,
    browser: Browser = True,
) -> None:
    """Open a five-minute demo, with its table written and Spark warm.

    The demos: `snapshot`, `read-optimised`, `time-travel`, `incremental`, `cdc`,
    `exactly-once`.
    """
    from lab_env.course.publishing import demos
    from lab_env.platform import services

    demos.notebook_of(name)  # a wrong name is said before anything starts
    with _progress() as say:
        services.up(progress=say)
        if slides:
            made = demos.slides(name, say)
        else:
            shown = demos.show(name, say)
    if slides:
        out.print(escape(str(made)))
        return
    print(f"Ready: {shown.address}")
    print(f"Notes for the speaker: {shown.notes}", flush=True)
    _open_page(shown.address, browser)
    _wait_for(shown.jupyterlab)


@app.command(epilog="Example: lab goto 06.2")
def goto(
    place: Annotated[
        str, typer.Argument(help="exercise (06.2) or section (06b); 06 alone lists both")
    ],
    yes: Annotated[bool, typer.Option("--yes", help="restart a kernel without asking")] = False,
    browser: Browser = True,
) -> None:
    """Open an exercise or a section, with everything above ready.

    The cells above it run in a fresh kernel, with reference answers: tables, topics and variables
    are as if you had worked through them. Your copy keeps what you wrote.
    """
    from lab_env.course import sections

    place = sections.full_name(place)
    if len(place) > 2:
        _enter(sections.section(place), yes, browser)
        return
    found, recorded = sections.sections(place), sections.recorded_seconds()
    out.print(_section_table(found, recorded))
    if any(section.name in recorded for section in found):
        out.print("Times are those of a quiet machine with two cores.")


def _section_table(found: list, recorded: dict[str, float]):
    measured = any(section.name in recorded for section in found)
    table = _table("section", "", "exercises", *["ready after"] * measured)
    for section in found:
        seconds = recorded.get(section.name)
        ready = [f"about {seconds:.0f} s"] if seconds else []
        table.add_row(section.name, escape(section.title), ", ".join(section.exercises), *ready)
    return table


def _enter(section, yes: bool, browser: bool) -> None:
    from lab_env.course import copies
    from lab_env.course.jupyterlab import goto as entry
    from lab_env.course.jupyterlab.running import running_jupyterlab, started_jupyterlab
    from lab_env.platform import services

    server = running_jupyterlab()
    if not yes and (lost := entry.at_stake(section, server)):
        _ask(f"{lost} Go on?", f"to go on: lab goto {section.name} --yes")
    with _progress() as say:
        services.up(progress=say)
        if server:
            entered = entry.enter(section, server, say)
        else:
            copies.make_copies()  # JupyterLab shows their folder, which must be there
            say("JupyterLab starts")
            with started_jupyterlab(entry.page_of(section)) as server:
                entered = entry.enter(section, server, say)
    ran = f"{entered.cells} cells above it ran in {entered.seconds:.0f} s."
    title = section.title if "." in section.name else f"{section.name} {section.title}"
    out.print(escape(f"{title}: {ran}"))
    if not entered.outputs_shown:
        out.print("Your copy is as it was; the exercises above took their reference answers.")
    print(f"Ready: {entered.address}", flush=True)
    _open_page(entered.address, browser)
    _wait_for(server)


@app.command(epilog="Example: lab bundle course.tar")
def bundle(
    target: Annotated[str, typer.Argument(help="the archive")] = "streaming-lakehouse-bundle.tar",
) -> None:
    """Pack what set-up fetched, for machines without a network."""
    from lab_env.platform.install.bundle import make_bundle
    from lab_env.platform.setup import set_up

    with _progress() as say:
        set_up(say)
        made = make_bundle(Path(target), say)
    out.print(escape(made))


@app.command(epilog="Example: lab progress")
def progress() -> None:
    """Show which exercises you have passed."""
    from lab_env.course import paths
    from lab_env.course import progress as kept
    from lab_env.course.registry import lessons

    course = kept.CourseProgress(lessons(), kept.read())
    out.print(escape(repr(course)))
    if way := paths.ways(lessons()).get(course.kept.get("path", "")):
        left = paths.open_steps(way, course)
        done = f"Path {way.name}: {len(way.steps) - len(left)} of {len(way.steps)} steps done."
        out.print(f"{done} Next: lab goto {left[0].first}" if left else done)


@app.command(epilog="Example: lab path day")
def path(
    name: Annotated[
        str, typer.Argument(help="day, week or all; without it, the three are listed")
    ] = "",
) -> None:
    """Choose a way through the course: one day, one week, or all of it.

    `lab progress` then shows how far you are on it.
    """
    from lab_env.course import paths
    from lab_env.course.registry import lessons

    if not name:
        for way in paths.ways(lessons()).values():
            numbers = " ".join(step.lesson.number for step in way.steps)
            out.print(escape(f"{way.name:<5} {way.hours:4.1f} h  {way.title}\n{'':13}{numbers}"))
        return
    way = paths.choose(name, lessons())
    table = _table("lesson", "", "work through", "minutes")
    for step in way.steps:
        entry = step.lesson
        table.add_row(entry.number, escape(entry.title), escape(step.part), str(step.minutes))
    out.print(table)
    out.print(f"{way.hours:.1f} hours. Begin with: lab goto {way.steps[0].first}")


@app.command(epilog="Example: lab testout 05")
def testout(
    lesson: Annotated[str, typer.Argument(help="two digits, for example 05")],
) -> None:
    """Make a notebook of a lesson's exercises alone, for what you already know.

    Cells that are given are folded. Open it in JupyterLab and run it from the top.
    """
    from lab_env.course.testout import write

    out.print(escape(f"Ready: {write(lesson)}"))
    out.print("Open it in JupyterLab (make lab), and run the cells from the top.")


@app.command(epilog="Example: lab attack 04.2 --rung 3 --seed 17")
def attack(
    exercise: Annotated[
        str, typer.Argument(help="an exercise of 03, 04, 06, 11, 12, 14, 15, 17 or 18, e.g. 04.2")
    ],
    rung: Annotated[int | None, typer.Option(min=1, help="climb only this rung")] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="the same seed gives the same events")
    ] = None,
    answer: Annotated[
        str, typer.Option(help="own, reference, or an author's: right-1, wrong-1")
    ] = "own",
    shrink: Annotated[
        bool,
        typer.Option(
            "--shrink", help="after a fall, look for fewer events with which it still falls"
        ),
    ] = False,
) -> None:
    """Attack your answer to an exercise: how much does it survive?

    Your function, from the notebook as you saved it, runs in a process of its own, on events that
    it has never seen. Each rung sends some in three deliveries, calls your function after each,
    and lets something go wrong. If your answer falls, the life of one order or message shows why,
    in text and as a picture in `.lab/ladder/`. `lab progress` shows your best climb.
    """
    from lab_env.lab.handle import namespace_of
    from lab_env.lab.ladder import attack as ladder
    from lab_env.lab.ladder.answers import OWN, find_answer
    from lab_env.platform import services

    exercise, _ = ladder.rungs_of(exercise)
    endpoints = services.endpoints()
    found = find_answer(exercise, endpoints, answer)
    namespace = namespace_of(exercise[:2])
    rungs = [rung] if rung else []
    with _progress(stay=True) as say:
        climb = ladder.attack(endpoints, namespace, exercise, found, rungs, seed, say, shrink)
    climb = replace(climb, which="" if answer == OWN else answer)
    out.print(escape(repr(climb)))
    for name, path in climb.keep().items():
        out.print(escape(f"{name}: {path}"))
    raise typer.Exit(0 if climb.held else 1)


@app.command(epilog="Example: lab certificate fraud")
def certificate(
    variant: Annotated[
        str, typer.Argument(help="iot, fraud or clickstream; the newest by default")
    ] = "",
) -> None:
    """Write the certificate of your newest passed capstone exam.

    It is one page in `.lab/capstone/` and needs no network.
    """
    from lab_env.lessons.capstone import certificate as page
    from lab_env.lessons.capstone.exam import variant_named

    if variant:
        variant_named(variant)
    record = page.newest_passed(variant)
    out.print(escape(f"{page.write_certificate(record)}"))
    out.print(escape(f"{record.variant}, seed {record.seed}, taken {record.taken}"))


@app.command(epilog="Example: lab eject ../my-pipeline")
def eject(
    directory: Annotated[
        str, typer.Argument(metavar="DIR", help="new folder for the project", show_default=False)
    ] = "",
    env: Annotated[
        bool, typer.Option("--env", help="print the settings for this lab's servers instead")
    ] = False,
) -> None:
    """Write the pipeline as a PySpark project of its own.

    The project writes two Hudi tables and the dead letters, and is yours to keep and deploy. It
    does not need this lab, only Java 17, Python, Kafka, an S3 store and the connectors.

    `eval "$(lab eject --env)"` points it at this lab's servers, with their keys.
    """
    from lab_env.workbench.eject import project

    if env == bool(directory):
        raise LabError(
            "lab eject takes a folder or --env.",
            'run: lab eject ../my-pipeline; then, to run it here: eval "$(lab eject --env)"',
        )
    if directory:
        folder = Path(directory).absolute()
        written = project.eject(folder)
        outcome = f"{len(written)} files written" if written else "nothing has changed"
        out.print(escape(f"{folder}: {outcome}. Next step: read its README.md"))
        return
    from lab_env.lab.handle import Lab
    from lab_env.platform import services

    lab = Lab("lab", services.endpoints())
    for line in project.shell_lines(lab.endpoints, lab.topic("orders"), lab.base):
        print(line)


@app.command(epilog="Example: lab site --partial")
def site(
    partial: Annotated[
        bool, typer.Option("--partial", help="leave out notebooks that were not executed")
    ] = False,
) -> None:
    """Build the course's web pages from executed notebooks.

    `make test` executes them. The front page is `build/site/index.html` and needs no server.
    """
    from lab_env.course.publishing.site.build import build_site

    built = build_site(partial=partial)
    for name, why in built.lacks.items():
        out.print(escape(f"not in it: {name} {why}"))
    out.print(escape(f"{len(built.notebooks)} notebooks and the guides: open {built.index}"))


@room.callback(invoke_without_command=True)
def open_room(
    context: typer.Context,
    bind: Annotated[str, typer.Option(help="address to listen on; LAB_BIND by default")] = "",
    new_code: Annotated[
        bool, typer.Option("--new-code", help="make a new code and page address")
    ] = False,
) -> None:
    """Show on a web page where the seats of a class are stuck.

    A seat takes part only after `lab room join`, and sends no answers. To reach seats on other
    machines, listen on 0.0.0.0. See docs/instructors.md.
    """
    if context.invoked_subcommand:
        return
    from lab_env.course.room.command import open_room

    open_room(
        bind,
        new_code,
        say=lambda line: print(line, flush=True),
        warn=lambda line: err.print(f"[yellow]{escape(line)}[/]"),
    )


@room.command("join", epilog="Example: lab room join http://192.168.1.7:8790 abcd-2345 --name Ada")
def join_room(
    address: Annotated[str, typer.Argument(help="from the instructor: http://HOST:PORT")],
    code: Annotated[str, typer.Argument(help="the room's code")],
    name: Annotated[str, typer.Option(help="your name on the page; a number by default")] = "",
) -> None:
    """Report to a room: exercise, attempts, outcome; no answers.

    It prints what was sent. Each check of an exercise then sends the same fields with values.
    """
    from lab_env.course.room.command import join
    from lab_env.platform.services.doctor import run_checks

    number, report = join(address, code, name, run_checks())
    out.print(escape(f"You are {name or f'seat {number}'} in the room. This was sent:"))
    out.print(escape(report.model_dump_json()))
    out.print(
        "Each check of an exercise sends the same fields, filled in. To end it: lab room leave"
    )


@room.command("leave", epilog="Example: lab room leave")
def leave_room() -> None:
    """Stop reporting to the room."""
    from lab_env.course.room.command import leave

    out.print("You have left the room." if leave() else "You are in no room.")


@author.command("build", epilog="Example: lab author build")
def author_build() -> None:
    """Make the notebooks, exercises and reference pages."""
    from typer.main import get_command

    from lab_env.course.authoring import reference
    from lab_env.course.authoring.build import COURSE, build

    changed = [*build(), *reference.write(get_command(app))]
    for path in changed:
        out.print(escape(str(path.relative_to(COURSE.root))))
    if not changed:
        out.print("Nothing changed.")


@author.command("check", epilog="Example: lab author check")
def author_check() -> None:
    """Check the sources' rules, and that made files are current."""
    from typer.main import get_command

    from lab_env.course.authoring import reference
    from lab_env.course.authoring.build import drift

    found = drift() + [f"{name} is not current" for name in reference.drift(get_command(app))]
    if found:
        raise LabError("\n".join(found), "run: lab author build")
    out.print("Every lesson keeps the template; every made file is current.")


@author.command("new", epilog="Example: lab author new 23 my_lesson")
def author_new(
    number: Annotated[str, typer.Argument(help="two digits")],
    slug: Annotated[str, typer.Argument(help="for example cow_and_mor")],
) -> None:
    """Create a lesson: a source and checks that follow every rule."""
    from lab_env.course.authoring.build import COURSE, build
    from lab_env.course.authoring.new import new_lesson

    for path in [*new_lesson(number, slug), *build()]:
        out.print(escape(str(path.relative_to(COURSE.root))))


@author.command("run", epilog="Example: lab author run 05")
def author_run(number: Annotated[str, typer.Argument(help="two digits")]) -> None:
    """Build, then run both notebooks of a lesson the way CI does."""
    from lab_env.course.authoring.run import run

    raise typer.Exit(run(number))


@author.command("enter", epilog="Example: lab author enter 05 06")
def author_enter(
    numbers: Annotated[list[str] | None, typer.Argument(help="lessons, two digits each")] = None,
    every: Annotated[bool, typer.Option("--all", help="all lessons; takes half an hour")] = False,
) -> None:
    """Enter every section in a fresh kernel and record the seconds.

    The seconds go to `data/entry_seconds.json`.
    """
    from lab_env.course.authoring.entry import enter_all, record
    from lab_env.course.copies import known_lessons
    from lab_env.course.sections import ENTRY_LIMIT_S

    chosen = known_lessons() if every else numbers or []
    if not chosen:
        raise LabError("Which lessons?", "name some, or run: lab author enter --all")
    _start_services()
    failed = []
    for lesson in chosen:
        try:
            seconds = enter_all(lesson)
        except LabError as error:  # the other lessons are still worth knowing
            failed.append(f"{lesson}: {error.what} {error.log}".strip())
            continue
        record(lesson, seconds)
        for name, value in seconds.items():
            late = f"   more than {ENTRY_LIMIT_S} s" if value > ENTRY_LIMIT_S else ""
            out.print(f"{name}  {value:5.1f} s{late}")
    if failed:
        raise LabError("\n".join(failed), "run: lab author run, with the number of the lesson")


@author.command("mutants", epilog="Example: lab author mutants 05.1")
def author_mutants(
    chosen: Annotated[str, typer.Argument(help="a lesson or an exercise, for example 05.1")],
) -> None:
    """Try an exercise's check on small mistakes in its answer.

    Each mistake changes the reference answer in one place, or disturbs one of its effects: what it
    returns, writes or is given. The command lists those that pass.
    """
    from lab_env.course.authoring.mutation import keep, try_all
    from lab_env.platform import services

    with _progress() as say:
        services.up(progress=say)
        trials = try_all(chosen, say)
    for family, tried in trials.items():
        keep(family, tried)
        for name, trial in tried.items():
            counts = f"{trial.refused} refused, {trial.crashed} crashed"
            kinds = f"{trial.tried} mutants of its {family}"
            out.print(f"{name}  {kinds}: {counts}, {len(trial.survived)} passed")
            for change in trial.survived:
                out.print(escape(f"      {change}"))


@author.command("ladder", epilog="Example: lab author ladder 04.2")
def author_ladder(
    exercise: Annotated[str, typer.Argument(help="an exercise; by default all")] = "",
    seed: Annotated[int, typer.Option(min=0, help="decides the events")] = 17,
) -> None:
    """Attack a lesson's own answers: right ones must hold, wrong ones fall.

    Each wrong answer must fall where its line `# falls:` says. All exercises take about an hour.
    """
    from lab_env.lab.ladder.attack import rungs_of
    from lab_env.lab.ladder.proof import trials
    from lab_env.lab.ladder.rungs import RUNGS
    from lab_env.lab.ladder.target import target_of
    from lab_env.platform import services

    chosen = [rungs_of(exercise)[0]] if exercise else list(RUNGS)
    surprises = 0
    with _progress() as say:
        endpoints = services.up(progress=say)
        if more := [name for each in chosen for name in target_of(each).services]:
            services.up(more, say)
        for trial in trials(endpoints, chosen, seed, say):
            out.print(escape(str(trial)))
            surprises += trial.fell != trial.expected
    if surprises:
        raise LabError(
            f"{surprises} answers did not climb as expected.",
            "mend the exercise's target, or the line `# falls:` of the answer.",
        )


@author.command("stats", epilog="Example: lab author stats")
def author_stats() -> None:
    """Show how much of each lesson the learner writes.

    It counts the uses of Spark, Hudi, Kafka and SQL.
    """
    from lab_env.course.authoring.stats import course_stats

    titles = ("lesson", "lines", "uses", "learner", "share", "longest", "asserts", "seconds")
    table = _table(*titles, justify="right")
    rows = course_stats()
    for row in rows:
        seconds = "-" if row.seconds is None else f"{row.seconds:.0f}"
        counts = (row.lines, row.uses, row.learner, f"{row.share:.0%}", row.longest, row.asserts)
        table.add_row(row.number, *map(str, counts), seconds)
    out.print(table)
    uses, learner = sum(row.uses for row in rows), sum(row.learner for row in rows)
    out.print(f"The learner writes {learner} of {uses} uses, {learner / uses:.0%}.")


@author.command("times", epilog="Example: lab author times --record")
def author_times(
    record: Annotated[bool, typer.Option(help="keep the run for CONTRIBUTING's table")] = False,
) -> None:
    """Show what the last test run cost, by file and part of a notebook."""
    from lab_env.course.authoring import times

    run = times.read()
    for name, cost in run.slowest():
        out.print(escape(f"{cost.processor:7.1f} s  {cost.elapsed:7.1f} s  {name}"))
    out.print(escape("\n".join(["processor   elapsed", "", *times.lines(run)])))
    if record:
        times.record(run)


@author.command("record", epilog="Example: lab author record growth")
def author_record(
    part: Annotated[str, typer.Argument(help="a part of lab bench, such as growth")],
) -> None:
    """Run a part of lab bench in full, to ship it with the course."""
    from lab_env.lessons import recorded
    from lab_env.workbench.bench import command

    if command.main([part], full=True, console=out):
        raise typer.Exit(1)
    out.print(escape(str(recorded.deliver(part))))


@author.command("formats", epilog="Example: lab author formats")
def author_formats() -> None:
    """Write docs/formats.md and its charts from the recorded runs."""
    from lab_env.workbench.bench.format_page import write_page

    for path in write_page():
        out.print(escape(str(path)))


@author.command("pictures", epilog="Example: lab author pictures")
def author_pictures(
    record: Annotated[
        bool, typer.Option("--record", help="first run lesson 05 up to its update")
    ] = False,
) -> None:
    """Draw the README's pictures from the recorded runs."""
    from lab_env.course.publishing import pictures, recording

    if record:
        out.print(escape(str(recording.record())))
    for path in pictures.draw_all():
        out.print(escape(str(path)))


@cloud.command("template", epilog="Example: lab cloud template")
def cloud_template() -> None:
    """Print the path of the CloudFormation template."""
    from lab_env.workbench.cloud import TEMPLATE

    print(TEMPLATE)


@cloud.command("cost", epilog="Example: lab cloud cost --stream kinesis")
def cloud_cost(
    stream: Annotated[str, typer.Option(help="none, kinesis or msk")] = "msk",
    host: Annotated[bool, typer.Option(help="include the notebook host")] = True,
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="print the table of docs/cloud.md")
    ] = False,
) -> None:
    """Show what a stack costs for an afternoon and for a month."""
    from lab_env.workbench.cloud import cost

    if stream not in cost.STREAMS:
        raise LabError(f"There is no stream {stream!r}.", f"choose from: {', '.join(cost.STREAMS)}")
    if as_markdown:
        print(cost.markdown(stream, host))
        return
    table = _table("US dollars")
    table.add_column(f"afternoon, {cost.AFTERNOON:.0f} h", justify="right")
    table.add_column(f"forgotten month, {cost.MONTH:.0f} h", justify="right")
    for row in cost.table(stream, host):
        table.add_row(*row)
    out.print(table)
    out.print("Prices, their dates and sources: data/prices.csv")


@cloud.command("env", epilog="Example: lab cloud env lake")
def cloud_env(name: StackName, region: Region = None) -> None:
    """Print a stack's settings as shell exports.

    To set them: `eval "$(lab cloud env STACK)"`.
    """
    from lab_env.workbench.cloud.environment import shell_lines
    from lab_env.workbench.cloud.stack import Account, aws_errors

    with aws_errors():
        stack = Account(region).complete_stack(name)
    print("\n".join(shell_lines(stack)))


@cloud.command("job", epilog="Example: lab cloud job lake --minutes 60")
def cloud_job(
    name: StackName,
    topic: Topic,
    region: Region = None,
    minutes: Annotated[
        int, typer.Option(min=5, max=10_080, help="cancel the job after this many")
    ] = 240,
) -> None:
    """Print the request that would start the writer on EMR."""
    from lab_env.workbench.cloud.job import job_request, source_of
    from lab_env.workbench.cloud.stack import Account, aws_errors

    with aws_errors():
        account = Account(region)
        stack = account.complete_stack(name)
        request = job_request(stack, source_of(account, stack, topic), minutes=minutes)
    print(json.dumps(request, indent=2))


@cloud.command("down", epilog="Example: lab cloud down lake")
def cloud_down(
    name: StackName,
    region: Region = None,
    yes: Annotated[bool, typer.Option("--yes", help="delete it without asking")] = False,
    delete_data: Annotated[
        str, typer.Option(metavar="BUCKET", help="also delete the bucket and all tables in it")
    ] = "",
) -> None:
    """Delete a stack; keep its bucket unless you type its name."""
    from lab_env.workbench.cloud import teardown
    from lab_env.workbench.cloud.stack import Account, aws_errors

    with aws_errors():
        account = Account(region)
        stack, bucket = account.stack(name), teardown.bucket_of(account, name)
        if delete_data and delete_data != bucket:
            raise LabError(
                f"{delete_data} is not the bucket of {name}.", f"its bucket would be {bucket}."
            )
        if stack is None:
            out.print(escape(f"There is no stack {name} in {account.region}."))
        else:
            if not yes:
                _ask(
                    f"Take apart {name} in {account.region}? What is on its notebook host and "
                    "messages that no table holds yet are lost.",
                    f"to do it: lab cloud down {name} --region {account.region} --yes",
                )
            with _progress() as say:
                teardown.take_apart(account, stack, say)
            out.print(escape(f"The stack {name} is deleted."))
        kept = teardown.kept(account, bucket)
        if kept is None:
            out.print(escape(f"Nothing is left: there is no bucket {bucket}."))
            return
        if (delete_data or _ask_for_bucket(kept, name, account.region)) != bucket:
            out.print(escape(f"Kept: {kept}. It costs money as long as it is there."))
            return
        with _progress() as say:
            deleted = teardown.delete_bucket(account, bucket, say)
        out.print(escape(f"Deleted: s3://{bucket} with {deleted:,} objects."))


def _ask_for_bucket(kept, name: str, region: str) -> str:
    """Ask for the bucket's name, which deletes it; anything else keeps it."""
    if not _at_terminal():
        again = f"lab cloud down {name} --region {region} --delete-data {kept.bucket}"
        out.print(f"To delete the data, too: {again}")
        return ""
    out.print(escape(f"All tables are in {kept}."))
    question = "Type the bucket's name to delete it for good, or press Enter to keep it"
    return typer.prompt(question, default="", show_default=False)


def _at_terminal() -> bool:
    return sys.stdin.isatty()


class _progress:
    """One line that changes in a terminal; elsewhere plain lines, but not too many.

    If they `stay`, all lines are printed, in a terminal too.
    """

    def __init__(self, stay: bool = False):
        self.stay = stay

    def __enter__(self):
        self.spinner = err.status("") if err.is_terminal else None
        self.last = ""
        if self.spinner:
            self.spinner.start()
        return self.say

    def say(self, text: str) -> None:
        if self.spinner and not self.stay:
            self.spinner.update(escape(text))
        elif self.stay or self._topic(text) != self.last:
            err.print(escape(text))
            self.last = self._topic(text)

    def __exit__(self, *_):
        if self.spinner:
            self.spinner.stop()

    @staticmethod
    def _topic(text: str) -> str:
        # Without a terminal, a line of the same kind comes only every ten seconds.
        seconds = text.removesuffix(" s").rpartition(" ")[2]
        return text.split(":")[0] + (seconds[:-1] if seconds.isdigit() else text)


def _start_services(names: list[str] | None = None) -> None:
    from lab_env.platform import services

    with _progress() as say:
        services.up(names, say)


def _open_page(address: str, browser: bool) -> None:
    from lab_env.platform.processes.system import has_display, open_browser

    if browser and has_display():
        open_browser(address)


def _wait_for(jupyterlab) -> None:
    """Keep running until JupyterLab ends, if this command has started it."""
    from lab_env.course.jupyterlab.server import ENDING

    if jupyterlab.process:
        print(ENDING, flush=True)
        raise typer.Exit(jupyterlab.wait())


def _print_status(rows) -> None:
    out.print(_status_table(rows))
    for row in rows:
        for name, url in row.links.items():
            out.print(f"{name}: {url}")


def _table(*titles: str, **column):
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        table.add_column(title, **column)
    return table


def _status_table(rows):
    table = _table("service", "state", "address", "pid", "up", "memory", no_wrap=True)
    table.columns[1].no_wrap = False  # a state may be a sentence
    for row in rows:
        colour = "green" if row.state in ("ready", "external", "running") else "yellow"
        again = f", {row.restarts} restarts" if row.pid and row.restarts else ""
        table.add_row(
            row.name,
            f"[{colour}]{escape(row.state)}{again}[/]",
            row.address,
            str(row.pid or ""),
            f"{row.uptime:.0f} s" if row.pid else "",
            f"{row.memory_mb:.0f} MB" if row.pid else "",
        )
    return table


def _warn() -> None:
    from lab_env.platform import services

    if warning := services.exposure():
        err.print(f"[yellow]{escape(warning)}[/]")


def _show(error: LabError) -> None:
    err.print(f"[red]{escape(error.what)}[/]")
    for note in getattr(error, "__notes__", ()):
        err.print(escape(note))
    if error.log:
        err.print("Last lines of its log:")
        err.print(escape(error.log.rstrip()))
    if error.next_step:
        err.print(f"Next step: {escape(error.next_step)}")


def _unexpected() -> LabError:
    """Write the traceback to a file; the user gets one sentence."""
    error = sys.exc_info()[1]
    # The place of a syntax error comes before it, indented; the notes come after it.
    lines = (line for line in traceback.format_exception_only(error) if line[0] != " ")
    summary = next(lines).splitlines()[0]
    notes = getattr(error, "__notes__", ())
    what = "\n".join([f"Something unexpected happened: {summary}", *notes])
    details = f"{datetime.now().isoformat()} {sys.argv[1:]}\n{traceback.format_exc()}\n"
    try:
        from lab_env.platform.processes.state import folder

        path = folder("logs") / "lab-error.log"
        with path.open("a") as file:
            file.write(details)
    except (OSError, LabError):
        return LabError(what, "run: lab doctor", details)
    return LabError(what, f"run: lab doctor   (all details: {path})")


if __name__ == "__main__":
    main()
