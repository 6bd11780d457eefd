"""Tests the needs of phones: sessions that outlive their connection, no traffic while nobody looks,
and resumption in one round trip.
"""

import asyncio
import base64
import hashlib
import hmac
import re

from slixmpp.xmlstream import ET
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import StanzaPath

from person import Person, befriend
from rookery import Rookery
from wire import Wire


async def a_session_goes_on_after_a_break():
    async with Rookery("alice", "bob") as server:
        alice = await _phone(server)
        async with Person(server, "bob@localhost") as bob:
            await befriend(alice, bob)
            bob.write(alice.bare, "before")
            await alice.reads("before", of=bob.bare)
            for text in ("1", "2", "3"):
                alice.client.transport.abort()
                await alice.until(lambda: alice.client.transport is None, "the loss of the connection")
                bob.write(alice.bare, text)
                await bob.quiet()
                await _again(alice)
                await alice.reads(text, of=bob.bare)
                alice.write(bob.bare, f"got {text}")
                await bob.reads(f"got {text}", of=alice.bare)
            assert not any(presence["type"] == "unavailable" for presence in bob.seen["presence"])
        await alice.logout()


async def a_session_goes_on_after_a_restart():
    async with Rookery("alice", "bob") as server:
        alice, bob = await _phone(server), await _phone(server, "bob@localhost")
        await befriend(alice, bob)
        room = "coven@conference.localhost"
        for person in (alice, bob):
            person.client.register_plugin("xep_0045")
            await person.client["xep_0045"].join_muc_wait(room, person.bare.split("@")[0], maxstanzas=0)
            if person is alice:
                form = await person.client["xep_0045"].get_room_config(room, timeout=20)
                form["type"] = "submit"
                await person.client["xep_0045"].set_room_config(room, form, timeout=20)
        await alice.quiet()
        await bob.quiet()
        for text in ("1", "2"):
            alice.seen["presence"].clear()
            bob.seen["presence"].clear()
            bob.write(alice.bare, text)
            assert await server.stop() == 0
            for person in (alice, bob):
                await person.until(lambda person=person: person.client.transport is None, "the loss of the connection")
            await server.start()
            await _again(alice)
            await _again(bob)
            await alice.reads(text, of=bob.bare)
            alice.write(bob.bare, f"got {text}")
            await bob.reads(f"got {text}", of=alice.bare)
            await alice.quiet()
            for person in (alice, bob):
                assert not person.seen["presence"], person.seen["presence"]
                # Both are still in the room (XEP-0410).
                nick = person.bare.split("@")[0]
                await person.client["xep_0199"].send_ping(f"{room}/{nick}", timeout=10)
        await alice.logout()
        await bob.logout()


async def what_was_on_its_way_comes_once_and_in_order():
    async with Rookery("alice", "bob") as server:
        alice = await _phone(server)
        async with Person(server, "bob@localhost") as bob:
            texts = [str(number) for number in range(200)]
            for number, text in enumerate(texts):
                bob.write(alice.bare, text)
                if number % 40 == 20:
                    await asyncio.sleep(0)
                    alice.client.transport.abort()
                    await alice.until(lambda: alice.client.transport is None, "the loss of the connection")
                    await _again(alice)
            await bob.quiet()
            for text in texts:
                await alice.reads(text, of=bob.bare)
            await alice.quiet()
            assert not alice.seen["message"]
        await alice.logout()


async def a_session_that_waited_too_long_is_over():
    tables = "[modules.stream_management]\nresume_seconds = 1"
    async with Rookery("alice", "bob", tables=tables) as server:
        alice = await _phone(server)
        async with Person(server, "bob@localhost") as bob:
            await befriend(alice, bob)
            alice.client.transport.abort()
            await bob.presence(alice.bare, "unavailable")
            bob.write(alice.bare, "later")
            await bob.quiet()
        async with Person(server, "alice@localhost") as again:
            await again.reads("later", of="bob@localhost")
        await alice.logout()


async def an_inactive_client_is_left_alone():
    async with Rookery("alice", "bob") as server:
        alice = Person(server, "alice@localhost")
        alice.client.register_plugin("xep_0352")
        async with alice, Person(server, "bob@localhost") as bob:
            await befriend(alice, bob)
            alice.client["xep_0352"].send_inactive()
            await alice.quiet()
            alice.seen["presence"].clear()
            for show in ("away", "xa", "dnd"):
                bob.client.send_presence(pshow=show)
            await bob.quiet()
            await asyncio.sleep(0.3)
            assert not alice.seen["presence"]
            bob.write(alice.bare, "hi")
            await alice.reads("hi", of=bob.bare)
            assert [presence["show"] for presence in alice.seen["presence"]] == ["dnd"]
            alice.client["xep_0352"].send_active()
            bob.client.send_presence()
            await alice.until(lambda: len(alice.seen["presence"]) == 2, "presence")


async def who_is_away_is_pushed_to():
    """An ordinary session plays the push service."""
    async with Rookery("alice", "bob", "service") as server:
        alice = Person(server, "alice@localhost")
        async with Person(server, "service@localhost") as service, Person(server, "bob@localhost") as bob:
            service.client.register_plugin("xep_0060")
            told = service.seen["publish"] = []

            def publish(iq):
                told.append(iq)
                iq.reply().send()

            service.client.register_handler(Callback("publish", StanzaPath("iq@type=set/pubsub/publish"), publish))
            options = (
                "<x xmlns='jabber:x:data' type='submit'><field var='FORM_TYPE'>"
                "<value>http://jabber.org/protocol/pubsub#publish-options</value></field>"
                "<field var='secret'><value>eruio234vzxc2kla-91</value></field></x>"
            )
            address = f"xmlns='urn:xmpp:push:0' jid='{service.jid}' node='yxs32uqsflafdk3iuqo'"
            await alice.login()
            info = await alice.client["xep_0030"].get_info(jid=alice.bare, timeout=20)
            assert "urn:xmpp:push:0" in info["disco_info"]["features"], info
            await _switches_push(alice, f"<enable {address}>{options}</enable>")
            bob.write(alice.bare, "while she looks")
            await alice.reads("while she looks", of=bob.bare)
            assert not told
            await alice.logout()
            bob.write(alice.bare, "are you there?")
            iq = await service.take("publish", lambda _: True)
            text = str(iq)
            assert iq["pubsub"]["publish"]["node"] == "yxs32uqsflafdk3iuqo", iq
            assert "eruio234vzxc2kla-91" in text and "are you there" not in text and bob.bare not in text, iq
            field = lambda var: next(it for it in iq.xml.iter("{jabber:x:data}field") if it.get("var") == var)
            assert field("message-count")[0].text == "1", iq
            alice = Person(server, "alice@localhost")
            await alice.login()
            await alice.reads("are you there?", of=bob.bare)
            await _switches_push(alice, f"<disable {address}/>")
            await alice.logout()
            bob.write(alice.bare, "later")
            await bob.quiet()
            await asyncio.sleep(0.3)
            await service.quiet()
            assert not told, told


async def login_and_session_are_one_exchange():
    async with Rookery("alice", "bob") as server:
        wire = await _Wire.open(server)
        assert "urn:xmpp:sasl:2" in wire.features and "urn:xmpp:bind:0" in wire.features
        bind = "<bind xmlns='urn:xmpp:bind:0'><tag>Wire</tag><enable xmlns='urn:xmpp:sm:3' resume='true'/></bind>"
        success = await wire.plain("alice", "secret", AGENT + bind)
        jid = re.search(r"<authorization-identifier>(.*?)</", success)[1]
        assert re.fullmatch(r"alice@localhost/Wire/\w+", jid), jid
        session = re.search(r"<enabled [^>]*id='(\w+)'", success)[1]
        wire.send("<presence/>")
        await wire.until("<presence")
        wire.abort()
        async with Person(server, "bob@localhost") as bob:
            bob.write(jid, "hi")
            await bob.quiet()
            again = await _Wire.open(server)
            resume = f"<resume xmlns='urn:xmpp:sm:3' previd='{session}' h='1'/>"
            success = await again.plain("alice", "secret", AGENT + resume + bind)
            assert "<resumed " in success and "<bound" not in success, success
            await again.until("<body>hi</body>")
            again.abort()


async def a_token_is_enough():
    async with Rookery("alice") as server:
        for mechanism in ("HT-SHA-256-ENDP",):
            wire = await _Wire.open(server)
            assert mechanism in wire.features
            want = f"<request-token xmlns='urn:xmpp:fast:0' mechanism='{mechanism}'/>"
            success = await wire.plain("alice", "secret", AGENT + want)
            token = re.search(r"<token [^>]*token='([^']+)'", success)[1]
            wire.abort()
            for _ in range(2):
                wire = await _Wire.open(server)
                success = await wire.token("alice", token, mechanism, AGENT + "<bind xmlns='urn:xmpp:bind:0'/>")
                assert "<bound" in success, success
                wire.abort()
        server.command("user", "passwd", "alice@localhost", "--password-stdin", "--allow-short", said="other\n")
        wire = await _Wire.open(server)
        refused = await wire.token("alice", token, mechanism, AGENT)
        assert "<failure" in refused and "not-authorized" in refused, refused
        wire.abort()


async def _phone(server, address="alice@localhost"):
    """Alice, or somebody else, with stream management."""
    alice = Person(server, address)
    # The scenarios break connections on purpose, so lost ones aren't recorded.
    for event in ("disconnected", "connection_failed"):
        alice.client.del_event_handler(event, alice.seen[event].append)
    alice.client.register_plugin("xep_0198")
    enabled = asyncio.ensure_future(alice.client.wait_until("sm_enabled", 20))
    await asyncio.sleep(0)
    await alice.login()
    await enabled
    await alice.quiet()
    return alice


async def _switches_push(person, payload):
    iq = person.client.make_iq_set()
    iq.append(ET.fromstring(payload))
    await iq.send(timeout=20)


async def _again(person):
    """Connects again and resumes the session."""
    resumed = asyncio.ensure_future(person.client.wait_until("session_resumed", 20))
    await asyncio.sleep(0)
    person.client.connect("127.0.0.1", person.server.port)
    await resumed


class _Wire(Wire):
    """The same with logins by SASL2."""

    async def plain(self, user, password, along):
        return await self.authenticate("PLAIN", f"\0{user}\0{password}".encode(), along)

    async def token(self, user, token, mechanism, along):
        binding = b""
        if mechanism.endswith("-ENDP"):
            certificate = self.writer.get_extra_info("ssl_object").getpeercert(True)
            binding = hashlib.sha256(certificate).digest()
        prove = lambda who: hmac.new(token.encode(), who + binding, "sha256").digest()
        answer = await self.authenticate(mechanism, user.encode() + b"\0" + prove(b"Initiator"), along)
        if "<success" in answer:
            data = re.search(r"<additional-data>(.*?)</", answer)[1]
            assert base64.b64decode(data) == prove(b"Responder")
        return answer

    async def authenticate(self, mechanism, initial, along):
        initial = base64.b64encode(initial).decode()
        self.send(
            f"<authenticate xmlns='urn:xmpp:sasl:2' mechanism='{mechanism}'><initial-response>{initial}</initial-response>"
            f"{along}</authenticate>"
        )
        return await self.until("</success>", "</failure>")


AGENT = "<user-agent id='d4565fa7-4d72-4749-b3d3-740edbf87770'><software>scenario</software></user-agent>"
