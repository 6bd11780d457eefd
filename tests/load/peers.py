"""Puts the same load on Rookery, ejabberd and Prosody, with their data in the same PostgreSQL,
within minutes of each other.

    ROOKERY=target/release/rookery python3 tests/load/peers.py

All three are configured as for `rookery bench peers` (`crates/bench/peers/`), but keep accounts,
rosters and archives in PostgreSQL, and archive all messages. ejabberd has as many connections as
Rookery, ten; Prosody has one and blocks on it. ejabberd caches what it has read of an account for
an hour, and a login within that hour needs nothing from the database: it is measured with this
cache and without.

Measures logins a second of people with a hundred contacts who are all away, and the CPU time for
each message, which goes into two archives. Needs Python 3.11 and Debian's packages `ejabberd`,
`erlang-p1-pgsql`, `prosody`, `lua-dbi-postgresql` and `postgresql`.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from databases import Postgres, Way, free_port, ran
from engines import Rookery, listens
from loads import ITERATIONS, SALT, People, base64ed, bench, keys, logins, meet, messages, middle, statements, table

TEMPLATES = Path(__file__).resolve().parent.parent.parent / "crates/bench/peers"
NAME = "'user' || lpad({}::text, 7, '0')"


class Peer:
    """Another kind of server on a PostgreSQL, as a context manager; its accounts exist from the
    first start on.
    """

    def __init__(self, database, people):
        self.database, self.people, self.by, self.made = database, people, None, False
        self.name = database.database()
        self.folder = Path(tempfile.mkdtemp(prefix="rookery-peer-"))
        self.folder.chmod(0o755)

    def over(self, way=None):
        self.by = way and way.port
        return self

    def filled(self, template, port):
        text = (TEMPLATES / template).read_text()
        values = {
            "DOMAIN": "localhost",
            "PORT": port,
            "WEB": free_port(),
            "FOLDER": self.folder,
            "ITERATIONS": ITERATIONS,
        }
        return re.sub("@([A-Z]+)@", lambda found: str(values[found[1]]), text)

    def accounts(self):
        return f"generate_series(0, {self.people.callers + self.people.others - 1}) AS account"

    def contacts(self):
        """Returns the query for all pairs of mutual contacts."""
        if self.people.others == 0:
            return "SELECT 0 AS owner, 0 AS contact WHERE false"
        pairs = f"SELECT caller, {self.people.callers} + (caller * 37 + step) % {self.people.others} AS other FROM generate_series(0, {self.people.callers - 1}) AS caller, generate_series(0, 99) AS step"
        return f"SELECT caller AS owner, other AS contact FROM ({pairs}) AS pairs UNION SELECT other, caller FROM ({pairs}) AS pairs"

    def __enter__(self):
        self.port = free_port()
        if not self.made:
            self.prepare()
        with (self.folder / "output").open("ab") as log:
            line, environment = self.line()
            self.process = subprocess.Popen(
                [str(word) for word in line],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **environment},
            )
        for _ in range(600):
            assert self.process.poll() is None, (self.folder / "output").read_text()[-3000:]
            if listens(self.port):
                if not self.made:
                    self.fill()
                    self.made = True
                return self
            time.sleep(0.1)
        raise TimeoutError((self.folder / "output").read_text()[-3000:])

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Ejabberd(Peer):
    NAME, CACHE = "ejabberd", True

    def prepare(self):
        self.database.sql(Path("/usr/share/ejabberd/sql/pg.sql").read_text(), self.name)
        # ejabberd stores the keys in base64.
        (stored, server), salt = map(base64ed, keys()), base64ed(SALT)
        self.database.sql(
            f"INSERT INTO users (username, password, serverkey, salt, iterationcount) SELECT {NAME.format('account')}, '{stored}', '{server}', '{salt}', {ITERATIONS} FROM {self.accounts()};"
            "INSERT INTO rosterusers (username, jid, nick, subscription, ask, askmessage, server, subscribe, type)"
            f" SELECT {NAME.format('owner')}, {NAME.format('contact')} || '@localhost', '', 'B', 'N', '', 'N', '', 'item' FROM ({self.contacts()}) AS contacts; ANALYZE",
            self.name,
        )

    def fill(self):
        pass

    def line(self):
        text = self.filled("ejabberd.yml", self.port)
        database = f"sql_type: pgsql\nsql_server: 127.0.0.1\nsql_port: {self.by or self.database.port}\nsql_database: {self.name}\nsql_username: rookery\nsql_password: none\n"
        database += f"sql_pool_size: 10\nuse_cache: {str(self.CACHE).lower()}\n"
        text = text.replace("auth_method: mnesia", "auth_method: sql").replace(
            "default_db: mnesia", database + "default_db: sql"
        )
        text = text.replace("  mod_ping: {}", "  mod_ping: {}\n  mod_mam:\n    default: always")
        (self.folder / "ejabberd.yml").write_text(text)
        libraries = re.search(r"^ERL_LIBS=['\"]?([^'\"\n]+)", Path("/usr/sbin/ejabberdctl").read_text(), re.M)[1]
        line = "erl +K true +P 1000000 +Q 262144 +sbwt none +sbwtdcpu none +sbwtdio none -noinput -mnesia dir".split()
        environment = {
            "EJABBERD_CONFIG_PATH": self.folder / "ejabberd.yml",
            "EJABBERD_LOG_PATH": self.folder / "log",
            "HOME": self.folder,
            "ERL_LIBS": libraries,
        }
        environment["ERL_CRASH_DUMP_BYTES"] = "0"
        return [*line, f'"{self.folder}/spool"', "-s", "ejabberd"], {
            name: str(value) for name, value in environment.items()
        }

    def archived(self):
        return int(self.database.sql("SELECT count(*) FROM archive", self.name))


class EjabberdWithoutCache(Ejabberd):
    NAME, CACHE = "ejabberd without its cache", False


class Prosody(Peer):
    NAME = "Prosody"

    def prepare(self):
        """Makes Prosody create its tables, which it does at its first query."""

    def fill(self):
        try:
            bench(self, "max-users", "--users", 1, "--roster", 0, "--seconds", 0)
        except AssertionError:
            pass  # The account doesn't exist yet.
        while self.database.sql("SELECT to_regclass('prosody')", self.name) == "":
            time.sleep(0.1)
        stored, server = (key.hex() for key in keys())
        fields = f"('iteration_count', 'number', '{ITERATIONS}'), ('salt', 'string', '{SALT.decode()}'), ('stored_key', 'string', '{stored}'), ('server_key', 'string', '{server}')"
        self.database.sql(
            f"INSERT INTO prosody SELECT 'localhost', {NAME.format('account')}, 'accounts', field.* FROM {self.accounts()}, (VALUES {fields}) AS field;"
            f"INSERT INTO prosody SELECT 'localhost', {NAME.format('owner')}, 'roster', {NAME.format('contact')} || '@localhost', 'json', "
            f'\'{{"subscription":"both","groups":{{}}}}\' FROM ({self.contacts()}) AS contacts; ANALYZE',
            self.name,
        )

    def line(self):
        text = self.filled("prosody.cfg.lua", self.port)
        database = f'sql = {{ driver = "PostgreSQL", host = "127.0.0.1", port = {self.by or self.database.port}, database = "{self.name}", username = "rookery" }}'
        text = text.replace(
            'storage = "internal"',
            f'storage = "sql"\n{database}\ndefault_archive_policy = true\narchive_expires_after = "never"',
        )
        text = text.replace('"saslauth",', '"saslauth", "mam",')
        (self.folder / "prosody.cfg.lua").write_text(text)
        return ["prosody", "-F", "--config", self.folder / "prosody.cfg.lua"], {}

    def archived(self):
        return int(self.database.sql("SELECT count(*) FROM prosodyarchive", self.name))


class Ours(Rookery):
    NAME = "Rookery"

    def __init__(self, database, people):
        super().__init__(database)
        file = self.folder / "people.xml"
        people.export(file)
        self.command("user", "import", file, "--allow-short")

    def archived(self):
        return int(self.database.sql("SELECT count(*) FROM archive_messages", self.name))


def installed():
    packages = {"erl": "ejabberd", "prosody": "prosody"}
    files = {
        "/usr/share/doc/erlang-p1-pgsql": "erlang-p1-pgsql",
        "/usr/share/doc/lua-dbi-postgresql": "lua-dbi-postgresql",
    }
    missing = [package for program, package in packages.items() if not shutil.which(program)]
    missing += [package for file, package in files.items() if not Path(file).exists()]
    if missing:
        ran("apt-get", "install", "--yes", "--no-install-recommends", *missing)


def measure_logins(kind, options):
    people, rows = People(options.callers, options.callers // 2), []
    with Postgres() as database:
        server = kind(database, people)
        with server:
            meet(server, people)
            counted = statements(server, people, 30)
        database.settle()
        for delay in options.round_trips:
            with Way(database.port, delay) as way:
                with server.over(way if delay else None):
                    found = logins(server, people, options.rounds)
            print(f"{kind.NAME}, {delay} ms: {found}", flush=True)
            rows.append([
                kind.NAME, delay, middle(found["rate"]), f"{counted:.1f}", middle(found["cpu_ms"], 2), f"{found['database']:.2f}", middle(found["p99_ms"]),
                found["memory"] >> 20,
            ])  # fmt: skip
        server.remove()
    return rows


def measure_messages(kind, options):
    people = People(options.users)
    with Postgres() as database:
        server = kind(database, people)
        found, cpu = [], []
        for _ in range(options.rounds):
            before = server.archived() if found else 0
            with server:
                found.append(messages(server, options.users, options.rate, options.seconds))
                # An overloaded server keeps working for a while after the load has ended.
                time.sleep(3)
                rows_made = server.archived() - before
            print(f"{kind.NAME}: {found[-1]}, {rows_made} archived", flush=True)
            cpu.append(1e6 / found[-1]["us"])
            found[-1]["archived"] = rows_made / 2
            database.settle()
        server.remove()
    of = lambda name, digits=0: middle([one[name] for one in found], digits)
    return [[
        kind.NAME, middle(cpu), of("us"), of("database_us"), of("rate"), of("archived"), of("p99_ms"), max(one["memory"] for one in found) >> 20,
    ]]  # fmt: skip


HEADS = {
    "logins": ["server", "round trip, ms", "logins/s", "statements each", "server's CPU each, ms", "database's CPU, ms", "p99, ms", "server's memory, MiB"],
    "messages": ["server", "messages by CPU second", "server's CPU each, µs", "database's CPU, µs", "messages/s that arrived", "archived", "p99, ms", "server's memory, MiB"],
}  # fmt: skip
KINDS = {"rookery": Ours, "ejabberd": Ejabberd, "ejabberd-without-cache": EjabberdWithoutCache, "prosody": Prosody}


def main(options):
    # Makes SIGTERM leave the `with` blocks, which end their servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    installed()
    tables = {part: [] for part in options.parts}
    for part in options.parts:
        for name in options.only:
            if part == "messages" and name == "ejabberd-without-cache":
                continue
            begun = time.monotonic()
            tables[part] += (measure_logins if part == "logins" else measure_messages)(KINDS[name], options)
            print(f"{part} on {name}: {time.monotonic() - begun:.0f} s", flush=True)
    for part in options.parts:
        print(f"\n{part}\n\n{table(HEADS[part], tables[part])}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list(HEADS), choices=list(HEADS))
    parser.add_argument("--only", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--callers", type=int, default=300)
    parser.add_argument("--round-trips", type=float, nargs="+", default=[0, 1], help="ms")
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--rate", type=int, default=100, help="messages a second")
    parser.add_argument("--seconds", type=float, default=8)
    main(parser.parse_args())
