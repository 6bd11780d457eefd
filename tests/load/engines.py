"""Compares Rookery over SQLite, PostgreSQL and MariaDB: the same loads on the same binary, one
after the other.

    ROOKERY=target/release/rookery python3 tests/load/engines.py

Starts the databases from Debian's packages, with their default settings, in temporary folders, and
a server for each. Measures

- logins per second of people with a hundred offline contacts, at round trips of 0, 1 and 2 ms to
  the database, and the statements per login;
- Rookery's CPU time per message with an archive and without;
- pages of 50 messages from an archive of a million;
- searches for a rare word in that archive, with an index and without;
- the cost of the search index for each archived message, in CPU time and on the disk;
- accounts imported per second, with a password, and with keys that are computed already.

`--parts` selects measurements, `--only` databases. Needs Python 3.11 and Debian's packages
`postgresql`, `mariadb-server-core` and `mariadb-client-core`.
"""

import argparse
import asyncio
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from databases import Mariadb, Postgres, Sqlite, Way, free_port
from loads import BINARY, ITERATIONS, People, logins, meet, messages, middle, statements, table

CONFIG = """
domains = ["localhost"]
[listen]
c2s = ["127.0.0.1:{port}"]
c2s_tls = []
web = []
web_tls = []
bytestreams = []
[login]
plaintext_loopback = true
plain_without_tls = true
scram_iterations = {iterations}
[log]
level = "warn"
[modules.archive]
enabled = {archive}
[store]
url = "{url}"
search = "{search}"
"""


class Rookery:
    """A server on a database, as a context manager. Its commands also work while it isn't running.
    The folder stays until `remove` is called.
    """

    def __init__(self, database, name=None):
        self.database, self.name = database, name or database.database()
        self.folder = Path(tempfile.mkdtemp(prefix="rookery-engines-"))
        self.archive, self.by, self.search = True, None, "look"

    def configure(self):
        self.port = free_port()
        (self.folder / "data").mkdir(0o700, exist_ok=True)
        url = self.database.url(self.name, self.by)
        text = CONFIG.format(port=self.port, iterations=ITERATIONS, archive=str(self.archive).lower(), url=url, search=self.search)
        (self.folder / "rookery.toml").write_text(text)

    def command(self, *arguments):
        self.configure()
        line = [
            BINARY,
            *map(str, arguments),
            "--config",
            self.folder / "rookery.toml",
            "--data-dir",
            self.folder / "data",
        ]
        ended = subprocess.run(line, text=True, capture_output=True, stdin=subprocess.DEVNULL)
        assert ended.returncode == 0, f"{line}: {(ended.stdout + ended.stderr)[-2000:]}"
        return ended.stdout

    def over(self, way=None, archive=True):
        """Makes the server use this proxy to the database from its next start, and an archive if
        wanted.
        """
        self.by, self.archive = way and way.port, archive
        return self

    def __enter__(self):
        self.configure()
        with (self.folder / "log").open("ab") as log:
            line = [BINARY, "serve", "--config", self.folder / "rookery.toml", "--data-dir", self.folder / "data"]
            self.process = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        for _ in range(300):
            assert self.process.poll() is None, (self.folder / "log").read_text()
            if listens(self.port):
                return self
            time.sleep(0.1)
        raise TimeoutError((self.folder / "log").read_text())

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(60)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def listens(port):
    """Returns whether the port is listened on, without connecting: servers count connections that
    say nothing.
    """
    return any(
        line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
    )


def round_trip(server):
    """Returns the line of `rookery check` about the connection to the database."""
    return next((line.strip() for line in server.command("check").splitlines() if "round trip" in line), "")


def filled(engine, people, made):
    """A server whose database has these people, who are imported into SQLite once and copied to the
    other databases.
    """
    if people not in made:
        first = made[people] = Rookery(Sqlite())
        people.export(first.folder / "people.xml")
        first.command("user", "import", first.folder / "people.xml", "--allow-short")
        if people.others:
            with first:
                meet(first, people)
    return copied(made[people], engine)


def copied(first, engine):
    """A server on its own copy of another one's database."""
    server = Rookery(engine)
    to = f"sqlite:{server.folder}/data/rookery.db" if engine.SCHEME == "sqlite" else engine.url(server.name)
    server.command("store", "copy", "--from", f"sqlite:{first.folder}/data/rookery.db", "--to", to)
    engine.settle()
    return server


def measure_logins(engine, options, made):
    people = People(options.callers, options.callers // 2)
    server = filled(engine, people, made)
    with server:
        counted = statements(server, people, 100)
    rows = []
    for delay in [0] if engine.SCHEME == "sqlite" else options.round_trips:
        if delay == 0:
            found, said = one_storm(server.over(), people, options), ""
        else:
            with Way(engine.port, delay) as way:
                said = round_trip(server.over(way))
                found = one_storm(server.over(way), people, options)
        print(f"{engine.NAME}, {delay} ms: {found['rate']} {said}", flush=True)
        rows.append([
            engine.version(), delay, middle(found["rate"]), "–" if counted is None else f"{counted:.1f}", middle(found["cpu_ms"], 2),
            f"{found['database']:.2f}", middle(found["p99_ms"]), found["memory"] >> 20,
        ])  # fmt: skip
    server.remove()
    return rows


def one_storm(server, people, options):
    with server:
        return logins(server, people, options.rounds)


def measure_messages(engine, options, made):
    server = filled(engine, People(options.users), made)
    us, without, theirs, late, held = [], [], [], [], 0
    for _ in range(options.rounds):
        for archive in (False, True):
            with server.over(archive=archive):
                found = messages(server, options.users, options.rate, options.seconds)
            print(f"{engine.NAME}, archive {archive}: {found}", flush=True)
            assert found["lost"] == 0, found
            if archive:
                us.append(found["us"])
                theirs.append(found["database_us"])
                late.append(found["p99_ms"])
                held = max(held, found["memory"])
            else:
                without.append(found["us"])
            engine.settle()
    more = [one - other for one, other in zip(us, without)]
    server.remove()
    return [
        [
            engine.version(),
            middle(without, 1),
            middle(us, 1),
            middle(more, 1),
            middle(theirs, 1),
            middle(late),
            held >> 20,
        ]
    ]


def large(options, made):
    """A server with a million messages in one archive, imported once so that others can copy it."""
    from pages import export

    if "archive" not in made:
        first = made["archive"] = Rookery(Sqlite())
        export(first.folder / "export.xml", options.messages)
        first.command("user", "import", first.folder / "export.xml", "--allow-short")
        (first.folder / "export.xml").unlink()
    return made["archive"]


def measure_pages(engine, options, made):
    first = large(options, made)
    begun = time.monotonic()
    server = copied(first, engine)
    took = time.monotonic() - begun
    with server:
        rows = asyncio.run(ask_for_pages(server, options))
    for row in rows:
        row.insert(1, f"{options.messages / took:.0f}")
    server.remove()
    return rows


async def ask_for_pages(server, options):
    from pages import ask, stamp
    from server import Wire, spent

    wire = Wire(server.port)
    await wire.open("juliet", "<bind xmlns='urn:xmpp:bind:0'><tag>desk</tag></bind>")
    somewhere = lambda: stamp(random.randrange(options.messages * 9 // 10))
    kinds = [
        lambda: ("", "", ""),
        lambda: ("", "", "<before/>"),
        lambda: ("start", somewhere(), ""),
        lambda: ("with", "contact7@example.org", "<before/>"),
    ]
    cells, theirs = [], []
    for query in kinds:
        # The first read of a page comes from the disk.
        for _ in range(20):
            await ask(wire, *query())
        (before, _), other = spent(server.process.pid), server.database.cpu()
        for _ in range(options.pages):
            await ask(wire, *query())
        after, held = spent(server.process.pid)
        cells.append(f"{(after - before) / options.pages * 1000:.2f}")
        theirs.append((server.database.cpu() - other) / options.pages * 1000)
    wire.cut()
    return [[server.database.version(), *cells, middle(theirs, 2), held >> 20]]


def measure_searches(engine, options, made):
    server, rows = copied(large(options, made), engine), []
    for server.search in ("look",) if engine.SCHEME == "sqlite" else ("look", "index"):
        took, more = "–", "–"
        if server.search == "index":
            begun, before = time.monotonic(), engine.bytes(server.name)
            server.command("store", "migrate")
            engine.settle()
            took = f"{time.monotonic() - begun:.0f}"
            more = (engine.bytes(server.name) - before) >> 20
        with server:
            rows.append([engine.version(), server.search, *asyncio.run(search_all(server, options)), took, more])
        print(rows[-1], flush=True)
    server.remove()
    return rows


async def search_all(server, options):
    """Measures a search for all messages with the rare word, page by page."""
    from pages import EVERY, RARE, search
    from server import Wire, spent

    wire = Wire(server.port)
    await wire.open("juliet", "<bind xmlns='urn:xmpp:bind:0'><tag>desk</tag></bind>")
    await search(wire, RARE, "<before/>")
    (before, _), other, begun = spent(server.process.pid), server.database.cpu(), time.monotonic()
    found, rest, answers = 0, "<before/>", 0
    while rest:
        page, rest = await search(wire, RARE, rest)
        found, answers = found + page, answers + 1
    took, (after, held) = time.monotonic() - begun, spent(server.process.pid)
    assert found == options.messages // EVERY, f"{found} found"
    theirs = server.database.cpu() - other
    wire.cut()
    return [answers, f"{took * 1000:.0f}", f"{(after - before) * 1000:.0f}", f"{theirs * 1000:.0f}", held >> 20]


def measure_terms(engine, options, made):
    """Writes the same messages into archives without an index and with one, in turn."""
    if engine.SCHEME == "sqlite":
        return []
    if "words" not in made:
        made["words"] = Rookery(Sqlite())
        export_words(made["words"].folder / "words.xml", options.written)
    file, spent = made["words"].folder / "words.xml", {"look": [], "index": []}
    for _ in range(options.rounds):
        for search, found in spent.items():
            found.append(written(Rookery(engine), search, file, options.written))
            print(f"{engine.NAME}, {search}: {found[-1]}", flush=True)
    rows = []
    for search, found in spent.items():
        cells = [middle(column, 1) for column in zip(*found)]
        rows.append([engine.version(), search, *cells])
    ratio = lambda at: middle([one[at] / other[at] for one, other in zip(spent["index"], spent["look"])], 2)
    return rows + [[engine.version(), "ratio", ratio(0), ratio(1), ratio(2)]]


def export_words(file, messages):
    """Messages of about 130 letters, made of a few frequent words and many rare ones, as in
    people's messages.
    """
    chance = random.Random(1)
    words = ["".join(chance.choices("aeinorstlmdhcugbpkvwfzjxyq", range(26, 0, -1), k=chance.randint(2, 9))) for _ in range(20_000)]
    shares = [1 / (number + 3) for number in range(len(words))]
    with open(file, "w") as out:
        out.write(
            "<server-data xmlns='urn:xmpp:pie:0'><host jid='localhost'><user name='juliet' password='secret'><archive xmlns='urn:xmpp:pie:0#mam'>\n"
        )
        for number in range(messages):
            stamp = f"2026-{1 + number // 60_000 % 9:02}-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
            out.write(
                f"<result xmlns='urn:xmpp:mam:2' id='m{number}'><forwarded xmlns='urn:xmpp:forward:0'><delay xmlns='urn:xmpp:delay' stamp='{stamp}'/>"
                f"<message xmlns='jabber:client' to='juliet@localhost' from='contact{number % 100}@example.org/phone' type='chat' id='m{number}'>"
                f"<body>{' '.join(chance.choices(words, shares, k=20))}</body></message></forwarded></result>\n"
            )
        out.write("</archive></user></host></server-data>\n")


def written(server, search, file, messages):
    """Returns the cost of a message: µs of Rookery's and the database's CPU, and bytes on disk."""
    server.search, engine = search, server.database
    # This start creates the schema and the index.
    server.command("store", "migrate")
    held, theirs, own = engine.bytes(server.name), engine.cpu(), resource.getrusage(resource.RUSAGE_CHILDREN)
    server.command("user", "import", file, "--allow-short")
    engine.settle()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = after.ru_utime + after.ru_stime - own.ru_utime - own.ru_stime
    found = own * 1e6 / messages, (engine.cpu() - theirs) * 1e6 / messages, (engine.bytes(server.name) - held) / messages
    server.remove()
    return found


def measure_accounts(engine, options, _):
    server = Rookery(engine)
    passwords, keys = server.folder / "accounts.csv", server.folder / "accounts.xml"
    passwords.write_text("".join(f"someone{number}@localhost,secret\n" for number in range(options.accounts // 10)))
    People(options.accounts).export(keys)
    cells = []
    for file, count in ((passwords, options.accounts // 10), (keys, options.accounts)):
        begun = time.monotonic()
        server.command("user", "import", file, "--allow-short")
        cells.append(f"{count / (time.monotonic() - begun):.0f}")
    server.remove()
    return [[engine.version(), *cells]]


HEADS = {
    "logins": ["database", "round trip, ms", "logins/s", "statements each", "Rookery's CPU each, ms", "database's CPU, ms", "p99, ms", "Rookery's memory, MiB"],
    "messages": ["database", "µs without archive", "µs with", "the archive's part", "database's CPU, µs", "p99, ms", "Rookery's memory, MiB"],
    "pages": ["database", "messages copied/s", "first", "last", "from some time on", "last of a conversation", "database's CPU", "Rookery's memory, MiB"],
    "searches": ["database", "search", "answers", "ms in all", "Rookery's CPU, ms", "database's CPU, ms", "Rookery's memory, MiB", "index filled in, s", "index, MiB"],
    "terms": ["database", "`search`", "Rookery's CPU for a message, µs", "database's CPU, µs", "disk, bytes"],
    "accounts": ["database", "with a password, to be hashed", "with keys"],
}  # fmt: skip


PARTS = {"logins": measure_logins, "messages": measure_messages, "pages": measure_pages, "searches": measure_searches, "terms": measure_terms, "accounts": measure_accounts}


def main(options):
    # Makes SIGTERM leave the `with` blocks, which end their servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    rows, made = {part: [] for part in options.parts}, {}
    for kind in (Sqlite, Postgres, Mariadb):
        for part in options.parts if kind.NAME.lower() in options.only else []:
            begun = time.monotonic()
            with kind() as engine:
                rows[part] += PARTS[part](engine, options, made)
            print(f"{part} on {kind.NAME}: {time.monotonic() - begun:.0f} s", flush=True)
    for server in made.values():
        server.remove()
    for part in options.parts:
        print(f"\n{part}\n\n{table(HEADS[part], rows[part])}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=list(HEADS), choices=list(HEADS))
    parser.add_argument(
        "--only", nargs="+", default=["sqlite", "postgresql", "mariadb"], choices=["sqlite", "postgresql", "mariadb"]
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--callers", type=int, default=1000)
    parser.add_argument("--round-trips", type=float, nargs="+", default=[0, 1, 2], help="ms")
    parser.add_argument("--users", type=int, default=4000)
    parser.add_argument("--rate", type=int, default=12_000, help="messages a second")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--written", type=int, default=100_000, help="messages to archive with an index and without")
    parser.add_argument("--accounts", type=int, default=3000)
    main(parser.parse_args())
