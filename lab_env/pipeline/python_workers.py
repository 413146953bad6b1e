"""The process from which Spark forks its Python workers; `spark.python.daemon.module` names it.

Spark puts its core jar and two archives on the workers' path, and its worker reads the directories
of all archives there again at the start of each task: 26 ms on an idle machine, for a jar of 5,000
entries that holds no Python (Spark 3.5.7 and Python 3.11; 3.12 does it at the next import). PySpark
is installed here, so the workers need none of them.
"""

import sys

ARCHIVES = (".jar", ".zip")


def leave_archives() -> None:
    """Take archives off Python's path, and forget their contents."""
    sys.path[:] = [entry for entry in sys.path if not entry.endswith(ARCHIVES)]
    for entry in [entry for entry in sys.path_importer_cache if entry.endswith(ARCHIVES)]:
        del sys.path_importer_cache[entry]


if __name__ == "__main__":
    leave_archives()
    from pyspark.daemon import manager

    manager()
