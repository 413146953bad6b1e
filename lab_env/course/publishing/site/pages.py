"""A Sphinx extension that prepares the repository's pages for the site.

Notebooks are shown with their outputs. `docs/README.md` becomes the front page, with a search field
and a list of all lessons. "Lesson 04" in any text becomes a link to that lesson.
"""

import re
from datetime import datetime
from pathlib import Path

import nbformat
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.osutil import relative_uri

TITLES = {"README": "Overview and set-up"}  # its own title is that of the front page
LESSONS, DEMOS = "solutions/", "notebooks/demos/"
_LEARNERS = re.compile(r"(\]\((?:\.\./)*)notebooks/(\d\d_\w+\.ipynb)")
_TO_NOTEBOOK = re.compile(r"\[([^\]]+)\]\((?:\.\./)*(\w[\w/-]*\.ipynb)(?:#[^)]*)?\)")
# The README's pictures have their own colours, and stay images.
_PICTURE = re.compile(r"!\[[^\]]*\]\((?!(?:docs/)?images/)([^)\s]+\.svg)\)")
_MENTION = re.compile(r"\b[Ll]essons? \d\d(?:(?:,| and|, and| to| or) \d\d)*\b")
_NUMBER = re.compile(r"(?:\b[Ll]essons? )?(\d\d)\b")
_LOCAL_LINK = re.compile(
    r"<a\b[^>]*\bhref=(['\"]?)https?://(?:127\.0\.0\.1|localhost)\b[^>]*>(.*?)</a>", re.DOTALL
)
_FORM = Path(__file__).with_name("search.html").read_text(encoding="utf-8")
_SEARCH = f"```{{raw}} html\n{_FORM}```"
_NO_LINKS_IN = (nodes.reference, nodes.literal, nodes.literal_block, nodes.title, nodes.raw)


def setup(app: Sphinx) -> dict:
    """Register the extension's handlers; called by Sphinx."""
    app.add_config_value("executed", "", "env", str)
    app.add_config_value("lacks", {}, "env", dict)
    app.connect("source-read", _read)
    app.add_post_transform(LessonLinks)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _read(app: Sphinx, page: str, content: list[str]) -> None:
    """Replace a page's source with the site's version; a handler of Sphinx's `source-read`."""
    path = Path(app.env.doc2path(page))
    if path.suffix == ".ipynb":
        executed = Path(app.config.executed) / f"{page}.ipynb"
        notebook = nbformat.read(executed, as_version=4)
        content[0] = nbformat.writes(for_reading(notebook, app.config.lacks))
        return
    text = linked(content[0], app.config.lacks)
    if page == app.config.root_doc:
        title, _, rest = text.partition("\n")
        lists = contents(app.env.found_docs - {page})
        text = "\n\n".join([title, _note(app.config.lacks), _SEARCH, rest, lists])
    # An inline drawing takes the page's colours; an image could not.
    content[0] = _PICTURE.sub(lambda found: (path.parent / found[1]).read_text("utf-8"), text)


def for_reading(notebook: nbformat.NotebookNode, lacks: dict[str, str]) -> nbformat.NotebookNode:
    """Add the execution date, mark the instructor's notes, and remove links to local servers."""
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = linked(cell.source, lacks)
            if "instructor" in cell.metadata.get("tags", []):
                cell.source = f"::::{{container}} instructor\n{cell.source}\n::::"
        for output in cell.get("outputs", []):
            html = output.get("data", {}).get("text/html")
            if html:
                output.data["text/html"] = _LOCAL_LINK.sub(r"\2", html)
    if notebook.cells and (day := _executed_on(notebook)):
        title, _, rest = notebook.cells[0].source.partition("\n")
        note = f"Executed on {day}. Times and ids differ in every run."
        container = f"```{{container}} executed\n{note}\n```"
        notebook.cells[0].source = f"{title}\n\n{container}\n{rest}"
    return notebook


def linked(text: str, lacks: dict[str, str]) -> str:
    """Redirect links to learners' notebooks to the worked ones, and unlink missing pages."""
    text = _LEARNERS.sub(rf"\1{LESSONS}\2", text)
    return _TO_NOTEBOOK.sub(lambda link: link[1] if link[2] in lacks else link[0], text)


def contents(pages: set[str]) -> str:
    """Return the contents in MyST Markdown: all pages for the sidebar, only lessons on the page."""
    lessons = sorted(page for page in pages if page.startswith(LESSONS))
    demos = sorted(page for page in pages if page.startswith(DEMOS))
    guides = sorted(page for page in pages - {*lessons, *demos} if page.startswith("docs/"))
    more = sorted(pages - {*lessons, *demos, *guides})
    lists = {"Lessons": lessons, "Demos": demos, "Guides": guides + more}
    shown = [_toctree(title, found) for title, found in lists.items() if found]
    return "\n\n".join(["## All lessons, as executed", *shown])


def _toctree(caption: str, pages: list[str]) -> str:
    option = ":maxdepth: 1" if caption == "Lessons" else ":hidden:"
    entries = [f"{TITLES[page]} </{page}>" if page in TITLES else f"/{page}" for page in pages]
    return "\n".join(["```{toctree}", f":caption: {caption}", option, "", *entries, "```"])


def _note(lacks: dict[str, str]) -> str:
    if not lacks:
        return ""
    return "\n".join(
        [
            "```{admonition} This site is not complete",
            ":class: warning",
            "`make test` executes every notebook, `lab author run NN` one lesson. Then run"
            " `make site`.",
            "",
            *(f"- `{name}` {why}" for name, why in lacks.items()),
            "```",
        ]
    )


def _executed_on(notebook: nbformat.NotebookNode) -> str:
    """Return the date of nbmake's run, in words; empty if nbmake recorded none."""
    for cell in notebook.cells:
        at = cell.metadata.get("execution", {}).get("iopub.execute_input")
        if at:
            day = datetime.fromisoformat(at)
            return f"{day.day} {day:%B %Y}"
    return ""


class LessonLinks(SphinxPostTransform):
    """Turns "lesson 04" in a text into a link if the site has that lesson."""

    default_priority = 5
    formats = ("html",)

    def run(self, **_) -> None:
        here = self.env.current_document.docname
        pages = {
            page.removeprefix(LESSONS)[:2]: page
            for page in self.env.found_docs
            if page.startswith(LESSONS) and page != here
        }
        for text in list(self.document.findall(nodes.Text)):
            if _MENTION.search(text) and not _is_inside(text, _NO_LINKS_IN):
                text.parent.replace(text, self._linked(text.astext(), here, pages))

    def _linked(self, text: str, here: str, pages: dict[str, str]) -> list[nodes.Node]:
        parts, done = [], 0
        for mention in _MENTION.finditer(text):
            for number in _NUMBER.finditer(text, mention.start(), mention.end()):
                if page := pages.get(number[1]):
                    parts += [
                        nodes.Text(text[done : number.start()]),
                        nodes.reference(
                            "",
                            nodes.Text(number[0]),
                            internal=True,
                            refuri=relative_uri(f"{here}.html", f"{page}.html"),
                        ),
                    ]
                    done = number.end()
        return [*parts, nodes.Text(text[done:])]


def _is_inside(node: nodes.Node, kinds: tuple[type[nodes.Node], ...]) -> bool:
    return node.parent is not None and (
        isinstance(node.parent, kinds) or _is_inside(node.parent, kinds)
    )
