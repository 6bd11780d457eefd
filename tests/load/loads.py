"""The loads for comparing servers and databases: accounts, logins, and archived messages.

The environment variable ROOKERY names the binary that generates load. A server has a `port`, a
`process` (with its `pid`), and a `database`.
"""

import base64
import hashlib
import hmac
import json
import os
import statistics
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

BINARY = os.environ.get("ROOKERY", "target/release/rookery")
PASSWORD, ITERATIONS, SALT = "pencil", 4096, b"sixteen-of-salt."
CONTACTS = 100


def keys(kind="sha1"):
    """Returns the StoredKey and ServerKey of all accounts (RFC 5802 §3), with one salt, so that
    clients don't hash for each account.
    """
    salted = hashlib.pbkdf2_hmac(kind, PASSWORD.encode(), SALT, ITERATIONS)
    return hashlib.new(kind, hmac.digest(salted, b"Client Key", kind)).digest(), hmac.digest(
        salted, b"Server Key", kind
    )


def credentials(kind):
    """Returns the element of XEP-0227 for the keys of one hash."""
    (stored, server), name = keys(kind), kind.upper().replace("SHA", "SHA-")
    return (
        f"<scram-credentials xmlns='urn:xmpp:pie:0#scram' mechanism='SCRAM-{name}'><iter-count>{ITERATIONS}</iter-count><salt>{base64ed(SALT)}</salt>"
        f"<server-key>{base64ed(server)}</server-key><stored-key>{base64ed(stored)}</stored-key></scram-credentials>"
    )


def base64ed(some):
    return base64.b64encode(some).decode()


@dataclass(frozen=True)
class People:
    """Accounts with the load generator's names. `callers` log in; each has a hundred mutual
    contacts, who stay offline.
    """

    callers: int
    others: int = 0

    def names(self):
        return [f"user{number:07}" for number in range(self.callers + self.others)]

    def contacts(self):
        """Returns the numbers of the contacts of each account."""
        lists = [[] for _ in self.names()]
        for caller in range(self.callers if self.others else 0):
            for step in range(CONTACTS):
                other = self.callers + (caller * 37 + step) % self.others
                lists[caller].append(other)
                lists[other].append(caller)
        return lists

    def export(self, file):
        """Writes the accounts as a file for `rookery user import` (XEP-0227)."""
        scram = "".join(map(credentials, ("sha1", "sha256", "sha512")))
        names = self.names()
        with open(file, "w") as out:
            out.write("<server-data xmlns='urn:xmpp:pie:0'><host jid='localhost'>\n")
            for name, contacts in zip(names, self.contacts()):
                items = "".join(f"<item jid='{names[contact]}@localhost' subscription='both'/>" for contact in contacts)
                out.write(f"<user name='{name}'>{scram}<query xmlns='jabber:iq:roster'>{items}</query></user>\n")
            out.write("</host></server-data>\n")


def bench(server, scenario, *options, domain="localhost"):
    """Runs a scenario of the load generator against a server and returns its result."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out.json"
        line = [
            BINARY,
            "bench",
            "run",
            scenario,
            "--host",
            f"127.0.0.1:{server.port}",
            "--domain",
            domain,
            "--tls",
            "none",
            "--password",
            PASSWORD,
        ]
        line += ["--mechanism", "SCRAM-SHA-1", "--server-pid", server.process.pid, "--out", out, *options]
        ended = subprocess.run([str(word) for word in line], text=True, capture_output=True, stdin=subprocess.DEVNULL)
        assert out.exists(), ended.stdout + ended.stderr
        result = json.loads(out.read_text())
        assert result["ended"] == "done", result["ended"]
        return result


def meet(server, people):
    """Logs everybody in once, since servers store the last presence of each account."""
    bench(
        server,
        "max-users",
        "--users",
        people.callers + people.others,
        "--roster",
        0,
        "--arrival-rate",
        500,
        "--seconds",
        0,
    )


def statements(server, people, rate):
    """Returns the number of statements per login, as the database counts them; `None` if it
    doesn't.
    """
    database = server.database
    if not hasattr(database, "statements"):
        return None
    callers = min(people.callers, rate * 4)
    database.counting(True)
    time.sleep(1)
    # All log in and stay until they are counted: the statements of a logout aren't part of a login.
    options = ("--users", callers, "--roster", 0, "--arrival-rate", rate, "--seconds", 6, "--until-seen")
    run = threading.Thread(target=bench, args=(server, "max-users", *options))
    before = database.statements()
    run.start()
    time.sleep(callers / rate + 4)
    counted = database.statements() - before
    run.join()
    database.counting(False)
    return counted / callers


def logins(server, people, waves, at_once=64):
    """Logs all callers in at once, in several waves, and returns lists with one entry per wave.

    Each caller logs in, fetches the roster, sends presence and receives it back.
    """
    before = server.database.cpu(), time.monotonic()
    storm = ("--users", people.callers, "--waves", waves, "--away", 3, "--at-once", at_once, "--until-seen")
    result = bench(server, "reconnect-storm", *storm)
    parts = result["parts"]
    assert all(part["delivered"] == people.callers for part in parts), parts
    return {
        "rate": [1e6 / part["us_per_destination_wall"] for part in parts],
        "cpu_ms": [part["us_cpu_per_destination"] / 1e3 for part in parts],
        "p99_ms": [part["latency"]["p99_us"] / 1e3 for part in parts],
        "memory": result["memory"]["peak"],
        "database": (server.database.cpu() - before[0]) / (people.callers * (waves + 1)) * 1e3,
    }


def messages(server, users, rate, seconds):
    """Lets people write to each other. Returns the CPU time per message, of the server and of the
    database.
    """
    before = server.database.cpu()
    result = bench(server, "max-messages", "--users", users, "--rate", rate, "--seconds", seconds, "--warm-up", 1)
    theirs = server.database.cpu() - before
    cpu = result["server_cpu"]
    return {
        "us": cpu["us_per_operation"],
        "database_us": theirs * 1e6 / (rate * (seconds + 1)),
        "rate": result["throughput"],
        "p99_ms": result["latency"]["p99_us"] / 1e3,
        "lost": result["lost"],
        "errors": result["errors"],
        "memory": result["memory"]["peak"],
    }


def middle(values, digits=0):
    """Returns the median as text, followed by the least and greatest value if there are several."""
    values = sorted(values)
    text = f"{statistics.median(values):.{digits}f}"
    return text if len(values) < 2 else f"{text} ({values[0]:.{digits}f}–{values[-1]:.{digits}f})"


def table(heads, rows):
    """Returns a table in Markdown."""
    lines = ["| " + " | ".join(heads) + " |", "| --- " + "| ---: " * (len(heads) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]) + "\n"
