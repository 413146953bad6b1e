"""A course of two lessons with outputs, for tests of the site."""

from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from lab_env.course.authoring.build import Tree
from lab_env.course.authoring.executed import keep

DRAWING = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 900 300' "
    "style='max-width:900px;width:100%;height:auto' role='img'>"
    "<text x='10' y='20' fill='var(--jp-content-font-color1, #010203)'>a drawn table</text></svg>"
)
TABLE = f"<table class='dataframe'><tr>{'<td>a_long_column_name</td>' * 12}</tr></table>"
SERVER = "<a href='http://127.0.0.1:9001' target='_blank'>MinIO</a>"
FILES = {
    "README.md": "# Set-up\n\n"
    "Begin: [one](notebooks/01_one.ipynb), [two](notebooks/02_two.ipynb).\n",
    "docs/README.md": "# The course\n\nFor you.\n\n## Learn\n\n[Set-up](../README.md)\n",
    "CONTRIBUTING.md": "# Contributing\n\nSee the [front page](README.md), or type --all.\n",
    "docs/glossary.md": "# Glossary\n\n### file group\n\nLessons 01 and 02 have 03 of it.\n",
}
PYTHON = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
CELLS = {
    "01_one": [
        new_markdown_cell(
            "# 01 · One?\n\nLesson 01 is here, lesson 02 is next; `lesson 02` is code."
        ),
        new_markdown_cell("Its [group](../docs/glossary.md#file-group)."),
        new_code_cell("draw()"),
        new_code_cell(
            "with lab.proof('It is drawn.'):\n    assert drawn",
            metadata={"tags": ["proof", "hide-input"]},
        ),
        new_markdown_cell("*For instructors.* Wait.", metadata={"tags": ["instructor"]}),
    ],
    "02_two": [new_markdown_cell("# 02 · Two?\n\nThe zebrafish swims."), new_code_cell("1 + 1")],
}


def course(root: Path) -> Tree:
    """Write the course into a folder, with both lessons executed."""
    tree = Tree(root)
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    for name, cells in CELLS.items():
        write_lesson(tree, name, cells)
        execute(tree, name)
    return tree


def write_lesson(tree: Tree, name: str, cells: list) -> Path:
    """Write a worked notebook without outputs."""
    path = tree.worked / f"{name}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata=PYTHON), path)
    return path


def execute(tree: Tree, name: str) -> None:
    """Store the notebook with an output in every code cell, like a test run."""
    path = tree.worked / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            html = new_output("display_data", {"text/html": DRAWING + TABLE + SERVER})
            cell.outputs = [new_output("stream", text="printed"), html]
            cell.execution_count = 1
            cell.metadata["execution"] = {"iopub.execute_input": "2026-11-21T12:00:00.000000Z"}
    keep(notebook, path, tree)
