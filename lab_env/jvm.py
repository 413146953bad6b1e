"""Java virtual machines: the options that belong together, what memory one uses, and what killed one.

Plain Python without the lab, because everything that starts a JVM needs it.
"""

import re
import time
from dataclasses import dataclass
from pathlib import Path

# A JVM that lives for minutes is better off with the quick compiler alone (C1): on two cores the
# optimizing one takes processor time from Spark and repays it later than the JVM lives. But
# `TieredStopAtLevel=1` alone also lowers the code cache from 240 MB to 48 MB, which the tour's writer
# fills in about a minute: then the JVM stops compiling, falls behind and fails with a
# `NoSuchMethodException`. So both options stand here, and nowhere one without the other.
QUICK_COMPILER = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=240m")

START_MARK = "=== started"


@dataclass(frozen=True)
class Exhaustion:
    """What a JVM ran out of.

    Args:
        cause: a clause that names it.
        next_step: what to change.
    """

    cause: str
    next_step: str


# What a JVM prints when it runs out of something, and what that means. The first match in a log is the
# cause; the exceptions after it are consequences.
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
    """The line that separates a program's runs in its log."""
    return f"{START_MARK} {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"


def exhaustion_in(log: Path) -> Exhaustion | None:
    """What the JVM of a log's newest run ran out of.

    Args:
        log: a file with the output of a JVM, runs separated by `start_mark()`.

    Returns:
        The first thing that was exhausted; None if nothing was, or there is no log.
    """
    found = None
    try:
        with log.open(errors="replace") as lines:
            for line in lines:
                if line.startswith(START_MARK):
                    found = None
                elif found is None:
                    found = _exhaustion(line)
    except FileNotFoundError:
        return None
    return found


def explained(error: object, log: Path) -> str:
    """An error's text, preceded by what the JVM ran out of if its log says so.

    Args:
        error: what was raised.
        log: the log of the JVM that raised it.
    """
    found = _exhaustion(str(error)) or exhaustion_in(log)
    return f"{found.cause}: {found.next_step} Reported as: {error}" if found else str(error)


def _exhaustion(text: str) -> Exhaustion | None:
    for pattern, known in EXHAUSTED.items():
        if re.search(pattern, text):
            return known
    return None


@dataclass(frozen=True)
class MemoryUse:
    """How much of one kind of its memory a JVM uses.

    Args:
        used: bytes.
        limit: the most it may use, in bytes; 0 where there is no limit.
    """

    used: int
    limit: int

    @property
    def share(self) -> float:
        """The used part of the limit, from 0 to 1; 0 without a limit."""
        return self.used / self.limit if self.limit else 0.0


def memory_use(jvm) -> dict[str, MemoryUse]:
    """What a JVM's memory holds after a full garbage collection.

    Args:
        jvm: a Py4J view of it, for example `spark.sparkContext._jvm`.

    Returns:
        By name: code cache, metaspace, class space, heap. Source: its own `MemoryPoolMXBean`s.
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
    """The kinds of memory of which a JVM uses more than a share of its limit.

    Args:
        memory: what `memory_use` returned.
        share: of the limit, from 0 to 1.

    Returns:
        One sentence for each; empty if there is room.
    """
    return [
        f"The {name} of the JVM holds {use.used / 1e6:.0f} of {use.limit / 1e6:.0f} MB."
        for name, use in memory.items()
        if use.share > share
    ]
