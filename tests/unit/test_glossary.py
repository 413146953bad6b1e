"""Every link to the glossary has a target."""

import re

import pytest

from lab_env.course.source import sources
from lab_env.platform.settings import REPOSITORY

GLOSSARY = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")
TERMS = re.findall(r"^### (.+)$", GLOSSARY, re.MULTILINE)
LINK = re.compile(r"\(\.\./docs/glossary\.md#([^)]*)\)")


def anchor(term: str) -> str:
    """Return the anchor of a heading, as GitHub and JupyterLab generate it."""
    return re.sub(r"[^\w\- ]", "", term.lower()).replace(" ", "-")


ANCHORS = {anchor(term) for term in TERMS}


@pytest.mark.parametrize("source", sources(), ids=lambda path: path.stem)
def test_every_link_to_the_glossary_arrives(source):
    links = LINK.findall(source.read_text(encoding="utf-8"))
    assert links, "a lesson explains its terms"
    assert set(links) <= ANCHORS
