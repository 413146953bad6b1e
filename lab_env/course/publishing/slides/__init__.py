"""Makes a demo's slides with Jupyter's own export (nbconvert): one HTML file for offline use.

By default nbconvert's slides load reveal.js, jQuery, RequireJS, MathJax and Mermaid from the web.
Our template embeds reveal.js and its notes plugin, and omits the others, which are not needed.
"""

import subprocess
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbconvert import SlidesExporter

from lab_env.platform.errors import LabError

TEMPLATES = Path(__file__).parent


def make_slides(notebook: Path, reveal: Path, target: Path) -> None:
    """Run a notebook and export it as slides; the key S opens the speaker's notes."""
    slides = nbformat.read(notebook, as_version=4)
    client = NotebookClient(
        slides,
        timeout=600,
        kernel_name="python3",
        resources={"metadata": {"path": str(notebook.parent)}},
    )
    try:
        # Hide the kernel's own warnings.
        client.execute(stderr=subprocess.DEVNULL)
    except CellExecutionError as error:
        raise LabError(
            f"A cell of {notebook.name} fails.",
            "run: lab doctor, or run the notebook in JupyterLab.",
            str(error)[-2000:],
        ) from None
    exporter = SlidesExporter(
        template_name="course",
        extra_template_basedirs=[str(TEMPLATES)],
        extra_template_paths=[str(reveal)],
    )
    html, _ = exporter.from_notebook_node(slides, {"metadata": {"name": notebook.stem}})
    target.write_text(html, encoding="utf-8")
