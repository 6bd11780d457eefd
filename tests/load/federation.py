"""Measures the cost of a message between servers, for Rookery and Debian's ejabberd and Prosody.

    ROOKERY=target/release/rookery python3 tests/load/federation.py

The servers run on loopback, two at a time, with certificates from one authority and a shared DNS
server. Streams between servers are encrypted, streams of clients are not. The load generator is
`rookery bench federation --between`, whose clients send each other messages of 288 bytes, within
each server and across both in turn. Needs Debian's ejabberd, prosody, lua-unbound and
libnss-wrapper, and the Python packages of tests/clients/requirements.txt.
"""

import argparse
import asyncio
import itertools
import json
import os
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "clients"))
os.environ["ROOKERY"] = str(Path(os.environ.get("ROOKERY", "target/release/rookery")).absolute())
# Erlang's schedulers don't spin when they have nothing to do: see crates/bench/peers/README.md.
os.environ["ERL_FLAGS"] = "+K true +sbwt none +sbwtdcpu none +sbwtdio none"

from network import Network  # noqa: E402
from rookery import BINARY  # noqa: E402

KINDS = ("rookery", "ejabberd", "prosody")


class Loaded(Network):
    """A network of servers on which clients register and log in without TLS, and whose logs leave
    out details.
    """

    def template(self, kind):
        text = super().template(kind)
        if kind == "rookery":
            # Lines before the first table belong to [login].
            return "plaintext_loopback = true\n" + text.replace("[federation]", ROOKERY)
        if kind == "prosody":
            text = text.replace("debug =", "warn =").replace('"roster",', '"roster", "register_ibr",')
            return PROSODY + text
        text = text.replace("loglevel: debug", "loglevel: warning").replace("access: all\n    starttls: true", "access: all\n    shaper: none", 1)
        return EJABBERD + text.replace("modules:\n", "modules:\n  mod_register:\n    access: all\n    ip_access: all\n")


def run(*arguments):
    ended = subprocess.run([BINARY, *map(str, arguments)], text=True, capture_output=True, stdin=subprocess.DEVNULL)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def register(kind, server, domain, accounts):
    """Creates the load generator's accounts, with the password "secret"."""
    if kind == "rookery":
        lines = "".join(f"user{number:07}@{domain},secret\n" for number in range(accounts))
        (server.folder / "accounts").write_text(lines)
        return server.command("user", "import", "accounts", "--allow-short")
    where = ("--host", f"127.0.0.1:{server.port}", "--domain", domain)
    return run("bench", "register", *where, "--tls", "none", "--password", "secret", "--users", accounts)


async def between(kinds, options):
    """Returns the figures of one pair of servers."""
    async with Loaded() as network, AsyncExitStack() as stack:
        servers = []
        for kind, domain in zip(kinds, ("one.example", "two.example")):
            server = await stack.enter_async_context(getattr(network, kind)(domain, "nobody"))
            servers.append(f"{domain}=127.0.0.1:{server.port}={server.process.pid}")
            await asyncio.to_thread(register, kind, server, domain, 2 * options.pairs)
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "out.json"
            sizes = ("--pairs", options.pairs, "--seconds", options.seconds, "--rounds", options.rounds)
            print(" and ".join(kinds), flush=True)
            print(await asyncio.to_thread(run, "bench", "federation", "--between", *servers, *sizes, "--out", out), flush=True)
            return json.loads(out.read_text())


def shown(value):
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if value >= 1000 else f"{value:.2f}"


async def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--pairs", type=int, default=20)
    options.add_argument("--seconds", type=int, default=3)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--only", nargs=2, action="append", choices=KINDS, metavar="SERVER")
    options = options.parse_args()
    rows = []
    for kinds in options.only or itertools.combinations_with_replacement(KINDS, 2):
        for found in await between(kinds, options):
            rows.append([*kinds, found["window"], *found["within"], *found["across"], found["per_second"], found["mean_ms"]])
    print("| first | second | in flight | within first, µs | within second, µs | across: first, µs | across: second, µs | messages/s | mean, ms |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for row in rows:
        print("|", " | ".join(shown(value) for value in row), "|")


ROOKERY = """
[modules.archive]
enabled = false
[modules.strangers]
received_per_minute = 0
abroad_per_hour = 0
domain_messages_per_minute = 0
[federation]
bytes_per_second = 0
stanzas_per_second = 0
"""

PROSODY = """
network_backend = "epoll"
network_settings = { tcp_backlog = 4096, nagle = false }
gc = { mode = "generational" }
c2s_require_encryption = false
allow_registration = true
"""

EJABBERD = """
max_fsm_queue: 1000000
registration_timeout: infinity
auth_scram_hash: sha
shaper: {}
shaper_rules:
  max_user_sessions: infinity
"""

if __name__ == "__main__":
    asyncio.run(main())
