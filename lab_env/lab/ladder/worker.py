"""Calls the attacked function: `python -m lab_env.lab.ladder.worker`."""

from typing import Any

from pyspark.sql import SparkSession

from lab_env.lab.handle import Lab
from lab_env.lab.job.worker import JobWorker, serve_tasks
from lab_env.lab.ladder.stage import Task
from lab_env.lab.ladder.target import target_of
from lab_env.pipeline.session import endpoints_of_environment
from lab_env.platform import store


class AttackLab(Lab):
    """The notebook's `lab`, with the folder and the topic of the attack."""

    def __init__(self, lesson: str, spark: SparkSession, task: Task):
        super().__init__(lesson, endpoints_of_environment())
        self.namespace = store.key_of(task.base)
        self._session, self._topic = spark, task.topic

    def topic(self, name: str) -> str:
        """Return the attack's topic; it has only one."""
        return self._topic


class LadderWorker(JobWorker):
    """Calls an exercise's function, as the lesson does."""

    def feed(self, exercise: str, at: dict[str, Any]) -> dict:
        """Prepare the function's input."""
        target_of(exercise).feed(self.spark, Task(**at))
        return {}

    def run(self, exercise: str, at: dict[str, Any]) -> dict:
        """Call the function on everything that it has not read yet."""
        target, function, task = target_of(exercise), self.functions["answer"], Task(**at)
        if task.delivery < target.begins:
            return {}
        lab = AttackLab(exercise[:2], self.spark, task)
        self._set_variables({"lab": lab} | dict(target.variables(self.spark, task)))
        with self.endless_streams_stopped(getattr(function, "__name__", "your function")):
            target.call(function, self.spark, task)
        return {}

    def look(self, exercise: str, at: dict[str, Any], target: str) -> dict:
        """Read the function's output into the file `target`."""
        target_of(exercise).look(self.spark, Task(**at)).to_pickle(target)
        return {}

    def _set_variables(self, values: dict[str, Any]) -> None:
        """Give the notebook's variables the values of this attack.

        All functions of a notebook share their global variables, here as there.
        """
        getattr(self.functions["answer"], "__globals__", {}).update(values)


if __name__ == "__main__":
    serve_tasks("ladder", LadderWorker)
