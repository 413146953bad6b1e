"""Calls the attacked function: `python -m lab_env.lab.ladder.worker`."""

from typing import Any

from lab_env.lab.handle import Lab
from lab_env.lab.job.worker import JobWorker, serve_tasks
from lab_env.lab.ladder.target import Target, Task, target_of
from lab_env.platform import services, store


class LadderWorker(JobWorker):
    """Calls an exercise's function, as the lesson does."""

    def feed(self, exercise: str, at: dict[str, Any]) -> dict:
        """Prepare the function's input."""
        target_of(exercise).feed(self.spark, Task(**at))
        return {}

    def run(self, exercise: str, at: dict[str, Any]) -> dict:
        """Call the function on everything that it has not read yet."""
        target, function = target_of(exercise), self.functions["answer"]
        self._set_variables(target, Task(**at))
        with self.endless_streams_stopped(getattr(function, "__name__", "your function")):
            target.call(function, self.spark, Task(**at))
        return {}

    def look(self, exercise: str, at: dict[str, Any], target: str) -> dict:
        """Read the function's output into the file `target`."""
        target_of(exercise).look(self.spark, Task(**at)).to_pickle(target)
        return {}

    def _set_variables(self, target: Target, task: Task) -> None:
        """Give the notebook's variables the values of this attack.

        All functions of a notebook share their global variables, here as there.
        """
        function = self.functions["answer"]
        lab = Lab(store.key_of(task.base), services.endpoints())
        own = {"lab": lab} | dict(target.variables(self.spark, task))
        getattr(function, "__globals__", {}).update(own)


if __name__ == "__main__":
    serve_tasks("ladder", LadderWorker)
