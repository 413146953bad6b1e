"""A lab room with twenty seats: one kernel, one process that is killed, eighteen seat clients.

It needs neither services nor the internet. At the end the room is killed, which must not affect a
lesson's check.
"""

import re
import subprocess
import sys
from html import unescape
from urllib.request import ProxyHandler, build_opener

import pytest
from instance import Instance
from jupyter_client.manager import start_new_kernel
from own_lab import lab_environment, wait_until
from two_networks import two_networks

from lab_env.course.room.report import SILENT_AFTER_S
from lab_env.course.room.seat import Membership, Seat

DIRECT = build_opener(ProxyHandler({}))
SEATS = 20
# A lesson as a learner has it open, without the services, which exercise 02.4 does not need.
OPEN_LESSON = """
import time
from lab_env.course.room.seat import SEAT
from lab_env.lab.handle import Lab
from lab_env.platform.settings import Endpoints

lab = Lab("02", Endpoints("", "", "", "", "", ""))
def check(answer):
    print(lab.exercises.check("02.4", lambda events, size, readers: answer).kind)
def wait_until_lost():
    while not SEAT._lost:
        time.sleep(0.05)
"""
# A seat as a process of its own; it lives until it is killed.
SEAT_PROCESS = """
import sys, time
from lab_env.course.room.seat import Membership, Seat
member = Membership(address=sys.argv[1], code=sys.argv[2], seat="f" * 16, name="the killed one")
Seat(lambda: member).checked("05.1", "not yet", 2)
time.sleep(600)
"""
FETCH = """
import sys
from urllib.request import ProxyHandler, build_opener
print(build_opener(ProxyHandler({})).open(sys.argv[1], timeout=5).read().decode())
"""


class Kernel:
    def __init__(self, environment: dict[str, str]):
        self.manager, self.client = start_new_kernel(env=environment)

    def run(self, code: str) -> str:
        said = []

        def keep(message: dict) -> None:
            said.append(message["content"].get("text", ""))

        reply = self.client.execute_interactive(code, output_hook=keep, timeout=60)
        assert reply["content"]["status"] == "ok", reply["content"]
        return "".join(said)

    def stop(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Page:
    """The instructor's page, requested the way a browser does."""

    def __init__(self, url: str):
        self.url = url

    def rows(self) -> dict[str, list[str]]:
        """Return the cells of each seat's row, by the seat's label."""
        with DIRECT.open(self.url, timeout=5) as answer:
            html = answer.read().decode()
        rows = re.findall(r"<tr class=.*?</tr>", html, re.DOTALL)
        cells = (re.findall(r"<td.*?>(.*?)</td>", row, re.DOTALL) for row in rows)
        texts = ([unescape(re.sub(r"<.*?>", "", cell)) for cell in row] for row in cells)
        return {row[0]: row[1:] for row in texts}

    def silent(self) -> set[str]:
        return {label for label, row in self.rows().items() if row[-1].startswith("silent")}


@pytest.fixture
def ended():
    """List to which a test adds clean-up functions; they are called after it, last one first."""
    endings = []
    yield endings
    for end in reversed(endings):
        end()


def test_a_seat_joins_from_another_machine_in_a_room_without_internet(tmp_path):
    with two_networks() as (teachers, learners):
        lab = [sys.executable, "-I", "-m", "lab_env.cli"]
        here = Instance(tmp_path / "i", lab_environment(tmp_path / "i"), teachers.command(*lab))
        there = Instance(tmp_path / "l", lab_environment(tmp_path / "l"), learners.command(*lab))
        server = here.begin("room", "--bind", "0.0.0.0")
        try:
            lines = [server.stdout.readline() for _ in range(3)]
            assert "nothing is encrypted" in lines[0]
            url, typed = lines[1].split()[-1], lines[2].partition("lab room ")[2].split()
            assert url.startswith(f"http://{teachers.address}:")
            done = there.lab("room", *typed, "--name", "Grace")
            assert done.returncode == 0, done.stdout + done.stderr
            fetch = (sys.executable, "-I", "-c", FETCH, url)
            assert "<td>Grace</td>" in teachers.run(*fetch)
            assert there.lab("room", "leave").returncode == 0
            assert "Grace" not in teachers.run(*fetch)
        finally:
            server.kill()
            server.wait()


@pytest.mark.proof("seats")
def test_twenty_seats_of_which_one_is_killed_and_then_the_room(tmp_path, ended):
    instructor = Instance(tmp_path / "i", lab_environment(tmp_path / "i"))
    server = instructor.begin("room")
    ended += [server.wait, server.kill]
    page = Page(re.search(r"http://\S+", server.stdout.readline())[0])
    address, code = server.stdout.readline().split()[-2:]
    assert page.rows() == {}

    learner = Instance(tmp_path / "l", lab_environment(tmp_path / "l"))
    done = learner.lab("room", "join", address, code, "--name", "<b>Ada</b>")
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(tmp_path) not in done.stdout  # it prints what it sends: no path of the doctor's
    kernel = Kernel(learner.environment)
    ended.append(kernel.stop)
    kernel.run(OPEN_LESSON)
    said = kernel.run("check(5817)")
    assert "not yet" in said

    script = [sys.executable, "-I", "-c", SEAT_PROCESS, address, code]
    killed = subprocess.Popen(script, env=learner.environment)
    ended += [killed.wait, killed.kill]
    members = {
        number: Membership(address=address, code=code, seat=f"{number:016x}", name=f"s{number}")
        for number in range(SEATS - 2)
    }
    ended.append(members.clear)  # their threads then end
    for number in members:
        Seat(lambda number=number: members.get(number)).checked("04.1", "passed", 1)

    wait_until(lambda: len(page.rows()) == SEATS)
    rows = page.rows()
    assert next(iter(rows)) == "<b>Ada</b>"  # stuck before the other one
    stuck, where, attempts, outcome, doctor, _ = rows["<b>Ada</b>"]
    assert stuck and attempts == "1" and where == "02.4 Shards for a load"
    assert outcome == "not yet: …, read by …, fit into fewer shards; you pay for …."
    assert doctor == "ok" or doctor.startswith(("warns of", "FAIL:"))
    wait_until(lambda: page.silent() == set())

    killed.kill()
    wait_until(lambda: "the killed one" in page.silent(), seconds=3 * SILENT_AFTER_S)
    said += kernel.run("check(5818)")
    wait_until(lambda: page.rows()["<b>Ada</b>"][2] == "2")  # the others go on

    server.kill()
    server.wait()
    said += kernel.run("check(5900)")
    kernel.run("wait_until_lost()")  # the thread has met the closed door
    said += kernel.run("check(5901)") + kernel.run("check(5902)")
    assert said.count("not yet") == 5
    assert said.count("The room does not answer.") == 1
