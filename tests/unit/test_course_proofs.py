"""A proof cell at run time: one line if it holds; else a card with the values that differ."""

import ast
import json
import linecache

import pytest

from lab_env.course.copies import known_lessons
from lab_env.course.proofs import proof
from lab_env.course.sections import is_proof, notebook_of, section_of_proof

CLAIM = "One row per order is left."


@pytest.fixture
def outcomes(tmp_path, configure):
    configure(outcomes=tmp_path / "outcomes.jsonl")
    return lambda: [json.loads(x) for x in (tmp_path / "outcomes.jsonl").read_text().splitlines()]


def run(body: str, **names) -> None:
    """Run a proof's body as a notebook does: as a cell whose source Python can look up."""
    code = f"with proof({CLAIM!r}):\n    {body}\n"
    linecache.cache["<cell>"] = (len(code), None, code.splitlines(True), "<cell>")
    exec(compile(code, "<cell>", "exec"), {"proof": proof, "__name__": "__main__", **names})


def test_a_proof_that_holds_is_one_line(outcomes, capsys):
    run("assert rows == 5", rows=5)
    assert capsys.readouterr().out == f"✓ {CLAIM}\n"
    assert outcomes() == [{"proof": CLAIM, "outcome": "holds"}]


@pytest.mark.parametrize(
    ("body", "difference"),
    [
        ("assert len(rows) == 5", "Expected `len(rows) == 5`, but `len(rows)` is `3`."),
        ("assert rows and max(rows) == 2", "Expected `max(rows) == 2`, but `max(rows)` is `3`."),
        ("assert 1 < len(rows) < 2", "Expected `1 < len(rows) < 2`, but `len(rows)` is `3`."),
        ("for row in rows: assert row < 3", "Expected `row < 3`, but `row` is `3`."),
        ("assert not rows", "Expected `not rows`, but that does not hold."),
        ("assert rows == missing", "NameError: name 'missing' is not defined."),
        ("assert rows.pop() and rows.pop() and rows.pop() and rows.pop()", "IndexError: pop from"),
    ],
)
def test_a_proof_that_fails_says_what_differs_and_the_notebook_goes_on(
    outcomes, capsys, body, difference
):
    run(body, rows=[1, 2, 3])
    card = capsys.readouterr().out
    assert card.startswith(f"Your run differs from the text: {CLAIM}\n\n{difference}")
    assert "You can go on." in card and "✓" not in card
    (fact,) = outcomes()
    assert fact["outcome"] == "differs" and fact["text"].startswith(difference)


def test_the_card_of_a_proof_names_the_section_to_enter_again(outcomes, capsys):
    claim = "The update rewrites 1,000 rows on Copy-on-Write and logs ten on Merge-on-Read"
    for lesson in ("05", "demo-snapshot"):
        with proof(claim, lesson):
            raise AssertionError
    in_a_lesson, in_a_demo = capsys.readouterr().out.split("Your run differs")[1:]
    assert "Did a cell run twice?" in in_a_lesson and "`lab goto 05a`" in in_a_lesson
    assert "restart the kernel" in in_a_demo


@pytest.mark.parametrize("lesson", known_lessons())
def test_each_proof_is_found_in_its_lesson(lesson):
    cells = [cell.source for cell in notebook_of(lesson).cells if is_proof(cell)]
    claims = [ast.parse(source).body[0].items[0].context_expr.args[0].value for source in cells]
    found = [section_of_proof(lesson, claim) for claim in claims]
    names = [section.name for section in found]
    assert names == sorted(names) != []


def test_under_strict_a_proof_that_fails_raises_and_says_what_differs(outcomes, configure):
    configure(strict="1")
    with pytest.raises(AssertionError) as raised:
        run("assert rows == 5", rows=4)
    assert raised.value.__notes__ == [f"{CLAIM} Expected `rows == 5`, but `rows` is `4`."]
    assert outcomes()[0]["outcome"] == "differs"


def test_an_interrupt_is_not_a_result(outcomes):
    def interrupt():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("assert interrupt()", interrupt=interrupt)
