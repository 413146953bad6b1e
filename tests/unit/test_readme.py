"""What the README promises is there: its links, its commands, its picture."""

import re

import pytest
from typer.main import get_command

from lab_env.cli import app
from lab_env.display.architecture import DRAWING, KAFKA, S3, architecture_svg
from lab_env.settings import REPOSITORY

README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
LINKS = sorted(set(re.findall(r"\]\(([^)#:]+)\)", README)))


@pytest.mark.parametrize("target", LINKS)
def test_a_link_leads_somewhere(target):
    assert (REPOSITORY / target).exists()


def test_every_make_target_it_names_exists():
    makefile = (REPOSITORY / "Makefile").read_text()
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE))
    assert {"lab", "test", "tour", "check"} <= named
    assert all(f"\n{target}:" in makefile for target in named)


def test_every_lab_command_it_names_exists():
    known = set(get_command(app).commands)
    named = set(re.findall(r"`(?:\.venv/bin/)?lab ([a-z]+)", README))
    assert {"up", "reset", "bench", "doctor"} <= named <= known


def test_its_picture_is_the_one_that_a_lesson_draws_with_the_addresses_of_its_lab():
    assert str(DRAWING.relative_to(REPOSITORY)) in LINKS
    # One address in the place of the other: each is replaced once, and no replacement is replaced.
    drawn = architecture_svg(kafka=S3, s3=f"http://{KAFKA}")
    assert f">{S3}<" in drawn and f"MinIO · {KAFKA}<" in drawn
    assert "&lt;b&gt;:9092" in architecture_svg("<b>:9092", S3)
