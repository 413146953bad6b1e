"""The ladder: a right answer climbs past a kill, a wrong one falls, and neither leaves anything."""

import pytest

from lab_env.lab.handle import namespace_of
from lab_env.lab.ladder.answers import find_answer
from lab_env.lab.ladder.attack import attack
from lab_env.platform import store
from lab_env.platform.processes.environment import marked_processes

pytestmark = pytest.mark.services
SEED = 17


@pytest.fixture
def climbed(services):
    """Return a function that lets an answer of 04.2 climb rungs, and checks what it leaves."""

    def climb(answer, *rungs):
        namespace = namespace_of("04")
        before = {process.pid for process in marked_processes()}
        found = attack(
            services, namespace, "04.2", find_answer("04.2", services, answer), rungs, SEED
        )
        assert {process.pid for process in marked_processes()} <= before
        assert not list(store.list_objects(services, f"{namespace}/scratch/attack-"))
        return found

    return climb


def test_the_reference_holds_late_events_and_a_kill_before_its_checkpoint(climbed):
    found = climbed("reference", 1, 4)
    assert found.held, repr(found)
    assert [result.number for result in found.results] == [1, 4]


def test_an_answer_without_erasures_falls_on_the_first_rung_with_the_history_of_an_order(climbed):
    found = climbed("wrong-1")
    (result,) = found.results
    assert not result.held and "although erased" in result.found
    assert result.history.steps[-1].what == "shown" and result.history.wrong
    assert f"lab attack 04.2 --rung 1 --seed {SEED}" in repr(found)
