"""Java virtual machines: common options, memory use, and detection of exhausted resources.

It imports nothing from the lab, because everything that starts a JVM imports it.
"""

import contextlib
import re
import time
from dataclasses import dataclass
from pathlib import Path

# A JVM that lives for minutes is better off with the quick compiler (C1) alone: on two cores the
# optimizing compiler takes processor time from Spark and never repays it. But `TieredStopAtLevel=1`
# also lowers the code cache from 240 MB to 48 MB, which the tour's writer fills in about a minute;
# then the JVM stops compiling, falls behind and fails with a `NoSuchMethodException`. So the two
# options are always used together.
QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")

# Hudi names files and instants by the JVM's time zone and its user's language: Turkish has another
# capital letter for i, and Persian other digits.
SAME_EVERYWHERE = ("-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US")

# Hudi and Trino measure object sizes through JOL, which otherwise attaches to its own JVM.
JOL_OPTIONS = ("-Djdk.attach.allowAttachSelf=true", "-Djol.skipHotspotSAAttach=true")

# How long a session's JVM may take to exit before it halts itself: see `_limit_time_to_exit`.
EXIT_SECONDS = 10

START_MARK = "=== started"


@dataclass(frozen=True)
class Exhaustion:
    """A resource that a JVM ran out of."""

    cause: str  # clause for an error message, for example `the JVM is out of memory`
    next_step: str


# A JVM's messages when it runs out of a resource, and their meaning. The first match in a log is
# the cause; the exceptions after it are consequences.
EXHAUSTED = {
    r"CodeCache is full|Out of space in CodeCache": Exhaustion(
        "the JVM's code cache is full, so it no longer compiles",
        "give the JVM a larger -XX:ReservedCodeCacheSize.",
    ),
    r"OutOfMemoryError: (Metaspace|Compressed class space)": Exhaustion(
        "the JVM's metaspace is full",
        "give the JVM a larger -XX:MaxMetaspaceSize.",
    ),
    r"OutOfMemoryError: unable to create (new )?native thread": Exhaustion(
        "the system refuses the JVM more threads",
        "close other programs, or raise the limit: ulimit -u.",
    ),
    r"OutOfMemoryError": Exhaustion(
        "the JVM is out of memory",
        "give Spark more memory, for example LAB_SPARK_MEMORY=2g, or read less at once.",
    ),
}


def start_mark() -> str:
    """Line that separates a program's runs in its log."""
    return f"{START_MARK} {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"


def exhaustion_in(log: Path) -> Exhaustion | None:
    """First resource that a JVM ran out of in the newest run in its log; None if there is none.

    Runs are separated by `start_mark()`; the log need not exist.
    """
    found = None
    with contextlib.suppress(FileNotFoundError), log.open(errors="replace") as lines:
        for line in lines:
            found = None if line.startswith(START_MARK) else found or _exhaustion(line)
    return found


def explained(error: object, log: Path) -> str:
    """Text of an error, preceded by the exhausted resource if the error or the log names one."""
    found = _exhaustion(str(error)) or exhaustion_in(log)
    return f"{found.cause}: {found.next_step} Reported as: {error}" if found else str(error)


def _exhaustion(text: str) -> Exhaustion | None:
    found = (known for pattern, known in EXHAUSTED.items() if re.search(pattern, text))
    return next(found, None)


@dataclass(frozen=True)
class MemoryUse:
    """One kind of memory used by a JVM, in bytes; a limit of 0 means no limit."""

    used: int
    limit: int

    @property
    def share(self) -> float:
        """Used memory divided by its limit; 0 without a limit."""
        return self.used / self.limit if self.limit else 0.0


def memory_use(jvm) -> dict[str, MemoryUse]:
    """Memory that a JVM uses after a full garbage collection, by kind.

    The kinds are code cache, metaspace, class space and heap. `jvm` is a Py4J view of the JVM, such
    as `spark.sparkContext._jvm`.
    """
    jvm.java.lang.System.gc()
    management = jvm.java.lang.management.ManagementFactory
    pools = {pool.getName(): pool.getUsage() for pool in management.getMemoryPoolMXBeans()}
    groups = {
        "code cache": [use for name, use in pools.items() if name.startswith("Code")],
        "metaspace": [use for name, use in pools.items() if name == "Metaspace"],
        "class space": [use for name, use in pools.items() if name == "Compressed Class Space"],
        "heap": [management.getMemoryMXBean().getHeapMemoryUsage()],
    }
    return {
        name: MemoryUse(
            sum(use.getUsed() for use in uses), max(0, sum(use.getMax() for use in uses))
        )
        for name, uses in groups.items()
    }


def nearly_full(memory: dict[str, MemoryUse], share: float = 0.8) -> list[str]:
    """One sentence for each kind of memory that uses more than a share (0 to 1) of its limit."""
    return [
        f"The {name} of the JVM holds {use.used / 1e6:.0f} of {use.limit / 1e6:.0f} MB."
        for name, use in memory.items()
        if use.share > share
    ]
