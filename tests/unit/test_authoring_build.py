"""Building notebooks: answer markers, violations with file and line, reproducible files."""

import json
import sys

import pytest

import lab_env.lessons
from lab_env.course.authoring.build import Tree, build, drift
from lab_env.course.authoring.new import new_lesson
from lab_env.course.authoring.template import DEFAULT_SERVICES
from lab_env.course.markers import MarkerError, split
from lab_env.course.registry import lessons
from lab_env.course.source import read_lesson
from lab_env.platform.errors import LabError
from lab_env.platform.services import DEFAULT


@pytest.fixture
def tree(tmp_path, monkeypatch):
    tree = Tree(tmp_path)
    monkeypatch.setattr(lab_env.lessons, "__path__", [*lab_env.lessons.__path__, str(tree.lessons)])
    new_lesson("77", "sample", tree)
    yield tree
    sys.modules.pop("lab_env.lessons.l77.checks", None)
    sys.modules.pop("lab_env.lessons.l77", None)


def source(tree: Tree):
    return tree.lesson("77") / "77_sample.py"


def edit(tree: Tree, old: str, new: str) -> None:
    """Replace a text that occurs exactly once in the source."""
    before, after = source(tree).read_text().split(old)
    source(tree).write_text(before + new + after)


def cells(tree: Tree, folder: str) -> list[dict]:
    return json.loads((tree.root / folder / "77_sample.ipynb").read_text())["cells"]


def text_of(tree: Tree, folder: str) -> str:
    return "\n".join("".join(cell["source"]) for cell in cells(tree, folder))


def test_a_new_lesson_passes_every_rule_and_always_makes_the_same_files(tree):
    assert len(build(tree)) == 2 and drift(tree) == []
    assert build(tree) == []
    with pytest.raises(LabError, match="Lesson 77 exists"):
        new_lesson("77", "other", tree)


def test_a_cell_put_in_changes_no_other_id(tree):
    before = read_lesson(source(tree)).cell_ids()
    start = "# %% [markdown]\n# ## Start"
    edit(tree, start, f"# %% [markdown]\n# More.\n\n{start}")
    after = read_lesson(source(tree)).cell_ids()
    assert [name for name in after if name in before] == before
    assert len(after) == len(before) + 1


def test_the_learner_gets_stubs_and_the_worked_notebook_answers(tree):
    build(tree)
    learner, worked = text_of(tree, "notebooks"), text_of(tree, "solutions")
    assert "new_orders = ...  # YOUR CODE" in learner and "new_orders = 2" not in learner
    assert "new_orders = 2" in worked and "YOUR CODE" not in worked
    for marker in ("# SOLUTION", "BEGIN SOLUTION", "# expect", "Count the orders whose"):
        assert marker not in learner + worked
    assert "For instructors" in worked and "For instructors" not in learner


def test_notebooks_have_no_outputs_and_agree_on_their_ids(tree):
    build(tree)
    learner, worked = cells(tree, "notebooks"), cells(tree, "solutions")
    for cell in learner + worked:
        assert not cell.get("outputs") and cell.get("execution_count") is None
    kept = [cell["id"] for cell in worked if cell["metadata"].get("tags") != ["instructor"]]
    assert [cell["id"] for cell in learner] == kept
    assert len(set(kept)) == len(kept)


def test_an_exercise_has_its_title_objective_hints_and_wrong_answers(tree):
    first, _ = lessons(tree.lessons)["77"].exercises
    assert (first.id, first.title, first.objective) == ("77.1", "A value", "do one thing")
    assert first.hints == ("Count the orders whose second part is `new`.",)
    assert [wrong.expect for wrong in first.wrong] == ["counts the paid one too"]


ANSWER = "new_orders = 2  # SOLUTION"
RETURNED = 'return [order for order in orders if order[1] != "cancelled"]'


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("# ## Questions\n", "# ## Question\n", "Here belongs '## Questions', not 'Question'."),
        ("# ## What's next\n", "# ## Next\n", "Here belongs '## What's next', not 'Next'."),
        ("# - do one thing (77.1),", "# - do one thing,", "This objective names no exercise"),
        ("# - do one thing (77.1),", "# - do one thing (77.9),", "There is no exercise 77.9"),
        ("# %% [markdown] hint=\"77.1\"\n", "# %% [markdown]\n", "Exercise 77.1 has no hint."),
        ('# %% right="77.1"', '# %% wrong="77.1"', "no right answer in another style"),
        ("..., tolerance=0", "...", "A prediction needs choices"),
        ("tolerance=0)", 'tolerance=0)\nlab.predict("77.p1", 2, tolerance=0)', "is named 77.p1"),
        ("# expect: counts the paid one too\n", "", "A wrong answer begins with '# expect: '"),
        ("new_orders = 2  # SOLUTION", "new_orders = 2", "has no line marked '# SOLUTION'"),
        ('lab.check("77.1", new_orders)', "new_orders", 'must end with lab.check("77.1"'),
        ('lab.check("77.1", new_orders)', 'lab.check("77.2", new_orders)', 'lab.check("77.1"'),
        (ANSWER, "new_orders = 2  # Solution", ":66: This marker is misspelt"),
        ('tags=["instructor"]\n# *For instructors.* 10', 'tags=["teacher"]\n# 10', "tag 'teacher'"),
        ("# *For instructors.* 10 min", "# *For instructors.* 11 min", "add up to 31; the front"),
        ("# *For instructors.* 20 min", "# 20 min", "'## The second idea' ends without a note"),
        ("# *For instructors.* 20 min", "# *For instructors.* 36 min", "46 minutes without"),
        ("# Lesson 00. 30 minutes.", "# Lesson 00.", "does not say '30 minutes'"),
        ('exercise="77.1"', 'exercice="77.1"', "A cell has no option 'exercice'"),
        ('# %% exercise="77.2"', '# %% exercise="77.3"', "There is no exercise 77.2"),
        ("# ### Exercise 77.1 · A value", "# ### A value", "needs the heading '### Exercise 77.1"),
        ('lab = Lab.start("77")', 'lab = Lab.start("05")', 'Lab.start needs "77"'),
        ("services: [minio, kafka]", "services: [minio, trino]", 'Lab.start needs "trino"'),
        ("minutes: {teach: 20, do: 10}", "minutes: 30", "The front matter needs title: a text; "),
        ("# title: A question", "# title: Another question", "The first cell begins with"),
        ("    # BEGIN SOLUTION\n", "    # BEGIN SOLUTION\n    # PROMPT: if (\n", "is no Python"),
        (ANSWER, "# BEGIN SOLUTION\nnew_orders = 2\n# END SOLUTION", "leaves 'new_orders' undef"),
        ("# Explain here what the picture above shows.", f"# {RETURNED}", "exercise 77.2 stands"),
    ],
)  # fmt: skip
def test_a_broken_rule_is_refused_with_file_and_line(tree, old, new, message):
    edit(tree, old, new)
    with pytest.raises(LabError) as refused:
        build(tree)
    assert message in refused.value.what
    for line in refused.value.what.splitlines():
        assert line.startswith("77_sample.py:") and int(line.split(":")[1]) >= 1
    assert not tree.learner.exists()  # nothing was written


def test_an_exercise_without_a_check_is_refused(tree):
    module = tree.lesson("77") / "checks.py"
    module.write_text(module.read_text().replace('@check("77.2")', '@check("77.4")'))
    with pytest.raises(LabError) as refused:
        build(tree)
    assert "Exercise 77.2 has no check" in refused.value.what
    assert "checks 77.4, which this lesson does not have" in refused.value.what


def test_drift_names_edited_stray_and_missing_files(tree):
    build(tree)
    path = tree.worked / "77_sample.ipynb"
    notebook = json.loads(path.read_text())
    next(c for c in notebook["cells"] if c["cell_type"] == "code")["execution_count"] = 3
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")
    (tree.learner / "notes.ipynb").write_text("{}")
    (tree.learner / "77_sample.ipynb").unlink()
    found = "\n".join(drift(tree))
    assert "solutions/77_sample.ipynb is not what its source makes" in found
    assert "notebooks/notes.ipynb is stray" in found
    assert "notebooks/77_sample.ipynb is missing" in found


def test_the_rules_know_which_services_every_lesson_has():
    assert set(DEFAULT) == DEFAULT_SERVICES


@pytest.mark.parametrize(
    ("source", "worked", "stub"),
    [
        ("total = rows.count()  # SOLUTION", "total = rows.count()", "total = ...  # YOUR CODE"),
        ('    "a.b": "x",  # SOLUTION', '    "a.b": "x",', '    "a.b": ...,  # YOUR CODE'),
        ("    key=value,  # SOLUTION", "    key=value,", "    key=...,  # YOUR CODE"),
        ('options["k"] = 1  # SOLUTION', 'options["k"] = 1', 'options["k"] = ...  # YOUR CODE'),
        ("    return x == 1  # SOLUTION", "    return x == 1", "    ...  # YOUR CODE"),
        ("a, b = 1, 2  # SOLUTION", "a, b = 1, 2", "a, b = ...  # YOUR CODE"),
        (
            "def f(x):\n    # BEGIN SOLUTION\n    y = x\n    return y\n    # END SOLUTION",
            "def f(x):\n    y = x\n    return y",
            "def f(x):\n    ...  # YOUR CODE",
        ),
        (
            "# BEGIN SOLUTION\n# PROMPT: paid = ...\npaid = (\n1\n)\n# END SOLUTION\nprint(paid)",
            "paid = (\n1\n)\nprint(paid)",
            "paid = ...  # YOUR CODE\nprint(paid)",
        ),
        ("x = 1\ny = 2", "x = 1\ny = 2", "x = 1\ny = 2"),
    ],
)
def test_the_worked_cell_has_the_answer_and_the_stub_dots_or_a_prompt(source, worked, stub):
    assert (split(source).worked, split(source).stub) == (worked, stub)


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
