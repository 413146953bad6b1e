"""Two networks on this machine; each reaches only one address of the other."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
from own_lab import not_here

NONE_HERE = "no network namespaces here: they need root, unshare, nsenter and ip"
# Waits in a network and a mount namespace of its own until its standard input is closed.
HOLD = 'ip link set lo up && for folder; do mount -t tmpfs none "$folder"; done && echo here && cat'


@dataclass(frozen=True)
class Network:
    """A network namespace, with mounts of its own.

    Args:
        pid: process id of the program that keeps the namespace open.
        address: the network's address, as the other network sees it.
    """

    pid: int
    address: str

    def command(self, *argv: str) -> list[str]:
        """Return a command line that runs in this network."""
        return ["nsenter", "-t", str(self.pid), "-n", "-m", *argv]

    def reaches(self, port: int) -> bool:
        """Return True if a port of this network's own address accepts connections."""
        connect = f"</dev/tcp/{self.address}/{port}"
        done = subprocess.run(self.command("bash", "-c", connect), capture_output=True)
        return done.returncode == 0

    def run(self, *argv: str) -> str:
        """Run a command in this network; return its output. The command must succeed."""
        done = subprocess.run(self.command(*argv), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextmanager
def two_networks(hidden: Sequence[Path] = ()) -> Iterator[tuple[Network, Network]]:
    """Create two networks; they are removed at the end.

    If the networks cannot be created, the test is skipped; for root in CI, it fails.

    Args:
        hidden: folders that are empty for programs of the second network.
    """
    with _held() as one, _held(*hidden) as other:
        if not (one and other):
            _none_here()
        first, second = Network(one, "10.231.7.1"), Network(other, "10.231.7.2")
        try:
            first.run("ip", "link", "add", "lake0", "type", "veth", *("peer", "lake1"))
            first.run("ip", "link", "set", "lake1", "netns", str(other))
            for network, device in ((first, "lake0"), (second, "lake1")):
                network.run("ip", "address", "add", f"{network.address}/24", "dev", device)
                network.run("ip", "link", "set", device, "up")
        except (AssertionError, FileNotFoundError):
            _none_here()
        yield first, second


def _none_here() -> NoReturn:
    """Skip the test; in CI, fail it for root, the only user who may create such networks."""
    (not_here if os.getuid() == 0 else pytest.skip)(NONE_HERE)


@contextmanager
def _held(*hidden: Path) -> Iterator[int | None]:
    """Yield the pid that holds a pair of namespaces; None if they are not allowed."""
    command = ["unshare", "-n", "-m", "sh", "-c", HOLD, "sh", *map(str, hidden)]
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        except FileNotFoundError:
            yield None
            return
        with process:  # closes its standard input, and waits for its end
            yield process.pid if process.stdout.readline() == b"here\n" else None
