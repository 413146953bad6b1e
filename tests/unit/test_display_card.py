"""A card shows code as it was written."""

import random
from html import unescape

import pytest

from lab_env.course.checking import mistake
from lab_env.course.outcomes import Outcome
from lab_env.platform.display.card import card

PIECES = ["**", "*", "_", "<b>", "&lt;", "options", " ", "{}", "'", '"', "\\", "#", "```"[:2], "é"]


def draw(rng: random.Random, without: str = "") -> str:
    """Return random code made of pieces that Markdown or HTML could interpret."""
    text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 12))).strip() or "x"
    return text.replace(without, "") or "x" if without else text


@pytest.mark.parametrize("seed", range(50))
def test_code_comes_out_as_it_went_in(seed):
    rng = random.Random(seed)
    inline, block = draw(rng, without="`"), draw(rng)
    html = card("Title", None, note=f"Say `{inline}` **now**:\n\n```\n{block}\n```\n\nThen go on.")
    assert f">{inline}</code> **now**:" in unescape(html)
    assert f">{block}</pre>" in unescape(html)
    assert "Then go on." in html


def test_two_stars_stay_in_the_line_of_the_learners_code():
    line = "rows.write.options(**ORDERS, **options)"
    outcome = Outcome(
        "05.1", "error in your code", f"KeyError: 'a'. It was:\n\n```\n{line}\n```", "Go on."
    )
    assert f">{line}</pre>" in unescape(outcome._repr_html_())


def raised_by(code: str) -> str:
    names = {"__name__": "__main__"}
    try:
        exec(code, names)
    except Exception as error:
        return mistake(error)
    raise AssertionError("it raised nothing")


def test_what_spark_adds_of_its_plan_is_left_out():
    text = "[UNRESOLVED_COLUMN] `amout` cannot be resolved. Did you mean [`amount`].; line 1 pos 0;"
    said = raised_by(f"raise ValueError({text + chr(10) + 'Project [amout]'!r})")
    assert (
        said
        == "ValueError: [UNRESOLVED_COLUMN] `amout` cannot be resolved. Did you mean [`amount`]."
    )
