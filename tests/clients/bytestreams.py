"""Sends files through the server: SOCKS5 bytestreams (XEP-0065) with slixmpp."""

import os

from slixmpp.exceptions import IqError

from person import Person
from rookery import Rookery


async def a_file_goes_through_the_server():
    async with Rookery("alice", "bob") as server:
        async with _Sender(server, "alice@localhost") as alice, _Sender(server, "bob@localhost") as bob:
            stream = await alice.streams.handshake(bob.jid, timeout=20)
            assert list(alice.streams._proxies) == ["proxy.localhost"], alice.streams._proxies
            file = os.urandom(300_000)
            await stream.write(file)
            await bob.until(lambda: len(bob.got) >= len(file), "the file")
            assert bob.got == file
            (other_end,) = bob.seen["socks5_stream"]
            await other_end.write(b"thanks")
            await alice.until(lambda: alice.got == b"thanks", "an answer")
            stream.transport.close()
            await bob.until(lambda: bob.seen["socks5_closed"], "the end")


async def nobody_activates_what_is_not_theirs():
    async with Rookery("alice", "bob", "carol") as server:
        people = [_Sender(server, f"{name}@localhost") for name in ("alice", "bob", "carol")]
        async with people[0] as alice, people[1] as bob, people[2] as carol:
            await alice.streams.discover_proxies(timeout=20)
            await alice.streams.request_stream(bob.jid, sid="stream", timeout=20)
            assert await _refusal(carol.streams.activate("proxy.localhost", "stream", bob.jid, timeout=20)) == "item-not-found"
            # Only the target has connected so far.
            assert await _refusal(alice.streams.activate("proxy.localhost", "stream", bob.jid, timeout=20)) == "not-allowed"


async def the_proxy_is_for_those_who_may():
    tables = '[modules.bytestreams]\naccess = ["alice@localhost"]\n'
    async with Rookery("alice", "bob", tables=tables) as server:
        async with _Sender(server, "alice@localhost") as alice, _Sender(server, "bob@localhost") as bob:
            address = await alice.streams.get_network_address("proxy.localhost", timeout=20)
            assert address["socks"]["streamhost"]["host"] == "localhost", address
            assert await _refusal(bob.streams.get_network_address("proxy.localhost", timeout=20)) == "forbidden"


class _Sender(Person):
    """A person who sends files, and accepts all files offered."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.client.register_plugin("xep_0065", {"auto_accept": True})
        self.got = b""
        self.client.add_event_handler("socks5_data", self._gets)
        for event in ("socks5_stream", "socks5_closed"):
            self.seen[event] = []
            self.client.add_event_handler(event, self.seen[event].append)

    @property
    def streams(self):
        return self.client["xep_0065"]

    def _gets(self, data):
        self.got += data


async def _refusal(asking):
    try:
        await asking
    except IqError as error:
        return error.condition
    raise AssertionError("nobody was refused")
