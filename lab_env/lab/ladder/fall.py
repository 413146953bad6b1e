"""A fall with all its facts: what was sent, what the output showed after each delivery.

Saved as a file, it can be studied without the lab.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lab_env.lab.ladder.history import COMMIT, History, Look, history
from lab_env.lab.ladder.target import Target, target_of

SHOWN = ["key", "event", COMMIT]  # what is kept of an output's rows


@dataclass(frozen=True)
class Fall:
    """A rung up to its fall: the output was wrong, or the function failed.

    Args:
        sends: the ledger's frame, with the number of each send's `delivery` and its `value`.
        looks: what the output showed, in order.
        history: the life of one key that is wrong; None if the function failed without one.
    """

    target: Target
    sends: pd.DataFrame
    looks: tuple[Look, ...]
    history: History | None = None

    def smaller(self) -> Iterator[frozenset[str]]:
        """Yield three sets of send ids that may suffice for the fall, the smallest first.

        These are the sends of the history's key, alone, then with either half of the others.
        """
        assert self.history is not None
        keyed = self.target.keyed(self.sends)
        own = keyed.loc[keyed["key"].astype(str) == self.history.key, "send_id"].tolist()
        others = [send_id for send_id in self.sends["send_id"] if send_id not in own]
        half = len(others) // 2
        for more in ([], others[:half], others[half:]):
            yield frozenset([*own, *more])

    def save(self, path: Path, **about: object) -> None:
        """Write the fall as JSON, with some facts about it; they must include its `exercise`."""
        looks = [
            {
                "delivery": look.delivery,
                "killed": look.killed,
                "meanwhile": look.meanwhile,
                "rows": look.rows.reindex(columns=SHOWN).astype(str).to_numpy().tolist(),
            }
            for look in self.looks
        ]
        key, sends = self.history and self.history.key, self.sends.to_dict("records")
        facts = about | {"key": key, "sends": sends, "looks": looks}
        path.write_text(json.dumps(facts, indent=1, default=str) + "\n", encoding="utf-8")


def read_fall(path: Path) -> Fall:
    """Read a saved fall; its history is told again from its sends and looks."""
    facts = json.loads(path.read_text(encoding="utf-8"))
    target = target_of(facts["exercise"])
    sends = pd.DataFrame(facts["sends"])
    looks = [
        Look(**look | {"rows": pd.DataFrame(look["rows"], columns=SHOWN)})
        for look in facts["looks"]
    ]
    key = facts["key"]
    told = history(key, target, target.keyed(sends), looks) if key else None
    return Fall(target, sends, tuple(looks), told)
