"""The ladder: right answers climb past kills, wrong ones fall, and neither leaves anything."""

import pytest

from lab_env.lab.handle import namespace_of
from lab_env.lab.ladder.answers import find_answer
from lab_env.lab.ladder.attack import attack
from lab_env.lab.ladder.proof import expected
from lab_env.platform import store
from lab_env.platform.processes.environment import marked_processes

pytestmark = pytest.mark.services
of_its_proof = pytest.mark.proof("ladder")
SEED = 17


@pytest.fixture
def climbed(services):
    """Return a function that lets an answer climb rungs, and checks what it leaves."""

    def climb(exercise, answer, *rungs):
        namespace = namespace_of(exercise[:2])
        before = {process.pid for process in marked_processes()}
        function = find_answer(exercise, services, answer)
        found = attack(services, namespace, exercise, function, rungs, SEED)
        assert {process.pid for process in marked_processes()} <= before
        assert not list(store.list_objects(services, f"{namespace}/scratch/attack-"))
        return found

    return climb


# The demo `exactly-once` tries two rungs of 17.3.
@pytest.mark.parametrize(
    ("exercise", "rungs"),
    [
        ("03.2", (2, 3)),
        pytest.param("04.2", (1, 4), marks=of_its_proof),
        pytest.param("14.4", (1, 3), marks=of_its_proof),
    ],
)
def test_references_hold_what_is_late_malformed_or_killed(climbed, exercise, rungs):
    found = climbed(exercise, "reference", *rungs)
    assert found.held, repr(found)
    assert tuple(result.number for result in found.results) == rungs


@pytest.mark.parametrize(
    ("exercise", "answer", "why"),
    [
        pytest.param("04.2", "wrong-1", "although erased", marks=of_its_proof),
        ("03.2", "wrong-5", "malformed, but among your orders"),
    ],
)
def test_a_wrong_answer_falls_where_it_should_and_a_history_shows_it(
    climbed, exercise, answer, why
):
    rung = int(expected(exercise)[answer].removeprefix("rung "))
    found = climbed(exercise, answer, rung)
    (result,) = found.results
    assert not result.held and why in result.found
    assert result.history and result.history.wrong
    assert result.history.steps[-1].what == "shown"
    assert f"lab attack {exercise} --rung {rung} --seed {SEED}" in repr(found)
