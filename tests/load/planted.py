"""Starts a server over PostgreSQL with people who write and people who log in, and plants a
slowness that its own instruments should find.

    ROOKERY=target/release/rookery python3 tests/load/planted.py index

Prints the folder with the data for `rookery top --data-dir`, and the times that clients see:
before the slowness, and with it. The chapter "Finding a slowness" of the book follows these:

- `index`: an index of the database is missing, and accounts that nobody uses have many messages;
- `lock`: every five seconds, another program locks the table of rosters for most of a second;
- `distance`: the database is some milliseconds away;
- `none`: nothing is planted, for a server that is slow itself, such as one with the change that
  the chapter shows.

Two hundred people with rosters of eight hundred write to each other all the time; others log in
all the time. Needs Python 3.11 and Debian's package `postgresql`.
"""

import argparse
import shutil
import statistics
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from databases import Postgres, Way
from engines import Rookery
from loads import People, bench, credentials

CONFIG = """
domains = ["chat.example", "phones.example"]
shards = 2
[listen]
c2s = ["127.0.0.1:{port}"]
c2s_tls = []
web = ["127.0.0.1:0"]
web_tls = []
bytestreams = []
[limits]
connections_per_address = 0
rate_stanzas = 0
[login]
plaintext_loopback = true
plain_without_tls = true
scram_iterations = 4096
[store]
url = "{url}"
[modules.strangers]
sent_per_minute = 60
"""
# Messages of people who have left, which fill the table of offline messages.
FORGOTTEN = """
INSERT INTO offline_messages (owner, unix_ms, sender, stanza)
SELECT id, 1764000000000, 'news@chat.example', convert_to(repeat('x', 300), 'UTF8')
FROM (SELECT id FROM accounts ORDER BY id DESC LIMIT {accounts}) AS gone, generate_series(1, {each});
ANALYZE;
"""
WRITERS, CONTACTS, VISITORS, GONE = 200, 600, 20, 400
LOCKED_SECONDS, LOCKED_EVERY, WARM_UP = 0.8, 5, 5


class Planted(Rookery):
    """The server, with accounts in two domains."""

    def __init__(self, database, folder):
        super().__init__(database)
        shutil.rmtree(self.folder)
        self.folder = folder

    def configure(self):
        super().configure()
        url = self.database.url(self.name, self.by)
        (self.folder / "rookery.toml").write_text(CONFIG.format(port=self.port, url=url))

    def people(self):
        """Writes the accounts as a file for `rookery user import` (XEP-0227) and returns it."""
        scram = "".join(map(credentials, ("sha1", "sha256", "sha512")))
        names = People(WRITERS, CONTACTS).names()
        file = self.folder / "people.xml"
        with file.open("w") as out:
            out.write("<server-data xmlns='urn:xmpp:pie:0'><host jid='chat.example'>\n")
            for at, name in enumerate(names):
                known = [other for other in names if other != name] if at < WRITERS else []
                items = "".join(f"<item jid='{other}@chat.example' subscription='both'/>" for other in known)
                out.write(f"<user name='{name}'>{scram}<query xmlns='jabber:iq:roster'>{items}</query></user>\n")
            out.write("</host><host jid='phones.example'>\n")
            for name in People(VISITORS, GONE).names():
                out.write(f"<user name='{name}'>{scram}</user>\n")
            out.write("</host></server-data>\n")
        return file


class Load:
    """People who write and people who log in, before a moment and after it."""

    def __init__(self, server, rate, seconds):
        self.server, self.rate, self.seconds = server, rate, seconds
        self.logins, self.change, self.is_over = ([], []), float("inf"), False

    def run(self, changed):
        """Runs the load, calls a function halfway, and returns two rows: before, and after."""
        half = self.seconds + WARM_UP
        options = ("--users", WRITERS, "--rate", self.rate, "--seconds", 2 * self.seconds, "--warm-up", WARM_UP)
        written = []

        def write():
            written.append(bench(self.server, "max-messages", *options, domain="chat.example"))

        writers, visitors = threading.Thread(target=write), threading.Thread(target=self.visit)
        writers.start()
        visitors.start()
        time.sleep(half)
        changed()
        self.change = time.monotonic()
        writers.join()
        self.is_over = True
        visitors.join()
        samples = [sample for sample in written[0]["series"] if sample["p99_us"] and 0 < sample["t_s"] < 2 * self.seconds]
        for is_after in (False, True):
            yield self.row([sample for sample in samples if (sample["t_s"] > self.seconds) == is_after], self.logins[is_after])

    def row(self, samples, logins):
        def middle(values, by=1):
            return f"{statistics.median(values) / by:.1f}" if values else "–"

        return " | ".join([
            middle([sample["delivered_per_s"] for sample in samples]),
            middle([100 * sample["server_cpu_share"] for sample in samples]),
            middle([sample["p99_us"] for sample in samples], 1e3),
            f"{max(sample['p99_us'] for sample in samples) / 1e3:.1f}",
            middle([wave["p50_us"] for wave in logins], 1e3),
            f"{max((wave['max_us'] for wave in logins), default=0) / 1e3:.1f}",
        ])  # fmt: skip

    def visit(self):
        options = ("--users", VISITORS, "--waves", 4, "--away", 1, "--at-once", VISITORS, "--until-seen")
        while not self.is_over:
            begun = time.monotonic()
            visited = bench(self.server, "reconnect-storm", *options, domain="phones.example")
            if begun > self.change or time.monotonic() < self.change:
                self.logins[begun > self.change].extend(part["latency"] for part in visited["parts"])


def hold_locks(database, name, stopping):
    """Locks the table of rosters again and again, as VACUUM FULL and ALTER TABLE do."""
    while not stopping.wait(LOCKED_EVERY - LOCKED_SECONDS):
        database.sql(f"BEGIN; LOCK roster_items; SELECT pg_sleep({LOCKED_SECONDS}); COMMIT", name)


def plant(what, server, way, round_trip, stopping):
    database, name = server.database, server.name
    if what == "index":
        database.sql("DROP INDEX offline_messages_by_owner", name)
    elif what == "distance":
        way.move(round_trip)
    elif what == "lock":
        threading.Thread(target=hold_locks, args=(database, name, stopping)).start()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["index", "lock", "distance", "none"])
    parser.add_argument("--seconds", type=int, default=60, help="of each half: before, and with the slowness")
    parser.add_argument("--rate", type=int, default=1000, help="messages a second")
    parser.add_argument("--round-trip", type=float, default=8, help="of the distance, in milliseconds")
    parser.add_argument("--folder", type=Path, help="an empty folder for the server; temporary by default")
    options = parser.parse_args()
    stopping = threading.Event()
    with ExitStack() as stack:
        folder = options.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rookery-planted-")))
        database = stack.enter_context(Postgres())
        way = stack.enter_context(Way(database.port, 0))
        server = Planted(database, folder).over(way)
        server.command("user", "import", server.people(), "--allow-short")
        database.sql(FORGOTTEN.format(accounts=GONE, each=500), server.name)
        stack.enter_context(server)
        stack.callback(stopping.set)
        print(f"rookery doctor --data-dir {folder}/data", flush=True)
        load = Load(server, options.rate, options.seconds)
        before, after = load.run(lambda: plant(options.what, server, way, options.round_trip, stopping))
        print("| | messages/s | CPU, % of a core | delivery p99, ms | at worst | login, ms | at worst |")
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
        print(f"| before | {before} |\n| {options.what} | {after} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
