"""In a cloud workspace, the lab's pages have other host names, and its links use these names.

Needs Chromium on PATH. The workspace is a proxy on this machine, not a real one.
"""

import contextlib
import re
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import nbformat
import pytest
from chromium import SCREENSHOTS, chromium, needs_chromium
from nbformat.v4 import new_code_cell, new_notebook
from own_lab import allowed, free_ports
from reverse_proxy import DOMAIN, ReverseProxy
from test_jupyterlab import KERNEL, running_jupyterlab, wait_for

from lab_env.platform import store
from lab_env.platform.services import SERVICES
from lab_env.platform.settings import settings

pytestmark = [pytest.mark.services, needs_chromium]
CELLS = [
    "from lab_env import Lab\nlab = Lab.start('00')\nspark = lab.spark\nlab",
    "load = lab.load(rate=20, users=2, seconds=120, web_port=8089, show=False).start()\nload",
]


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    with ReverseProxy(*free_ports(1)).running(tmp_path_factory.mktemp("tls")) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def notebook(services, proxy, tmp_path_factory):
    path = settings().work / "pages.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [new_code_cell(cell) for cell in CELLS]
    nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": KERNEL}), path)
    workspaces = tmp_path_factory.mktemp("workspaces")
    with running_jupyterlab(workspaces, LAB_PUBLIC_URL=proxy.url) as address:
        port = re.match(rf"https://(\d+)\.{DOMAIN}:{proxy.port}/lab/tree/work/00_", address)[1]
        wait_for(f"http://127.0.0.1:{port}/login")
        yield re.sub(r"00_\w+\.ipynb", path.name, address)


@pytest.fixture(scope="module")
def browser():
    """A browser that resolves the proxy's names and accepts its certificate."""
    names = f"--host-resolver-rules=MAP *.{DOMAIN} 127.0.0.1"
    with chromium(names) as browser:
        context = new_context(browser)
        yield context
        for number, page in enumerate(context.pages):
            page.screenshot(path=SCREENSHOTS / f"proxy-{number}.png")


def new_context(browser):
    context = browser.new_context(ignore_https_errors=True)
    context.set_default_timeout(allowed(60_000))
    return context


@pytest.fixture(scope="module")
def page(browser, notebook):
    page = browser.new_page()
    page.goto(notebook)
    page.get_by_text("| Idle").wait_for()
    page.locator(".jp-CodeCell").first.click()
    page.keyboard.press("Control+Enter")
    link(page, "Spark").wait_for()
    return page


def link(page, row: str):
    """Return the link in a row of the lab's table.

    The row's name must match exactly, because other names contain it, such as "Spark cluster".
    """
    name = page.get_by_role("cell", name=row, exact=True)
    return page.locator(".jp-OutputArea-output tr").filter(has=name).get_by_role("link").first


def opened(link):
    """Click a link in the notebook as a learner does; return the page that opens."""
    with link.page.context.expect_page() as popup:
        link.click()
    return popup.value


def test_jupyterlab_runs_a_cell_and_its_links_lead_through_the_proxy(page, proxy, services):
    links = page.locator(".jp-OutputArea-output").get_by_role("link").all()
    # JupyterLab makes a link of the store's address, too, which is for programs.
    found = [at for link in links if services.s3_endpoint not in (at := link.get_attribute("href"))]
    assert len(found) >= 2  # the MinIO console, Spark, and whatever else runs
    assert all(re.match(rf"https://\d+\.{DOMAIN}:{proxy.port}(/|$)", link) for link in found)


def sign_in(console, services):
    console.locator("#accessKey").fill(services.s3_access_key)
    console.locator("#secretKey").fill(services.s3_secret_key)
    console.keyboard.press("Enter")


def test_the_minio_console_lists_the_buckets(page, services):
    console = opened(link(page, "MinIO console"))
    sign_in(console, services)
    console.get_by_text(services.bucket).first.wait_for()
    assert DOMAIN in console.url


@pytest.mark.parametrize("rewritten", [(), ("Host", "Origin")], ids=["nothing", "both"])
def test_the_minio_console_lists_objects_where_host_and_origin_agree(
    browser, services, tmp_path, rewritten
):
    """The console's websocket refuses an Origin that does not match its Host."""
    objects, key = store.client(services), "seen-in-the-console.json"
    objects.put_object(Bucket=services.bucket, Key=key, Body=b"{}")
    port = SERVICES["minio"].port("console")
    with (
        ReverseProxy(*free_ports(1), rewritten).running(tmp_path) as proxy,
        contextlib.closing(new_context(browser.browser)) as context,
    ):
        console = context.new_page()
        console.goto(proxy.url.format(port=port))
        sign_in(console, services)
        console.get_by_text(key).first.wait_for()  # it opens the only bucket
    objects.delete_object(Bucket=services.bucket, Key=key)


def test_the_spark_page_leads_on(page):
    spark = opened(link(page, "Spark"))
    spark.get_by_role("link", name="Environment").click()
    spark.get_by_text("spark.app.name").first.wait_for()
    assert DOMAIN in spark.url


def test_locust_shows_the_load(page):
    page.locator(".jp-CodeCell").nth(1).click()
    page.keyboard.press("Control+Enter")
    card = page.locator(".jp-OutputArea-output", has_text="load on")
    locust = opened(card.get_by_role("link"))
    locust.get_by_text("KAFKA").first.wait_for()


def test_jupyterlab_answers_its_own_name_and_no_other(notebook, proxy):
    """With a proxy that keeps the Host header, a request with another Host is refused."""
    port = re.match(r"https://(\d+)", notebook)[1]

    def status(host: str) -> int:
        request = Request(f"http://127.0.0.1:{port}/login", headers={"Host": host})
        with contextlib.suppress(HTTPError), urlopen(request, timeout=10) as answer:
            return answer.status
        return 403

    assert status(f"{port}.{DOMAIN}:{proxy.port}") == 200
    assert status("elsewhere.test") == 403
