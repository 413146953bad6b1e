"""Effect mutants: the reference answer runs unchanged, then one effect of it is disturbed.

What is disturbed follows from what the answer yields in its check: the rows that it returns or is
given, the table that it writes, its query, its arguments. A check that passes nevertheless does not
look at that effect; or nobody can miss it, and a cell with the option `harmless` says why.
"""

import functools
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from lab_env.course.authoring.disturb import changes_of, changes_of_table, is_spark


class NothingChanged(Exception):
    """The disturbance found nothing to change, for example a clean nothing to remove."""


@dataclass(frozen=True)
class Call:
    """One call of an answer's function."""

    function: FunctionType
    given: tuple
    named: dict[str, Any]
    lab: Any

    def run(self) -> Any:
        return self.function(*self.given, **self.named)

    def with_argument(self, bound: inspect.BoundArguments, argument: str, value: Any) -> "Call":
        other = inspect.BoundArguments(bound.signature, bound.arguments | {argument: value})
        return Call(self.function, other.args, other.kwargs, self.lab)

    def tables(self) -> list[str]:
        """Return the paths among the arguments, and those of the tables that they name."""
        texts = [value for value in (*self.given, *self.named.values()) if isinstance(value, str)]
        paths = [text for text in texts if text.startswith("s3a://")]
        spark = getattr(self.lab, "running_spark", None)
        for text in texts:
            if spark and text.isidentifier() and spark.catalog.tableExists(text):
                facts = spark.sql(f"DESCRIBE EXTENDED {text}").where("col_name = 'Location'")
                paths += [row.data_type for row in facts.collect()]
        return paths

    def before(self) -> Iterator[tuple[str, "Call"]]:
        """Yield the disturbances of the input: the rows and the checkpoint."""
        bound = inspect.signature(self.function).bind(*self.given, **self.named)
        for argument, value in bound.arguments.items():
            if is_spark(value, "DataFrame"):
                for name, change in changes_of(value):
                    if name in ("a row less", "a column more", "every row twice"):
                        yield f"given {name}", self.with_argument(bound, argument, change(value))
            if argument == "checkpoint":
                other = self.with_argument(bound, argument, f"{value}-elsewhere")
                yield "its checkpoint elsewhere", other

    def after(self, result: Any, written: list[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield the disturbances of what the call returned, changed and wrote."""
        for name, change in changes_of(result):
            yield name, functools.partial(change, result)
        for value in (*self.given, *self.named.values()):
            if type(value) in (list, dict, set) and value:
                yield f"the {type(value).__name__} emptied", self._then(value.clear, result)
        for path in written:
            for name, change in changes_of_table(self.lab, path):
                yield f"table {name}", self._then(change, result, path)

    def _then(self, change: Callable[[], None], result: Any, path: str = "") -> Callable[[], Any]:
        def both() -> Any:
            files = path and self.files(path)
            change()
            if path and self.files(path) == files:
                raise NothingChanged
            return result

        return both

    def files(self, path: str) -> frozenset[str]:
        return frozenset(file.key for file in self.lab.files(path))


class Disturbed:
    """Wraps an answer; with an effect's name it disturbs, without one it collects the names."""

    def __init__(self, lab: Any, effect: str = ""):
        self.lab = lab
        self.effect = effect
        self.names: dict[str, None] = {}
        self.happened = False
        self.broken = ""  # how the disturbance itself failed

    def wrap(self, answer: Any, prefix: str = "") -> Any:
        if isinstance(answer, FunctionType):
            return self._function(answer, prefix)
        if type(answer) in (list, tuple) and any(isinstance(a, FunctionType) for a in answer):
            wrapped = [
                self.wrap(part, f"{part.__name__}: " if isinstance(part, FunctionType) else "-")
                for part in answer
            ]
            return type(answer)(wrapped)
        if prefix or isinstance(answer, type):  # a variant's name; a class, whose calls are its own
            return answer
        return self._one_of(
            ((n, functools.partial(c, answer)) for n, c in changes_of(answer)), answer
        )

    def _one_of(self, effects: Iterator[tuple[str, Any]], otherwise: Any, prefix: str = "") -> Any:
        for name, change in effects:
            if not self.effect:
                self.names[prefix + name] = None
            elif self.effect == prefix + name:
                return self._made(change, otherwise)
        return otherwise

    def _made(self, change: Callable[[], Any], otherwise: Any) -> Any:
        try:
            changed = change()
        except NothingChanged:
            return otherwise
        except Exception as error:
            self.broken = f"{type(error).__name__}: {error}".partition("\n")[0]
            raise
        self.happened = True
        return changed

    def _function(self, function: FunctionType, prefix: str) -> Callable:
        @functools.wraps(function)
        def call(*given: Any, **named: Any) -> Any:
            one = Call(function, given, named, self.lab)
            before = self._files(one)
            changed = ((name, lambda c=other: c) for name, other in one.before())
            result = (self._one_of(changed, one, prefix) if self.effect else one).run()
            after = self._files(one)
            written = [path for path, files in after.items() if files != before.get(path)]
            if not self.effect and (written or is_spark(result, "StreamingQuery")):
                self._one_of(((name, None) for name, _ in one.before()), None, prefix)
            return self._one_of(one.after(result, written), result, prefix)

        return call

    def _files(self, call: Call) -> dict[str, frozenset[str]]:
        """Return the files below each path that a call is given, where an effect needs them."""
        spark = getattr(self.lab, "running_spark", None)
        if spark is None or (self.effect and "table " not in self.effect):
            return {}
        return {path: call.files(path) for path in call.tables()}
