"""Result of `lab.xray()`: a snapshot from `lab_env.tables.hudi` with a drawing and a text form."""

from dataclasses import fields, replace

from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints
from lab_env.platform.store import StoredTable
from lab_env.tables.hudi.commits import Commit
from lab_env.tables.hudi.intact import damaged_files
from lab_env.tables.hudi.reader import TableNotFound, UnsupportedTable, read_table
from lab_env.tables.hudi.table import CommitNotFound, Snapshot
from lab_env.tables.xray.commit import commit_html, commit_text
from lab_env.tables.xray.drawing import as_html
from lab_env.tables.xray.player import STEPS, Player, player
from lab_env.tables.xray.text import as_text


class CommitCard(Commit):
    """A commit; a notebook shows it as a card, `print` as text."""

    __repr__ = commit_text
    _repr_html_ = commit_html


class XRay(Snapshot):
    """A snapshot; a notebook shows it as a drawing, `print` as text."""

    __repr__ = as_text
    _repr_html_ = as_html

    def commit(self, requested: str | None = None) -> CommitCard:
        """Return a completed write's metadata like `Snapshot.commit`; LabError if there is none."""
        try:
            return shown_as(CommitCard, super().commit(requested))
        except CommitNotFound as error:
            latest = ", ".join(sorted(self.completed_writes)[-5:])
            next_step = f"choose one of: {latest}" if latest else "write to the table first."
            raise LabError(str(error), next_step) from None

    def play(self, last: int = STEPS) -> Player:
        """Return a player with one drawing for each of the newest `last` completed instants."""
        return player(self, last)


def xray(
    endpoints: Endpoints, path: str, since: Snapshot | None = None, check: bool = False
) -> XRay:
    """Read a table's current state from the lab's object store.

    Args:
        path: for example `s3a://lakehouse/lesson-05/orders`.
        since: an earlier snapshot; the drawing marks changes since then.
        check: also look for damaged files; the drawing marks them.

    Raises:
        LabError: there is no Hudi table at the path, or its version is too old.
    """
    files = StoredTable(endpoints, path)
    try:
        plain = read_table(files, since)
        if check:
            found = {damage.key: damage.why for damage in damaged_files(files)}
            plain = replace(plain, damage=found)
        return shown_as(XRay, plain)
    except TableNotFound as error:
        raise LabError(str(error), "give the path that the table was saved to.") from None
    except UnsupportedTable as error:
        next_step = "write it with Hudi 1.x, or read the tables that the lessons make."
        raise LabError(str(error), next_step) from None


def shown_as(cls: type, plain: Snapshot | Commit):
    """Convert a plain snapshot or commit to a subclass that a notebook can show."""
    return cls(**{field.name: getattr(plain, field.name) for field in fields(plain)})
