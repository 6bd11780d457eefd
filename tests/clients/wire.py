"""A client that sends exactly what a scenario gives it."""

import asyncio
import re
import ssl


class Wire:
    """`await Wire.open(server)`: a stream over direct TLS, whose features have been read."""

    @classmethod
    async def open(cls, server):
        self = cls()
        trust = ssl.create_default_context(cafile=str(server.certificate))
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", server.tls_port, ssl=trust, server_hostname="localhost"
        )
        self.heard = ""
        self.send(
            "<?xml version='1.0'?><stream:stream to='localhost' version='1.0' xmlns='jabber:client' "
            "xmlns:stream='http://etherx.jabber.org/streams'>"
        )
        self.features = await self.until("</stream:features>")
        return self

    def send(self, text):
        self.writer.write(text.encode())

    async def until(self, *ends):
        """Returns the input up to the first of these texts."""
        async with asyncio.timeout(20):
            while not (found := re.search("|".join(map(re.escape, ends)), self.heard)):
                more = await self.reader.read(65536)
                assert more, f"the server closed after {self.heard}"
                self.heard += more.decode()
        text, self.heard = self.heard[: found.end()], self.heard[found.end() :]
        return text

    def abort(self):
        self.writer.transport.abort()
