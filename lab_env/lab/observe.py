"""`lab watch`: reads a table in every way for a while, and says what each reader saw."""

import time
from collections.abc import Callable
from pathlib import Path

from lab_env.lab.handle import Lab
from lab_env.platform import services
from lab_env.platform.errors import LabError
from lab_env.platform.processes.state import folder
from lab_env.tables.hudi.reader import TableNotFound
from lab_env.tables.observed.picture import page
from lab_env.tables.observed.watching import Observed

STEP_S = 5


def watch(table: str, seconds: int, say: Callable[[str], None]) -> tuple[Observed, Path]:
    """Return what was seen within so many seconds, and the path of the page that shows it.

    Args:
        table: its path, or its folder in the bucket.

    Raises:
        LabError: there is no Hudi table at the path.
    """
    lab = Lab("watch", services.endpoints())
    path = table if "://" in table else f"s3a://{lab.endpoints.bucket}/{table.strip('/')}"
    say("starting Spark")
    try:
        with lab.observe(path) as seen:
            for passed in range(0, seconds, STEP_S):
                say(f"{passed} of {seconds} s: {len(seen.reads)} reads")
                time.sleep(min(STEP_S, seconds - passed))
    except TableNotFound as error:
        raise LabError(str(error), "name its folder, for example: lesson-05/orders_cow") from error
    finally:
        if lab.running_spark:
            lab.running_spark.stop()
    made = folder("observed") / "index.html"
    made.write_text(page(seen), encoding="utf-8")
    return seen, made
