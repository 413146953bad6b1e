"""The result of an attack, as a card in a notebook and as text in a terminal."""

from dataclasses import dataclass

from lab_env.course.outcomes import Card
from lab_env.lab.ladder.history import Step, as_text


@dataclass(frozen=True)
class Result:
    """The result of one rung; `found` is what the ledger says, `history` the life of one order."""

    number: int
    title: str
    promise: str
    held: bool
    found: str
    history: tuple[Step, ...]
    seconds: float

    def line(self) -> str:
        """Return the result as one line."""
        word = "held" if self.held else "FELL"
        return f"rung {self.number}, {self.title}: {word} after {self.seconds:.0f} s. {self.found}"


@dataclass(frozen=True, repr=False)
class Climb:
    """The rungs that an answer has climbed, and the one from which it fell, if it did.

    `which` names an answer of the lesson's source; it is empty for the learner's own.
    """

    exercise: str
    seed: int
    of: int
    results: tuple[Result, ...]
    which: str = ""

    @property
    def held(self) -> bool:
        """True if it held on every rung that was tried."""
        return all(result.held for result in self.results)

    def card(self) -> Card:
        """Return the result as a card."""
        climbed = sum(result.held for result in self.results)
        tried = "" if len(self.results) == self.of else f" ({self.of} in all)"
        title = f"Exercise {self.exercise}: held {climbed} of {len(self.results)} rungs{tried}"
        parts = [result.line() for result in self.results if result.held]
        if not self.held:
            parts += self._fall(self.results[-1])
        return Card(title, "\n\n".join(parts), tone=self.held)

    def _fall(self, last: Result) -> list[str]:
        steps = [f"```\n{as_text(list(last.history))}\n```"] if last.history else []
        again = f"lab attack {self.exercise} --rung {last.number} --seed {self.seed}"
        again += f" --answer {self.which}" if self.which else ""
        return [
            last.line(),
            f"Promised: {last.promise}",
            *steps,
            f"The same events again: `{again}`",
        ]

    def __repr__(self) -> str:
        return repr(self.card())

    def _repr_html_(self) -> str:
        return self.card()._repr_html_()
