"""A service gets its preferred port if that is free, otherwise another one, which it keeps."""

import os
import socket
import subprocess
import sys

from lab_env.platform.processes.ports import choose_ports, port_is_free, release_ports


def listening() -> socket.socket:
    """Return a socket that keeps a port busy."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen()
    return server


def test_a_busy_port_is_replaced_by_a_free_one(home):
    with listening() as busy:
        preferred = busy.getsockname()[1]
        chosen = choose_ports("kafka", {"broker": preferred})["broker"]
        assert chosen != preferred
        assert port_is_free(chosen)


def test_a_free_port_is_taken(home):
    with listening() as server:
        preferred = server.getsockname()[1]
    assert choose_ports("kafka", {"broker": preferred}) == {"broker": preferred}


def test_a_replaced_port_is_kept_when_the_preferred_one_is_free_again(home):
    with listening() as busy:
        preferred = busy.getsockname()[1]
        first = choose_ports("kafka", {"broker": preferred})
    assert choose_ports("kafka", {"broker": preferred}) == first


def test_another_preferred_port_is_followed(home):
    with listening() as one, listening() as two:
        first, second = one.getsockname()[1], two.getsockname()[1]
    choose_ports("kafka", {"broker": first})
    assert choose_ports("kafka", {"broker": second}) == {"broker": second}


def test_two_services_never_get_the_same_port(home):
    with listening() as server:
        preferred = server.getsockname()[1]
    kafka = choose_ports("kafka", {"broker": preferred, "controller": preferred})
    minio = choose_ports("minio", {"api": preferred})
    assert len({*kafka.values(), *minio.values()}) == 3


# Another lab that has chosen a port, and whose server does not listen yet.
CHOOSE = """
import sys
from lab_env.platform.processes.ports import choose_ports
print(choose_ports("kafka", {"broker": int(sys.argv[1])})["broker"], flush=True)
sys.stdin.read()
"""


def test_a_port_that_another_lab_has_just_chosen_is_not_chosen(home, tmp_path):
    with listening() as server:
        preferred = server.getsockname()[1]
    other = subprocess.Popen(
        [sys.executable, "-c", CHOOSE, str(preferred)],
        env={**os.environ, "LAB_HOME": str(tmp_path / "other")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert int(other.stdout.readline()) == preferred
    assert choose_ports("kafka", {"broker": preferred})["broker"] != preferred
    other.communicate()
    release_ports()
    assert choose_ports("minio", {"api": preferred}) == {"api": preferred}
