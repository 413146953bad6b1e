"""Checks what a function added to a table: the writes that are due, and nothing else."""

from collections.abc import Collection

from lab_env.course.checking import expect
from lab_env.lessons.rows import named
from lab_env.tables.hudi.timeline import Instant


def completed_instants(lab, path: str) -> frozenset[Instant]:
    """Return the completed instants of a table, archived ones too; none if there is no table."""
    if not lab.files(f"{path}/.hoodie/timeline"):
        return frozenset()
    table = lab.xray(path)
    return frozenset(found for found in (*table.history, *table.instants) if found.completed)


def expect_history(lab, path: str, before: Collection[Instant]) -> list[Instant]:
    """Check that a table still has its earlier instants; return the completed ones since then.

    Raises:
        NotYet: history is gone.
    """
    after = {(found.requested, found.action): found for found in completed_instants(lab, path)}
    for found in before:
        expect(
            after.pop((found.requested, found.action), None),
            "The rows are right, but the table has lost its history: an earlier {} is gone. Time "
            "travel and incremental queries need it. Add to the table.",
            found.action,
        )
    return list(after.values())


def expect_no_metadata(lab, path: str, options: str) -> None:
    """Check that a table has no metadata table; `options` names the learner's that switch it off.

    Raises:
        NotYet: it has one.
    """
    expect(
        not any("/.hoodie/metadata/" in file.key for file in lab.files(path)),
        "The rest is right, but the table has a metadata table, which `{}` switches off. Pass it "
        "on.",
        options,
    )


def expect_added(
    lab,
    path: str,
    before: Collection[Instant],
    writes: int = 1,
    services: Collection[str] = (),
    why: str = "",
) -> None:
    """Check that a table has its earlier instants, and beside them only the writes that are due.

    Args:
        before: the completed instants before the learner's function ran.
        writes: how many commits are due.
        services: actions of table services that may have run, too.
        why: a sentence on what is wrong with several commits.

    Raises:
        NotYet: history is gone, there are more writes, or a service ran that nobody asked for.
    """
    after = expect_history(lab, path, before)
    new = [found.action for found in after if found.writes]
    expect(
        len(new) <= writes,
        "The rows are right, but they took {} commits, not {}: {}. {}",
        len(new),
        writes,
        named(new),
        why,
    )
    others = {found.action for found in after if not found.writes} - {*services}
    expect(
        not others,
        "The rows are right, but your function also ran a service of the table: {}. Nobody asked "
        "for it.",
        named(others),
    )
