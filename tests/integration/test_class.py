"""A class on one server: twenty labs start in the same second, and each gets its Spark session."""

import os
import shutil
import subprocess
import sys

import pytest
from instance import Instance
from own_lab import allowed, not_here

from lab_env.platform.settings import REPOSITORY, settings

pytestmark = [pytest.mark.services, pytest.mark.proof("seats")]
SEATS = 20
# It keeps its session, with the ports that it holds, until all others have theirs.
SESSION = """
import sys
from lab_env.lab.handle import Lab
from lab_env.platform import services
lab = Lab("pytest", services.endpoints())
rows = lab.spark.range(7)
rows.write.parquet(lab.path("rows"))
print(lab.spark.read.parquet(lab.path("rows")).count(), lab.spark.sparkContext.uiWebUrl, flush=True)
sys.stdin.read()
"""


def test_all_start_at_once_on_servers_of_their_own(tmp_path):
    labs = [Instance(tmp_path / f"seat {number}", {}) for number in range(SEATS)]
    sessions: list[subprocess.Popen] = []
    try:
        begun = [lab.begin("up") for lab in labs]
        said = [up.communicate(timeout=allowed(300))[0] for up in begun]
        assert [up.returncode for up in begun] == [0] * SEATS, "\n".join(said)
        servers = {lab.address(name) for lab in labs for name in ("minio", "kafka")}
        assert len(servers) == 2 * SEATS
        for lab in labs:
            session = subprocess.Popen(
                [sys.executable, "-I", "-c", SESSION],
                env=lab.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            sessions.append(session)
        found = [session.stdout.readline().split() for session in sessions]
        assert [count for count, _ in found] == ["7"] * SEATS
        assert len({page for _, page in found}) == SEATS
    finally:
        for session in sessions:
            session.communicate()
        for lab in labs:
            lab.down()


READ_ONLY = """
for folder in "$1" "$2"; do
    mount --bind "$folder" "$folder" && mount -o remount,bind,ro "$folder" || exit 99
done
shift 2
exec "$@"
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a folder read-only")
def test_a_course_and_a_cache_that_the_learner_cannot_write_are_enough(tmp_path):
    if not shutil.which("unshare") or subprocess.run(["unshare", "-m", "true"]).returncode:
        not_here("no mount namespaces here")
    usual = Instance(tmp_path, {})
    shared = (str(REPOSITORY), str(settings().cache))
    command = ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", *shared, *usual.command]
    lab = Instance(tmp_path, {}, command)
    try:
        assert usual.lab("up", "postgres").returncode == 0  # fetched, where it was not
        usual.down()
        for arguments in (("up", "postgres"), ("doctor",), ("tour", "--seconds", "5")):
            done = lab.lab(*arguments)
            assert done.returncode == 0, done.stdout + done.stderr
    finally:
        usual.down()
