"""The result of an attack, as a card in a notebook and as text in a terminal."""

from dataclasses import dataclass
from pathlib import Path

from lab_env.course import progress
from lab_env.course.outcomes import Card
from lab_env.lab.ladder.fall import Fall
from lab_env.lab.ladder.history import History, as_text
from lab_env.lab.ladder.picture import draw
from lab_env.platform.processes.state import folder

FOLDER = "ladder"
NO_RUNGS = (
    "No rung recreates the topic or lets messages expire unread: a function alone cannot make up "
    "for that. Nor for a deleted checkpoint, unless the topic has everything, as in 17.2."
)


@dataclass(frozen=True)
class Result:
    """The result of one rung; `found` is what the ledger says.

    Args:
        fall: None if it held.
        shrunk: what came of running the rung again with fewer messages.
    """

    number: int
    title: str
    promise: str
    held: bool
    found: str
    seconds: float
    fall: Fall | None = None
    shrunk: str = ""

    @property
    def history(self) -> History | None:
        """The life of one key that is wrong, if there is one."""
        return self.fall.history if self.fall else None

    def outcome(self) -> str:
        """Return, for example, `rung 3: held after 21 s`."""
        return f"rung {self.number}: {self._verdict}"

    def line(self) -> str:
        """Return the result as one line."""
        return f"rung {self.number}, {self.title}: {self._verdict}. {self.found}"

    @property
    def _verdict(self) -> str:
        return f"{'held' if self.held else 'FELL'} after {self.seconds:.0f} s"


@dataclass(frozen=True, repr=False)
class Climb:
    """The rungs that an answer has climbed, and the one from which it fell, if it did.

    Args:
        which: an answer of the lesson's source; empty for the learner's own.
        given: the name of a function that was passed to `lab.attack`; empty for the answer.
        whole: whether it began at the first rung and was to climb all of them.
    """

    exercise: str
    seed: int
    of: int
    results: tuple[Result, ...]
    which: str = ""
    given: str = ""
    whole: bool = True

    @property
    def held(self) -> bool:
        """True if it held on every rung that was tried."""
        return all(result.held for result in self.results)

    @property
    def climbed(self) -> int:
        """Number of rungs on which it held."""
        return sum(result.held for result in self.results)

    def card(self, drawn: bool = False) -> Card:
        """Return the result as a card; without the history as text if that is `drawn`."""
        parts = [result.line() for result in self.results if result.held]
        if self.held:
            tried = "" if self.climbed == self.of else f" ({self.of} in all)"
            outcome = f"held {self.climbed} of {len(self.results)} rungs{tried}"
            parts += [] if tried else [NO_RUNGS]
        else:
            outcome = f"fell on rung {self.results[-1].number} of {self.of}"
            parts += self._fall(self.results[-1], drawn)
        name = f"{self.exercise}, {self.given}" if self.given else self.exercise
        if self.which:
            parts.append(f"Not in `lab progress`: it counts your own answer, not `{self.which}`.")
        return Card(f"Exercise {name}: {outcome}", "\n\n".join(parts), tone=self.held)

    def picture(self) -> str:
        """Return the picture of the fall as SVG; empty if there is no history to draw."""
        found = self.results[-1].history
        return draw(found) if found else ""

    def keep(self) -> dict[str, Path]:
        """Record the learner's best climb and save a fall; return the fall's files by content.

        The climb of another answer or of single rungs is not recorded.
        """
        if self.whole and not (self.which or self.given):
            progress.record_climb(self.exercise, self.climbed, self.of)
        last = self.results[-1]
        if last.fall is None:
            return {}
        name = f"{self.exercise}-rung-{last.number}-seed-{self.seed}"
        events, drawing = (folder(FOLDER) / f"{name}.{ending}" for ending in ("json", "svg"))
        answer = self.which or self.given or "own"
        facts = {"rung": last.number, "seed": self.seed, "answer": answer}
        last.fall.save(events, exercise=self.exercise, **facts, found=last.found)
        if not (picture := self.picture()):
            drawing.unlink(missing_ok=True)  # that of an earlier fall
            return {"events": events}
        drawing.write_text(picture, encoding="utf-8")
        return {"picture": drawing, "events": events}

    def _fall(self, last: Result, drawn: bool) -> list[str]:
        again = f"lab attack {self.exercise} --rung {last.number} --seed {self.seed}"
        again += f" --answer {self.which}" if self.which else ""
        more = "--shrink"
        if self.given:
            call = f'"{self.exercise}", {last.number}, answer={self.given}, seed={self.seed}'
            again, more = f"lab.attack({call})", "shrink=True"
        parts = [last.line(), f"Required: {last.promise}", last.shrunk]
        if last.history and not drawn:
            parts.append(f"```\n{as_text(last.history)}\n```")
        parts.append(f"The same events again: `{again}`")
        if last.history and not last.shrunk:
            parts.append(f"`{more}` looks for fewer messages that still make it fall.")
        return [part for part in parts if part]

    def __repr__(self) -> str:
        return repr(self.card())

    def _repr_html_(self) -> str:
        picture = self.picture()
        return self.card(drawn=bool(picture))._repr_html_() + picture
