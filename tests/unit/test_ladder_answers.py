"""An exercise's answer is found without a kernel: in the saved notebook or the lesson's source."""

import json
import linecache

import pytest

from lab_env.course.copies import LESSONS, name_of
from lab_env.course.source import check_call, without_check
from lab_env.lab.job.packing import Session, pack, unpack
from lab_env.lab.ladder import answers
from lab_env.lab.ladder.answers import find_answer, needed
from lab_env.platform.errors import LabError
from lab_env.platform.settings import Endpoints

FILE = name_of("04")
MINE = """
def start_table(events, path, checkpoint):
    return ORDERS, path, spark

lab.check("04.2", start_table)
"""

ENDPOINTS = Endpoints("http://s3", "k", "s", "eu", "lake", "kafka:1")


@pytest.fixture
def notebook(home, configure):
    """Function that saves a copy of lesson 04 in which some exercises have other code."""
    configure(work=home / "work")

    def save(**cells: str) -> None:
        content = json.loads((LESSONS / FILE).read_text())
        for cell in content["cells"]:
            call = cell["cell_type"] == "code" and check_call("".join(cell["source"]))
            if call and (code := cells.get(f"e{call[0].replace('.', '_')}")):
                cell["source"] = code.splitlines(keepends=True)
        (home / "work").mkdir(parents=True, exist_ok=True)
        (home / "work" / FILE).write_text(json.dumps(content))

    return save


def chosen(code: str, *names: str) -> str:
    found = needed(list(answers._statements(code, "<test>")), names)
    return "; ".join(answers.ast.unparse(statement.node) for statement in found)


def test_the_reference_and_the_lessons_other_answers_travel_with_what_they_use():
    for which in ("reference", "right-1", "right-3", "wrong-1"):
        function = find_answer("04.2", ENDPOINTS, which)
        there = unpack(pack(bound=True, answer=function), "the session")["answer"]
        assert there.__name__ == "start_table"
    assert "upsert" in there.__globals__ or "ORDERS" in there.__globals__
    assert linecache.getline("<reference answer of 04.2>", 1).startswith("def start_table")


def test_another_answer_may_use_what_the_reference_imports():
    function = find_answer("14.4", ENDPOINTS, "wrong-2")
    there = unpack(pack(bound=True, answer=function), "the session")["answer"]
    assert there.__globals__["DEMO_OPTIONS"]["hoodie.metadata.enable"] == "false"
    line = linecache.getline(there.__code__.co_filename, 2)
    assert line == '    options = {**DEMO_OPTIONS, "hoodie.table.name": "minutes"}\n'


def test_your_own_answer_is_that_of_the_saved_notebook_with_earlier_references(notebook):
    notebook(e04_2=MINE)
    job = pack(bound=True, answer=find_answer("04.2", ENDPOINTS))
    options, path, session = unpack(job, "the session")["answer"](None, "p", "c")
    assert options["hoodie.table.ordering.fields"] == "order_ts"  # 04.1 is a stub: its reference
    assert (path, session) == ("p", "the session")


def test_an_earlier_answer_of_your_own_is_used(notebook):
    notebook(e04_1='ORDERS = {"mine": 1}\nlab.check("04.1", [ORDERS, print])', e04_2=MINE)
    assert find_answer("04.2", ENDPOINTS)(None, "p", "c")[0] == {"mine": 1}


@pytest.mark.parametrize(
    "cell",
    [
        '%%time\nORDERS = {"mine": 1}\nlab.check("04.1", [ORDERS, print])',
        '%matplotlib inline\nORDERS = {"mine": 1}\n!date\nlab.check("04.1", [ORDERS, print])',
        "from collections.abc import Callable\n"
        'ORDERS: dict[str, Callable[..., None]] | dict = {"mine": 1}\n'
        'lab.check("04.1", [ORDERS, print])\nprint("done")',
    ],
)
def test_a_cell_with_magics_and_types_is_an_answer(notebook, cell):
    notebook(e04_1=cell, e04_2=MINE)
    assert find_answer("04.2", ENDPOINTS)(None, "p", "c")[0] == {"mine": 1}


def test_what_is_missing_is_said(notebook, home):
    with pytest.raises(LabError, match="no copy of lesson 04"):
        find_answer("04.2", ENDPOINTS)
    notebook()
    with pytest.raises(LabError, match=r"Exercise 04\.2 is not solved in"):
        find_answer("04.2", ENDPOINTS)
    with pytest.raises(LabError, match=r"no answer 'wrong-9'.*\n?.*right-3"):
        find_answer("04.2", ENDPOINTS, "wrong-9")
    notebook(e04_1='ORDERS = lab.x\nlab.check("04.1", [ORDERS, print])', e04_2=MINE)
    with pytest.raises(LabError, match="uses `ORDERS`, which cannot be made outside"):
        find_answer("04.2", ENDPOINTS)


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("a = 1\nb = 2\ndef f(): return a", "a = 1; def f():\n    return a"),
        ("a = 1\na = 2\ndef f(): return a", "a = 2; def f():\n    return a"),
        ("a = 1\na = a + 1\ndef f(): return a", "a = 1; a = a + 1; def f():\n    return a"),
        ("a = {}\na |= {1: 2}\na[3] = 4\na.update(b=5)\nf = a",
         "a = {}; a |= {1: 2}; a[3] = 4; a.update(b=5); f = a"),
        ("import x.y as z\nfrom p import q\nf = lambda: (z, q)",
         "import x.y as z; from p import q; f = lambda: (z, q)"),
        # A local name is not the notebook's, not even inside a nested function.
        ("rows = show()\ndef f():\n    rows = 1\n    def g(): return rows\n    return g",
         "def f():\n    rows = 1\n\n    def g():\n        return rows\n    return g"),
        ("spark = start()\nlab = go()\nlab.check('x', 1)\nf = lambda: (spark, lab)",
         "f = lambda: (spark, lab)"),
        ("show(1)\nf = [n for n in range(3)]", "f = [n for n in range(3)]"),
    ],
)  # fmt: skip
def test_only_statements_that_make_a_needed_name_are_run(code, wanted):
    assert chosen(code, "f") == wanted


def test_a_session_of_either_process_is_replaced_by_that_of_the_other():
    names = {"__name__": "__main__", "spark": Session()}
    exec("def inner(): return spark\ndef outer(): return inner(), spark", names)
    assert unpack(pack(bound=True, f=names["outer"]), 7)["f"]() == (7, 7)
    with pytest.raises(LabError, match="uses `spark` of this notebook"):
        pack(f=names["outer"])


@pytest.mark.parametrize(
    ("cell", "solution"),
    [
        ("n = 4\nlab.check('04.2', n)", "n = 4"),
        ("n = 4; lab.check('04.2', n)", "n = 4"),
        ("n = 4; lab.check('04.2', n); m = 5", "n = 4; m = 5"),
        ("é = 4; lab.check(\n    '04.2', é\n)  # mine\nm = 5", "é = 4\nm = 5"),
    ],
)
def test_a_solution_is_its_cell_without_the_check_alone(cell, solution):
    assert without_check(cell) == solution
