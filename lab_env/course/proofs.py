"""Proof cells: check that the lesson's text matches the learner's run; a failure does not stop it.

Each result is reported to CI through `LAB_OUTCOMES`. With `LAB_STRICT`, a failed proof also raises.
"""

import ast
import linecache
from collections.abc import Generator
from contextlib import contextmanager, suppress
from textwrap import shorten
from types import TracebackType

from lab_env.course.checking import mistake
from lab_env.course.outcomes import Card, report
from lab_env.platform.settings import settings

WHY = (
    "Did a cell run twice? Some cells change the data each time. Or you changed or skipped a cell,"
    " or another version is installed: the text describes the course's own run."
    "\n\nYou can go on. To get the described result, "
)
ANEW = "type `lab goto {section}` in a terminal: it makes everything above that section anew."
RESTART = "restart the kernel and run all cells up to this one."


@contextmanager
def proof(claim: str, lesson: str = "") -> Generator[None]:
    """Run the body, which asserts a claim: print a line if it holds, otherwise show a card.

    With `lesson`, a number such as `05`, the card names the section to enter again.
    """
    try:
        yield
    except Exception as error:
        difference = _difference(error)
        report(proof=claim, outcome="differs", text=difference)
        if settings().strict:
            error.add_note(f"{claim} {difference}")
            raise
        from IPython.display import display  # only notebooks show it

        text = f"{difference}\n\n{WHY}{_next_step(lesson, claim)}"
        display(Card(f"Your run differs from the text: {claim}", text, "warn"))
    else:
        report(proof=claim, outcome="holds")
        print(f"✓ {claim}")


def _next_step(lesson: str, claim: str) -> str:
    from lab_env.course.sections import section_of_proof  # reads notebooks: only for a card

    section = section_of_proof(lesson, claim) if lesson else None
    return ANEW.format(section=section.name) if section else RESTART


def _difference(error: Exception) -> str:
    """Describe a failed assertion with the values of both sides, or any other error."""
    # The first frame is `proof`, the next one the cell.
    trace = error.__traceback__ and error.__traceback__.tb_next
    test = trace and _failed_test(trace)
    if trace is None or test is None or not isinstance(error, AssertionError):
        return mistake(error)
    cell = trace.tb_frame

    def value_of(node: ast.expr):
        code = compile(ast.Expression(node), "<proof>", "eval")
        return eval(code, cell.f_globals, cell.f_locals)

    values = []
    with suppress(Exception):  # asking again may fail; the assertion itself is shown anyway
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            test = next(part for part in test.values if not value_of(part))
        sides = [test.left, *test.comparators] if isinstance(test, ast.Compare) else []
        for side in sides:
            spelt, value = ast.unparse(side), shorten(repr(value_of(side)), 200)
            if spelt != value:  # a literal says its value itself
                values.append(f"`{spelt}` is `{value}`")
    return f"Expected `{ast.unparse(test)}`, but {', '.join(values) or 'that does not hold'}."


def _failed_test(trace: TracebackType) -> ast.expr | None:
    source = "".join(linecache.getlines(trace.tb_frame.f_code.co_filename))
    line = trace.tb_lineno
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or line):
            return node.test
    return None
