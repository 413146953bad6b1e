"""A lesson's exercises alone: for learners who know the subject and want to prove it."""

import nbformat
from nbformat.v4 import new_markdown_cell

from lab_env.course import copies
from lab_env.course.sections import EXERCISE, is_proof, notebook_of
from lab_env.platform.settings import settings

FOLDED = {"jupyter": {"source_hidden": True, "outputs_hidden": True}, "tags": ["given"]}
INTRODUCTION = """# {title}: the exercises alone

Run the cells from the top. Folded cells are given: they make what the exercises need, with the
reference answers of the exercises above. The whole lesson: `{notebook}`."""


def write(lesson: str) -> str:
    """Write `testout_NN.ipynb` next to the learner's copies, anew each time; return its path."""
    notebook = exercises_alone(notebook_of(lesson), copies.name_of(lesson))
    target = settings().work / f"testout_{lesson}.ipynb"
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)
    return str(target)


def exercises_alone(notebook: nbformat.NotebookNode, name: str) -> nbformat.NotebookNode:
    """Keep the tasks and their cells; fold every other code cell, and drop text and proofs.

    Args:
        notebook: the lesson's learner notebook as shipped; it is changed.
        name: its file name.
    """
    title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
    cells = [new_markdown_cell(INTRODUCTION.format(title=title, notebook=name))]
    task = False
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            if found := EXERCISE.search(cell.source):
                cell.source, task = cell.source[found.start() :], True
                cells.append(cell)
        elif not is_proof(cell):
            if not task:
                cell.metadata.update(FOLDED)
            task = task and "lab.check(" not in cell.source
            cells.append(cell)
    notebook.cells = cells
    notebook.metadata.update(copies.KERNEL)
    return notebook
