"""Starts PostgreSQL and MariaDB for measurements, durable, as Debian's packages configure them.

Each has a temporary folder. A proxy with a delay can stand in front of them.
"""

import os
import pwd
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def ran(*arguments, said=None):
    """Runs a program and returns its output. Raises if it fails."""
    ended = subprocess.run([str(argument) for argument in arguments], input=said, text=True, capture_output=True)
    assert ended.returncode == 0, f"{arguments}: {ended.stdout}{ended.stderr}"
    return ended.stdout


def spent_by(pids):
    """Returns the CPU time of some processes, in seconds."""
    seconds = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()
            # The CPU time of children that have ended counts as well: PostgreSQL has a process for
            # each connection.
            seconds += sum(int(field) for field in fields[11:15]) / TICKS
        except FileNotFoundError:
            pass
    return seconds


class Database:
    """A database server as a context manager, which stops it and removes its folder at the end."""

    def __init__(self):
        self.port, self.made = free_port(), 0
        self.folder = Path(tempfile.mkdtemp(prefix="rookery-engine-", dir="/tmp"))
        self.folder.chmod(0o755)

    def __enter__(self):
        try:
            self.prepare()
            with (self.folder / "log").open("wb") as log:
                self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, cwd=self.folder)
            self.wait()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait(self):
        for _ in range(300):
            try:
                return self.sql("SELECT 1")
            except AssertionError:
                assert self.process.poll() is None, (self.folder / "log").read_text()
                time.sleep(0.1)
        raise TimeoutError((self.folder / "log").read_text())

    def __exit__(self, *_):
        if process := getattr(self, "process", None):
            process.send_signal(self.END)
            process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self):
        """Creates an empty database and returns its name."""
        self.made += 1
        name = f"rookery{self.made}"
        self.create(name)
        return name

    def url(self, name, port=None):
        return f"{self.SCHEME}://rookery@127.0.0.1:{port or self.port}/{name}"

    def cpu(self):
        """Returns the CPU time of all processes of the server so far, in seconds."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return spent_by([self.process.pid, *children])


class Postgres(Database):
    SCHEME, NAME, END = "postgres", "PostgreSQL", 2

    def prepare(self):
        versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if not versions:
            ran("apt-get", "install", "--yes", "--no-install-recommends", "postgresql")
            versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        self.programs, data = versions[-1].parent, self.folder / "data"
        # PostgreSQL refuses to run as root.
        self.user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        if self.user:
            os.chown(self.folder, self.user.pw_uid, self.user.pw_gid)
        ran(
            *self.as_user(),
            self.programs / "initdb",
            "--auth=trust",
            "--username=rookery",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "-D",
            data,
        )

    def wait(self):
        super().wait()
        self.sql("CREATE EXTENSION pg_stat_statements")
        self.counting(False)

    def as_user(self):
        return (
            ["setpriv", f"--reuid={self.user.pw_uid}", f"--regid={self.user.pw_gid}", "--clear-groups", "--"]
            if self.user
            else []
        )

    def command(self):
        settings = ["listen_addresses=127.0.0.1", "shared_preload_libraries=pg_stat_statements"]
        return [
            *self.as_user(), self.programs / "postgres", "-D", self.folder / "data", "-k", self.folder, "-p", str(self.port),
            *(word for setting in settings for word in ("-c", setting)),
        ]  # fmt: skip

    def sql(self, statements, name="postgres"):
        options = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-U", "rookery", "-p", self.port, "-h", self.folder]
        return ran(self.programs / "psql", *options, "-d", name, said=statements).strip()

    def create(self, name):
        self.sql(f"CREATE DATABASE {name}")

    def version(self):
        return "PostgreSQL " + self.sql("SHOW server_version").split()[0]

    def counting(self, counts):
        """Starts or stops counting statements, which costs a little."""
        self.sql(f"ALTER SYSTEM SET pg_stat_statements.track = '{'top' if counts else 'none'}'")
        self.sql("SELECT pg_reload_conf()")

    def bytes(self, name):
        """Returns the number of bytes that a database takes on the disk."""
        return int(self.sql(f"SELECT pg_database_size('{name}')"))

    def statements(self):
        """Returns the number of statements so far, without those that begin or end
        transactions or set a variable.
        """
        of = "query !~* '^(begin|commit|rollback|set|show|start|deallocate|reset)' AND query !~ 'pg_stat_statements'"
        return int(self.sql(f"SELECT coalesce(sum(calls), 0) FROM pg_stat_statements WHERE {of}"))

    def settle(self):
        """Writes pending pages now, so that a measurement doesn't pay for an earlier one."""
        self.sql("CHECKPOINT")


class Mariadb(Database):
    SCHEME, NAME, END = "mysql", "MariaDB", 15

    def prepare(self):
        if not shutil.which("mariadbd", path="/usr/sbin:/usr/bin"):
            ran("apt-get", "install", "--yes", "--no-install-recommends", "mariadb-server-core", "mariadb-client-core")
        self.data = f"--datadir={self.folder / 'data'}"
        ran("mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve",
            f"--tmpdir={self.folder}", *self.as_user(), self.data)  # fmt: skip

    def as_user(self):
        return ["--user=root"] if os.getuid() == 0 else []

    def command(self):
        return [
            "/usr/sbin/mariadbd", "--no-defaults", *self.as_user(), self.data, "--bind-address=127.0.0.1", f"--port={self.port}",
            f"--socket={self.folder / 'socket'}", f"--pid-file={self.folder / 'pid'}", f"--tmpdir={self.folder}", "--skip-name-resolve",
        ]  # fmt: skip

    def sql(self, statements, name="mysql"):
        options = [
            "--no-defaults",
            "--batch",
            "--skip-column-names",
            "--user=root",
            f"--socket={self.folder / 'socket'}",
            "--database",
        ]
        return ran("mariadb", *options, name, "--execute", statements).strip()

    def create(self, name):
        rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, REFERENCES"
        self.sql(
            f"CREATE USER IF NOT EXISTS rookery@'%'; CREATE DATABASE {name}; GRANT {rights} ON {name}.* TO rookery@'%'"
        )

    def version(self):
        return "MariaDB " + self.sql("SELECT version()").split("-")[0]

    def counting(self, counts):
        """Does nothing: MariaDB always counts statements."""

    def bytes(self, name):
        """Returns the number of bytes that a database takes on the disk."""
        return sum(file.stat().st_size for file in (self.folder / "data" / name).iterdir())

    def statements(self):
        """Returns the number of statements so far, without those that begin or end transactions."""
        kinds = "'Com_select', 'Com_insert', 'Com_update', 'Com_delete', 'Com_insert_select', 'Com_update_multi', 'Com_delete_multi'"
        # The query itself is counted, too.
        return int(
            self.sql(
                f"SELECT sum(variable_value) - 1 FROM information_schema.global_status WHERE variable_name IN ({kinds})"
            )
        )

    def settle(self):
        self.sql("FLUSH TABLES")


class Sqlite:
    """SQLite, which has no server: a file in the folder of the server that uses it."""

    SCHEME, NAME = "sqlite", "SQLite"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def database(self):
        return "rookery.db"

    def url(self, *_):
        return "sqlite"

    def cpu(self):
        return 0.0

    def version(self):
        return "SQLite"

    def settle(self):
        pass


class Way:
    """A proxy to a port that delays all bytes in both directions, as a context manager. It runs in
    its own process.
    """

    def __init__(self, target, round_trip_ms):
        self.target, self.round_trip_ms = target, round_trip_ms

    def __enter__(self):
        self.port = free_port()
        arguments = [sys.executable, __file__, self.port, self.target, self.round_trip_ms / 2000]
        self.process = subprocess.Popen([str(argument) for argument in arguments], stdin=subprocess.PIPE, text=True)
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return self
            except ConnectionError:
                time.sleep(0.05)
        raise TimeoutError("the proxy doesn't open")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()

    def move(self, round_trip_ms):
        """Changes the delay."""
        self.process.stdin.write(f"{round_trip_ms / 2000}\n")
        self.process.stdin.flush()


def pass_on(port, target, delay):
    """Runs the proxy until it is killed. Bytes stay in order, also if the delay changes."""
    listener = socket.create_server(("127.0.0.1", port))
    other, due = {}, deque()
    while True:
        patience = max(0, due[0][0] - time.monotonic()) if due else None
        for ready in select.select([sys.stdin, listener, *other], [], [], patience)[0]:
            if ready is sys.stdin:
                delay = float(sys.stdin.readline())
            elif ready is listener:
                client, server = listener.accept()[0], socket.create_connection(("127.0.0.1", target))
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                other[client], other[server] = server, client
            elif ready in other:
                try:
                    read = ready.recv(1 << 16)
                except ConnectionError:
                    read = b""
                due.append((time.monotonic() + delay, other[ready], read))
                if not read:
                    del other[ready]
        while due and due[0][0] <= time.monotonic():
            _, to, read = due.popleft()
            try:
                to.sendall(read)
                if not read:
                    to.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


if __name__ == "__main__":
    pass_on(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))
