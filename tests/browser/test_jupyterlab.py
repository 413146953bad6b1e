"""JupyterLab in a browser, started the way `make lab` starts it; lesson 00 runs in both themes.

Needs Chromium on PATH. Screenshots are saved in `.lab/screenshots`.
"""

import contextlib
import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from chromium import SCREENSHOTS, chromium, contrast, needs_chromium
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from own_lab import allowed, wait_until

from lab_env.course.copies import name_of
from lab_env.course.jupyterlab.cells import write_trusted
from lab_env.course.publishing.recording import recorded_table
from lab_env.course.sections import section
from lab_env.platform.processes.environment import clean_environment
from lab_env.platform.processes.tree import kill_processes, process_tree, wait_until_ended
from lab_env.platform.settings import REPOSITORY, settings
from lab_env.tables.xray.player import player

pytestmark = [pytest.mark.services, needs_chromium]

# A right answer and a wrong one; the third exercise stays open.
ANSWERS = {
    "00.2": 'return spark.read.format("hudi").option("as.of.instant", instant).load(path)',
    "00.3": 'return rows.groupBy("status").agg(F.count("*").alias("revenue"))',
}

KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


@pytest.fixture(scope="module")
def jupyterlab(services, tmp_path_factory):
    with running_jupyterlab(tmp_path_factory.mktemp("workspaces")) as address:
        wait_for(address)
        yield address


def wait_for(address: str) -> None:
    """Wait until a page answers."""

    def answers() -> bool:
        with contextlib.suppress(OSError), urlopen(address, timeout=10):
            return True
        return False

    wait_until(answers)


@contextlib.contextmanager
def running_jupyterlab(workspaces: Path, **variables: str) -> Iterator[str]:
    """Start JupyterLab with `lab jupyter`; yield the address that it prints.

    With an empty workspaces folder, JupyterLab opens no tabs of earlier sessions.
    """
    process = subprocess.Popen(
        [REPOSITORY / ".venv" / "bin" / "lab", "jupyter", "--no-browser"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=clean_environment() | {"JUPYTERLAB_WORKSPACES_DIR": str(workspaces)} | variables,
    )
    try:
        for line in process.stdout:
            if address := re.search(r"https?://\S+token=\S+", line):
                break
        else:
            pytest.fail("JupyterLab did not say its address")
        yield address[0]
    finally:
        family = process_tree(process.pid)[1:]
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(allowed(30))
        process.kill()
        kill_processes(wait_until_ended(family, 20))


def the_copy() -> Path:
    return next(settings().work.glob("00_*.ipynb"))


@pytest.fixture(scope="module")
def page(jupyterlab):
    """Lesson 00 with one right and one wrong answer, open in JupyterLab."""
    copy = the_copy()
    notebook = json.loads(copy.read_text())
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        for exercise, answer in ANSWERS.items():
            if f'lab.check("{exercise}"' in source:
                cell["source"] = source.replace("...  # YOUR CODE", answer)
    copy.write_text(json.dumps(notebook))
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        page.goto(jupyterlab)
        page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=allowed(60_000))
        page.set_default_timeout(allowed(30_000))
        yield page
        page.screenshot(path=SCREENSHOTS / "last.png")


def menu(page, *path: str) -> None:
    page.get_by_role("menuitem", name=path[0], exact=True).click()
    for entry in path[1:]:
        page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{entry}$")).last.click()


def shown(page) -> str:
    """Return the text of all outputs that the page currently holds."""
    return "\n".join(page.locator(".jp-OutputArea-output").all_text_contents())


def at_rest(page) -> bool:
    """Return True if the kernel is idle and no cell is waiting to run.

    An idle kernel alone is not enough, because it is also idle for a moment between two cells.
    """
    waiting = page.locator(".jp-InputPrompt", has_text="[*]")
    return page.get_by_text("| Idle").count() > 0 and waiting.count() == 0


@pytest.fixture(scope="module")
def run(page):
    """Run the lesson from the menu; return its code cells, and whether the load showed progress."""
    page.get_by_text("| Idle").wait_for(timeout=allowed(60_000))
    menu(page, "Run", "Run All Cells")
    page.get_by_text("| Busy").wait_for(timeout=allowed(30_000))
    live, deadline = False, time.monotonic() + allowed(240)
    while not at_rest(page):
        assert time.monotonic() < deadline, "the lesson did not come to its end"
        live = live or "load on lesson-00.orders runs" in shown(page)
        page.wait_for_timeout(500)
    menu(page, "File", "Save Notebook")
    return saved_cells(page), live


def saved_cells(page, seconds: float = 30) -> list[dict]:
    """Wait until the saved notebook shows that all code cells have run; return these cells."""
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(json.JSONDecodeError):  # it is being written
            cells = json.loads(the_copy().read_text())["cells"]
            done = [cell for cell in cells if cell["cell_type"] == "code"]
            if all(cell["execution_count"] for cell in done):
                return done
        assert time.monotonic() < deadline, "the notebook was not saved with all its cells run"
        page.wait_for_timeout(200)


def outputs(run) -> str:
    done, _ = run
    return json.dumps([cell["outputs"] for cell in done])


def test_a_heading_in_the_address_is_scrolled_to(jupyterlab, page):
    entered = section("04.2")
    tab = page.context.browser.new_page(viewport={"width": 1366, "height": 768})
    copy = name_of(entered.lesson)
    tab.goto(jupyterlab.replace(the_copy().name, copy) + entered.fragment)
    heading = tab.locator("h3", has_text=entered.title)
    visible = "e => { const top = e.getBoundingClientRect().top; return 0 < top && top < 700; }"
    heading.wait_for(timeout=allowed(60_000))
    wait_until(lambda: heading.evaluate(visible), 30)
    # A copy names its kernel as JupyterLab would: nothing to save, and its name is not cut.
    tab.get_by_text("| Idle").wait_for(timeout=allowed(60_000))
    assert tab.locator(".jp-mod-dirty").count() == 0
    name = tab.locator(".jp-DirListing-itemText", has_text=copy).first
    assert name.evaluate("e => e.scrollWidth <= e.clientWidth")
    tab.screenshot(path=SCREENSHOTS / "goto.png")
    tab.close()


def test_every_cell_runs_without_an_error(run):
    assert '"output_type": "error"' not in outputs(run)


def test_a_right_and_a_wrong_answer_get_their_cards(run):
    assert "Exercise 00.1: not attempted" in outputs(run)
    assert "Exercise 00.2: passed" in outputs(run)
    assert "Exercise 00.3: not yet" in outputs(run)


def test_the_load_shows_live_numbers_while_it_runs(run):
    _, live = run
    assert live


def test_its_links_answer(run):
    links = set(re.findall(r"href='(http://[^']+)'", outputs(run)))
    assert links
    for link in links:
        with urlopen(link, timeout=10) as answer:
            assert answer.status == 200


@pytest.mark.parametrize("theme", ["JupyterLab Light", "JupyterLab Dark"])
def test_it_reads_in_both_themes(page, run, theme):
    menu(page, "Settings", "Theme", theme)
    page.wait_for_selector(f"body[data-jp-theme-name='{theme}']", state="attached")
    drawing = page.locator(".jp-OutputArea-output svg").first
    drawing.scroll_into_view_if_needed()
    page.screenshot(path=SCREENSHOTS / f"{theme.split()[1].lower()}-drawing.png")
    card = page.get_by_text("Exercise 00.2: passed").first
    card.scroll_into_view_if_needed()
    page.screenshot(path=SCREENSHOTS / f"{theme.split()[1].lower()}-cards.png")
    colours = card.evaluate(
        "e => [getComputedStyle(e).color, getComputedStyle(e.closest('div')).backgroundColor]"
    )
    assert contrast(*colours) > 4.5


def test_arrow_keys_step_a_player_and_leave_the_selected_cell(page, jupyterlab):
    # Its script and styles work because the notebook is signed, as `lab goto` writes it.
    html = player(recorded_table("after"))._repr_html_()
    output = new_output("display_data", {"text/html": html})
    above, below = new_markdown_cell("above"), new_markdown_cell("below")
    cells = [above, new_code_cell(outputs=[output]), below]
    copy = settings().work / "player.ipynb"
    write_trusted(new_notebook(cells=cells, metadata={"kernelspec": KERNEL}), copy)
    tab = page.context.browser.new_page()
    tab.goto(jupyterlab.replace(the_copy().name, copy.name))
    step = tab.locator(".xray-player .step:not([hidden])")
    tab.get_by_role("button", name="Step back").click(timeout=allowed(60_000))
    assert step.inner_text().startswith("Step 1 of 2")
    for key, number in {"ArrowRight": 2, "ArrowLeft": 1, "End": 2}.items():
        tab.keyboard.press(key)
        assert step.inner_text().startswith(f"Step {number} of 2")
    assert tab.locator(".jp-CodeCell.jp-mod-active").count() == 1
    assert step.locator(".grid").evaluate("e => getComputedStyle(e).display") == "grid"
    tab.close()
