"""Answer markers split a cell into the worked notebook's version and the learner's stub."""

import pytest

from lab_env.course.markers import MarkerError, split


@pytest.mark.parametrize(
    ("source", "worked", "stub"),
    [
        ("total = rows.count()  # SOLUTION", "total = rows.count()", "total = ...  # YOUR CODE"),
        ('    "a.b": "x",  # SOLUTION', '    "a.b": "x",', '    "a.b": ...,  # YOUR CODE'),
        ("    key=value,  # SOLUTION", "    key=value,", "    key=...,  # YOUR CODE"),
        ('options["k"] = 1  # SOLUTION', 'options["k"] = 1', 'options["k"] = ...  # YOUR CODE'),
        ("    return x == 1  # SOLUTION", "    return x == 1", "    ...  # YOUR CODE"),
        ("a, b = 1, 2  # SOLUTION", "a, b = 1, 2", "a, b = ...  # YOUR CODE"),
    ],
)
def test_a_marked_line_becomes_dots(source, worked, stub):
    assert (split(source).worked, split(source).stub) == (worked, stub)


def test_a_block_becomes_dots_at_its_indent():
    cell = "def f(x):\n    # BEGIN SOLUTION\n    y = x\n    return y\n    # END SOLUTION"
    assert split(cell).worked == "def f(x):\n    y = x\n    return y"
    assert split(cell).stub == "def f(x):\n    ...  # YOUR CODE"


def test_a_prompt_is_what_the_learner_sees_of_a_block():
    cell = "# BEGIN SOLUTION\n# PROMPT: paid = ...\npaid = (\n    1\n)\n# END SOLUTION\nprint(paid)"
    assert split(cell).worked == "paid = (\n    1\n)\nprint(paid)"
    assert split(cell).stub == "paid = ...  # YOUR CODE\nprint(paid)"


def test_a_cell_without_markers_is_the_same_in_both():
    assert split("x = 1\ny = 2").worked == split("x = 1\ny = 2").stub == "x = 1\ny = 2"


@pytest.mark.parametrize(
    ("cell", "offset"),
    [
        ("x = 1\n# BEGIN SOLUTION\ny = 2", 1),
        ("x = 1\n# END SOLUTION", 1),
        ("# BEGIN SOLUTION\n# BEGIN SOLUTION\n# END SOLUTION", 1),
        ("# BEGIN SOLUTION\n# END SOLUTION", 1),
        ("x = 1  # Solution", 0),
        ("x = 1\n# PROMPT: y = ...", 1),
        ("x = 1  # SOLUTION: one", 0),
    ],
)
def test_a_marker_that_does_not_fit_is_named_with_its_line(cell, offset):
    with pytest.raises(MarkerError) as refused:
        split(cell)
    assert refused.value.offset == offset
