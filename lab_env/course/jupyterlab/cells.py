"""Runs a notebook's cells in a kernel and stores the outputs in the notebook."""

from pathlib import Path
from typing import Any

import nbformat
from nbformat.sign import NotebookNotary

from lab_env.platform.errors import LabError

CELL_TIMEOUT_S = 900  # a service that is fetched at its first start takes minutes
SHOWN = ("stream", "display_data", "execute_result", "error")


def run_cell(client: Any, cell: nbformat.NotebookNode, timeout_s: float) -> None:
    """Run one cell and store its outputs in it; raise a LabError if it fails or takes too long."""
    cell.outputs = []

    def keep(message) -> None:
        if message["msg_type"] in SHOWN:
            cell.outputs.append(nbformat.v4.output_from_msg(message))

    first_line = cell.source.strip().partition("\n")[0]
    try:
        reply = client.execute_interactive(
            cell.source, timeout=timeout_s, allow_stdin=False, output_hook=keep
        )
    except TimeoutError:
        what = f"A cell takes longer than {timeout_s:g} s: {first_line}"
        raise LabError(what, "run: lab doctor") from None
    cell.execution_count = reply["content"]["execution_count"]
    if reply["content"]["status"] != "ok":
        error = f"{reply['content']['ename']}: {reply['content']['evalue']}"
        raise LabError(f"A cell fails: {first_line}", "run: lab doctor", error)


def write_trusted(notebook: nbformat.NotebookNode, path: Path) -> None:
    """Write a notebook and sign it; only for outputs of this lab's own cells.

    JupyterLab removes styles, drawings and scripts from the outputs of an unsigned notebook. The
    signature is stored in the user's own Jupyter folder, where JupyterLab looks for it.
    """
    NotebookNotary().sign(notebook)
    nbformat.write(notebook, path)
