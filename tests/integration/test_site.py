"""The site has the expected pages, including cell outputs, and no dead link."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from small_site import CELLS, DRAWING, course, execute, write_lesson

from lab_env.course.authoring.build import COURSE, Tree
from lab_env.course.authoring.executed import keep, shortfall, shown
from lab_env.course.publishing.site.build import build_site
from lab_env.platform.errors import LabError


class Page(HTMLParser):
    """A page's links, the files that a browser loads for it, and its anchors."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loads, self.anchors = set(), set(), set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        of = dict(attributes)
        self.anchors.add(of.get("id"))
        if tag == "a" and of.get("href"):
            self.links.add(of["href"])
        elif tag in ("link", "script", "img", "iframe"):
            self.loads |= {of[name] for name in ("href", "src") if of.get(name)}


def pages_of(site: Path) -> dict[Path, Page]:
    return {path: Page(path) for path in site.rglob("*.html")}


def dead_links(site: Path) -> list[str]:
    """Return all links and loaded files whose target does not exist in the site."""
    pages = pages_of(site)
    dead = []
    for path, page in pages.items():
        for link in page.links | page.loads:
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.scheme or link == "#":
                continue
            anchor = unquote(parts.fragment)
            arrives = target.is_file() and (
                not anchor or target.suffix != ".html" or anchor in pages[target].anchors
            )
            if not arrives:
                dead.append(f"{path.relative_to(site)}: {link}")
    return dead


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site of a small course."""
    return build_site(course(tmp_path_factory.mktemp("a course"))).index.parent


def text_of(site: Path, page: str) -> str:
    return (site / page).read_text(encoding="utf-8")


def test_it_has_a_page_for_each_lesson_and_guide_and_no_other(site):
    made = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    own = {"index.html", "search.html", "genindex.html"}
    guides = {f"{name}.html" for name in ("README", "CONTRIBUTING", "docs/README", "docs/glossary")}
    assert made - own == guides | {f"solutions/{name}.html" for name in CELLS}


def test_every_link_arrives(site):
    assert dead_links(site) == []


def test_a_dead_link_would_be_found(site, tmp_path):
    (tmp_path / "a.html").write_text("<p id='b'><a href='#b'></a><a href='#c'></a><img src='d'>")
    assert sorted(dead_links(tmp_path)) == ["a.html: #c", "a.html: d"]


def test_nothing_is_loaded_from_elsewhere(site):
    loads = {load for page in pages_of(site).values() for load in page.loads}
    assert len(loads) > 5
    assert [load for load in loads if urlsplit(load).netloc] == []


def test_an_output_is_shown_as_the_run_left_it(site):
    lesson = text_of(site, "solutions/01_one.html")
    assert DRAWING in lesson
    assert "printed" in lesson
    assert "Executed on 21 November 2026" in lesson
    assert "MinIO" in lesson and "127.0.0.1" not in lesson  # no link to a server of the lab


def test_a_lesson_that_a_text_names_is_a_link(site):
    # Once: neither in code nor in a heading.
    assert text_of(site, "solutions/01_one.html").count(">lesson 02</a>") == 1
    glossary = Page(site / "docs" / "glossary.html").links
    assert {"../solutions/01_one.html", "../solutions/02_two.html"} <= glossary
    assert ">Lesson 01</a>" not in text_of(site, "solutions/01_one.html")  # the page itself
    assert ">03</a>" not in text_of(site, "docs/glossary.html")


def test_a_link_that_leads_nowhere_is_refused_by_place_and_spares_the_site(tmp_path):
    tree = course(tmp_path)
    (tree.root / "docs" / "bad.md").write_text("# Bad\n\n[no](glossary.md#no-such-term)\n")
    tree.site.mkdir(parents=True)
    (tree.site / "earlier").touch()
    write_lesson(tree, "03_three", [new_markdown_cell("# 3"), new_markdown_cell("[no](gone.md)")])
    execute(tree, "03_three")
    with pytest.raises(LabError) as refusal:
        build_site(tree)
    assert re.search(r"docs/bad\.md:3: .*no-such-term", refusal.value.what)
    assert re.search(r"solutions/03_three\.ipynb, cell 2: .*gone", refusal.value.what)
    assert [path.name for path in tree.site.parent.iterdir() if "site" in path.name] == ["site"]
    assert (tree.site / "earlier").exists()


def test_lessons_that_were_not_executed_as_they_are_stand_in_the_refusal(tmp_path):
    tree = course(tmp_path)
    write_lesson(tree, "02_two", [new_markdown_cell("# 02 · Two?"), new_code_cell("2 + 2")])
    write_lesson(tree, "03_three", [new_markdown_cell("# 03 · Three?")])
    with pytest.raises(LabError) as refusal:
        build_site(tree)
    assert "lack 2 of 3" in refusal.value.what
    assert "solutions/02_two.ipynb was changed after it was executed" in refusal.value.what
    assert "solutions/03_three.ipynb was not executed" in refusal.value.what
    assert "make test" in refusal.value.next_step
    execute(tree, "02_two")
    assert set(shortfall(tree)) == {"solutions/03_three.ipynb"}


def test_a_partial_site_says_what_it_lacks_and_links_to_no_page_that_is_not_there(tmp_path):
    tree = course(tmp_path)
    (tree.executed / "solutions" / "02_two.ipynb").unlink()
    built = build_site(tree, partial=True)
    site = built.index.parent
    assert set(built.lacks) == {"solutions/02_two.ipynb"}
    front = text_of(site, "docs/README.html")
    assert "This site is not complete" in front
    assert "solutions/02_two.ipynb" in front
    assert not (site / "solutions" / "02_two.html").exists()
    assert dead_links(site) == []


def test_only_worked_notebooks_and_demos_are_kept(tmp_path):
    tree = course(tmp_path)
    demo, learners = tree.learner / "demos" / "a.ipynb", tree.learner / "01_one.ipynb"
    demo.parent.mkdir(parents=True)
    notebook = nbformat.read(tree.worked / "01_one.ipynb", as_version=4)
    for path in (demo, learners):
        nbformat.write(notebook, path)
        keep(notebook, path, tree)
    kept = {str(path.relative_to(tree.executed)) for path in tree.executed.rglob("*.*")}
    assert kept == {str(path.relative_to(tree.root)) for path in shown(tree)}
    assert "notebooks/demos/a.ipynb" in kept


def test_what_nbmake_executes_is_handed_over_with_its_outputs(tmp_path):
    source = write_lesson(Tree(tmp_path), "77_a", [new_code_cell("print(6 * 7)")])
    before = source.read_bytes()
    (tmp_path / "conftest.py").write_text(
        "from lab_env.course.authoring import pytest_plugin\n"
        "from lab_env.course.authoring.executed import keep\n"
        "from lab_env.course.authoring.build import Tree\n"
        f"tree = Tree(__import__('pathlib').Path({str(tmp_path)!r}))\n"
        "pytest_plugin.keep = lambda notebook, path: keep(notebook, path, tree)\n"
    )
    plugins = ["-p", "lab_env.course.authoring.pytest_plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--nbmake", *plugins, "--rootdir", tmp_path, source],
        capture_output=True, text=True, cwd=tmp_path, timeout=120, env=os.environ.copy(),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    executed = nbformat.read(Tree(tmp_path).executed / "solutions" / "77_a.ipynb", as_version=4)
    assert executed.cells[0].outputs[0].text == "42\n"
    assert source.read_bytes() == before


def test_every_link_of_the_courses_own_pages_arrives(tmp_path):
    tree = Tree()
    tree.executed = tree.root  # as committed, in place of the executed copies
    tree.site = tmp_path / "site"
    built = build_site(tree)
    assert len(built.notebooks) == len(shown(COURSE)) > 0
    assert dead_links(built.index.parent) == []
