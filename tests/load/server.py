"""The code that the scripts of this folder share: a server on loopback, streams to it, and its CPU
time and memory.
"""

import asyncio
import base64
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "clients"))

from rookery import Rookery

TABLES = "plaintext_loopback = true\nplain_without_tls = true\n[limits]\nconnections_per_address = 0\nlogin_failures = 100"
STANZA = re.compile(
    r"<(?:(message|presence|iq)\b[^>]*?(?:/>|>.*?</\1>)|(r|a|enabled|resumed|failed)\b([^>]*)/?>)", re.S
)


class Wire:
    """A stream over TCP, split into stanzas and other elements."""

    def __init__(self, port, domain="localhost"):
        self.port, self.domain, self.heard = port, domain, ""

    async def open(self, user, along):
        """Logs in and returns `<success/>`."""
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        self.send(
            f"<?xml version='1.0'?><stream:stream to='{self.domain}' version='1.0' xmlns='jabber:client' "
            "xmlns:stream='http://etherx.jabber.org/streams'>"
        )
        await self.until("</stream:features>")
        initial = base64.b64encode(f"\0{user}\0secret".encode()).decode()
        self.send(
            "<authenticate xmlns='urn:xmpp:sasl:2' mechanism='PLAIN'>"
            f"<initial-response>{initial}</initial-response>{along}</authenticate>"
        )
        success = await self.until("</success>", "</failure>")
        assert "</success>" in success, success
        if "<resumed" not in success:
            await self.until("</stream:features>")
        return success

    def send(self, text):
        self.writer.write(text.encode())

    async def more(self):
        bytes_read = await self.reader.read(65536)
        if not bytes_read:
            raise ConnectionResetError
        self.heard += bytes_read.decode(errors="replace")

    async def until(self, *ends):
        while True:
            at = min((self.heard.find(end) + len(end) for end in ends if end in self.heard), default=0)
            if at:
                text, self.heard = self.heard[:at], self.heard[at:]
                return text
            await self.more()

    def items(self):
        """Returns the complete items in order, each with its kind, and its attributes or text."""
        end = 0
        for found in STANZA.finditer(self.heard):
            end = found.end()
            yield found[1] or found[2], found[0] if found[1] else found[3]
        self.heard = self.heard[end:]

    def cut(self):
        self.writer.transport.abort()


def started(tables="", top=""):
    """A server, as an async context manager, that accepts many unencrypted logins from one
    address.
    """
    return Rookery(top=top, tables=TABLES + tables)


def spent(pid):
    """Returns the CPU time of a process in seconds, and its resident bytes."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return (int(ticks[11]) + int(ticks[12])) / 100, pages * 4096
