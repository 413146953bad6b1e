"""Stops everything that a test process has started, once that process has ended or died.

`python end_of_run.py MARK` waits until its stdin is closed. A signal sent to pytest alone, for
example after a time-out, does not stop its lab's servers, each of which has its own session.
"""

import os
import shutil
import sys
from pathlib import Path

VARIABLE = "LAKEHOUSE_TEST_RUN"


def end_all(mark: str) -> None:
    """Kill every program that was started with this value of `VARIABLE`, and remove the run's lab.

    Args:
        mark: the test process's folder, which contains its lab.
    """
    import psutil

    from lab_env.platform.processes import supervisor
    from lab_env.platform.processes.system import environment_of
    from lab_env.platform.processes.tree import is_alive, kill_processes

    def left() -> list[psutil.Process]:
        others = (process for process in psutil.process_iter() if process.pid != os.getpid())
        return [p for p in others if environment_of(p).get(VARIABLE) == mark and is_alive(p)]

    while programs := left():  # one of them may just have started another
        kill_processes(programs)
    if Path(mark).exists():
        supervisor.shutdown()  # removes its socket, which lies elsewhere
        shutil.rmtree(mark, ignore_errors=True)


if __name__ == "__main__":
    sys.stdin.read()
    end_all(sys.argv[1])
