"""The results of checks, hints and solutions: cards in JupyterLab, text elsewhere."""

import json
from dataclasses import dataclass
from typing import Literal

from lab_env.platform.display.card import card, plain
from lab_env.platform.display.code import coloured
from lab_env.platform.settings import settings

Kind = Literal["passed", "not yet", "not attempted", "error in your code"]
TONES = {"passed": True, "not yet": "warn", "not attempted": None, "error in your code": False}


@dataclass(frozen=True, repr=False)
class Card:
    """A message to the learner; `tone`: True is green, False red, "warn" amber, None neutral."""

    title: str
    text: str = ""
    tone: bool | str | None = None
    code: str = ""

    def __repr__(self) -> str:
        parts = (self.title, plain(self.text), self.code)
        return "\n\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        return card(self.title, self.tone, note=self.text, code=coloured(self.code))


@dataclass(frozen=True, repr=False)
class Outcome:
    """A check's result; `link` is the next lesson's notebook after a lesson's last exercise."""

    exercise: str
    kind: Kind
    text: str = ""
    next_step: str = ""
    link: str = ""

    @property
    def passed(self) -> bool:
        return self.kind == "passed"

    @property
    def title(self) -> str:
        return f"Exercise {self.exercise}: {self.kind}"

    def __repr__(self) -> str:
        parts = (self.title, plain(self.text), self.next_step)
        return "\n".join(part for part in parts if part)

    def _repr_html_(self) -> str:
        note = "\n\n".join(part for part in (self.text, self.next_step) if part)
        return card(self.title, TONES[self.kind], note=note, link=self.link)


def report(**facts: object) -> None:
    """Append a JSON line to the file `LAB_OUTCOMES`, which CI reads; do nothing if it is unset."""
    path = settings().outcomes
    if path:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(facts, ensure_ascii=False) + "\n")
