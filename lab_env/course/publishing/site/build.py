"""Builds the site from the repository's pages and the notebooks that the tests executed."""

import io
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from lab_env.course.authoring.build import COURSE, Tree
from lab_env.course.authoring.executed import shortfall, shown
from lab_env.course.authoring.leaks import secrets_in
from lab_env.platform.errors import LabError

SETTINGS = Path(__file__).parent
GUIDES = ("README.md", "CONTRIBUTING.md", "docs/*.md", "data/README.md")
TITLE = "The streaming lakehouse, hands on"
FRONT_PAGE = "docs/README.html"
_CELL = re.compile(r"\.ipynb:(\d+)\d{4}:")  # makes MyST-NB name the lines of a cell
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Site:
    """A built site; `lacks` maps each missing notebook's path to the reason."""

    index: Path
    notebooks: tuple[str, ...]
    lacks: dict[str, str]


def build_site(tree: Tree = COURSE, partial: bool = False) -> Site:
    """Rebuild the site; if that fails, the previous site is left unchanged.

    Raises a LabError for a broken link, a secret or, unless `partial` is set, a notebook that
    was not executed.
    """
    lacks = shortfall(tree)
    names = [str(path.relative_to(tree.root)) for path in shown(tree)]
    executed = tuple(name for name in names if name not in lacks)
    if not executed or (lacks and not partial):
        raise LabError(
            f"The site would lack {len(lacks)} of {len(names)} notebooks:\n"
            + "\n".join(f"  {name} {why}" for name, why in lacks.items()),
            "run: make test"
            "   (one lesson: lab author run NN; a site without them: lab site --partial)",
        )
    new = tree.site.with_name("site.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        mistakes = _sphinx(tree, new, [*GUIDES, *executed], lacks)
        if mistakes:
            raise LabError("The site has mistakes:\n" + "\n".join(mistakes), "fix these places")
        _refuse_secrets(new)
        _redirect_to_the_front_page(new)
        shutil.rmtree(tree.site, ignore_errors=True)
        new.rename(tree.site)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return Site(tree.site / "index.html", executed, lacks)


def _sphinx(tree: Tree, target: Path, pages: list[str], lacks: dict[str, str]) -> list[str]:
    """Build the pages with Sphinx; return Sphinx's warnings."""
    # Takes a second to import.
    from sphinx.application import Sphinx
    from sphinx.util.docutils import docutils_namespace, patch_docutils

    warnings = io.StringIO()
    doctrees = target / ".doctrees"
    # Sphinx registers with docutils for the whole process; these undo it, so that it can run twice.
    with patch_docutils(SETTINGS), docutils_namespace():
        app = Sphinx(
            srcdir=tree.root,
            confdir=SETTINGS,
            outdir=target,
            doctreedir=doctrees,
            buildername="html",
            confoverrides={
                "include_patterns": pages,
                "exclude_patterns": _folders_without(pages, tree),
                "executed": str(tree.executed),
                "lacks": lacks,
            },
            status=None,
            warning=warnings,
            freshenv=True,
        )
        app.build()
    shutil.rmtree(doctrees)
    text = _COLOUR.sub("", warnings.getvalue()).replace(f"{tree.root}/", "")
    return _CELL.sub(r".ipynb, cell \1:", text).splitlines()


def _folders_without(pages: list[str], tree: Tree) -> list[str]:
    """Return the top-level folders without a page, such as `.venv`, for Sphinx to skip."""
    used = {Path(page).parts[0] for page in pages}
    return [path.name for path in tree.root.iterdir() if path.is_dir() and path.name not in used]


def _refuse_secrets(site: Path) -> None:
    files = sorted(path for path in site.rglob("*") if path.is_file())
    shown_by = {path.relative_to(site): secrets_in(path.read_bytes()) for path in files}
    found = [f"  {path}: {', '.join(names)}" for path, names in shown_by.items() if names]
    if found:
        raise LabError(
            "The site would show secrets of the lab:\n" + "\n".join(found),
            "remove them from these pages, then run the notebooks again: make test",
        )


def _redirect_to_the_front_page(site: Path) -> None:
    link = f'<a href="{FRONT_PAGE}">{TITLE}</a>'
    refresh = f'<meta http-equiv="refresh" content="0; url={FRONT_PAGE}">'
    page = f'<!doctype html><html lang="en"><title>{TITLE}</title>{refresh}{link}</html>\n'
    (site / "index.html").write_text(page, encoding="utf-8")
