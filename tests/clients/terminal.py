"""Drives Profanity as somebody at a terminal does."""

import asyncio
import fcntl
import os
import pty
import re
import shutil
import signal
import struct
import tempfile
import termios
import time

import pyte

from person import PATIENCE, Person
from rookery import Rookery

COLUMNS, LINES = 160, 50


async def profanity_logs_in_and_chats():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost/desk") as alice, Profanity() as bob:
            await bob.log_in(server, "bob@localhost", "secret")

            await bob.types("/roster add alice@localhost Alice", shows="Roster item added: alice@localhost")
            await bob.types("/sub request alice@localhost", shows="Sent subscription request to alice@localhost")
            await alice.presence("bob@localhost", "subscribe")
            alice.client.send_presence_subscription(pto="bob@localhost", ptype="subscribed")
            await bob.shows(r"\+\+ Alice \(desk\) is online")
            alice.client.send_presence_subscription(pto="bob@localhost", ptype="subscribe")
            await bob.shows("Received authorization request from alice@localhost")
            await bob.types("/sub allow alice@localhost", shows="Accepted subscription for alice@localhost")
            await alice.presence("bob@localhost")

            alice.client.send_presence(pshow="away", pstatus="zu Tisch")
            await bob.shows('Alice.* is away.*"zu Tisch"')
            alice.client.send_presence()
            await bob.shows("Alice.* is online")

            await bob.types("/msg alice@localhost", shows="alice@localhost|Alice")
            await bob.types("hello from a terminal – größe", shows="hello from a terminal – größe")
            message = await alice.reads("hello from a terminal – größe", of="bob@localhost")
            alice.write(message["from"], "hello from slixmpp <&>")
            await bob.shows("hello from slixmpp <&>")

            await bob.types("/quit")
            await alice.presence("bob@localhost", "unavailable")


async def profanity_reads_what_has_waited():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost", managed=True) as alice:
            alice.write("bob@localhost", "while you were away")
            await alice.acknowledged()
        async with Profanity() as bob:
            await bob.log_in(server, "bob@localhost", "secret", direct=True)
            # The message comes after the login; before it there is no window.
            await bob.shows("chat message: alice@localhost")
            await bob.types("/win 2", shows="while you were away")
            await bob.types("/quit")


async def profanity_tells_a_wrong_password():
    async with Rookery("bob") as server:
        async with Profanity() as bob:
            await bob.connect(server, "bob@localhost", "wrong")
            await bob.shows("Login failed")
            await bob.types("/quit")


class Profanity:
    """`async with Profanity()`: the program in its own terminal, with its own home folder."""

    async def __aenter__(self):
        self.home = tempfile.mkdtemp(prefix="rookery-profanity-")
        self.screen = pyte.Screen(COLUMNS, LINES)
        self.stream = pyte.ByteStream(self.screen)
        environment = {"HOME": self.home, "PATH": os.environ["PATH"], "TERM": "linux", "LANG": "C.UTF-8"}
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe("profanity", ["profanity"], environment)
            finally:
                os._exit(127)
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        asyncio.get_running_loop().add_reader(self.terminal, self._drawn)
        await self.shows("Type '/help' to show complete help")
        return self

    async def __aexit__(self, *_):
        asyncio.get_running_loop().remove_reader(self.terminal)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.terminal)
        shutil.rmtree(self.home)

    async def connect(self, server, jid, password, direct=False):
        """Connects, and accepts the certificate."""
        port, tls = (server.tls_port, "legacy") if direct else (server.port, "force")
        await self.types(f"/connect {jid} server 127.0.0.1 port {port} tls {tls}", shows="Enter password")
        await self.types(password, shows="TLS certificate verification failed: self-signed")
        await self.types("/tls allow", shows="Continuing with connection")

    async def log_in(self, server, jid, password, direct=False):
        await self.connect(server, jid, password, direct)
        await self.shows(f"{jid}/\\S+ logged in successfully")

    async def types(self, line, shows=None):
        """Types a line, and waits until something is on the screen."""
        os.write(self.terminal, line.encode() + b"\r")
        if shows:
            await self.shows(shows)

    async def shows(self, pattern):
        """Waits until something is on the screen."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, "\n".join(self.screen.display)):
            lines = "\n".join(line.rstrip() for line in self.screen.display if line.strip())
            assert time.monotonic() < end, f"{pattern!r} is not on the screen:\n{lines}"
            await asyncio.sleep(0.02)

    def _drawn(self):
        try:
            self.stream.feed(os.read(self.terminal, 65536))
        except OSError:
            # The program has ended.
            asyncio.get_running_loop().remove_reader(self.terminal)
