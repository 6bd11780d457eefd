"""Sends messages: to people who are online or offline, long ones, and in every script."""

import datetime
from xml.etree import ElementTree as ET

from person import Person, befriend
from rookery import Rookery

TEXTS = (
    "hello",
    "größe – naïve – 水 – עברית – ‮",
    "👩‍👩‍👧‍👦 🐦 🇩🇪",
    "<b>&amp; \"quotes\" 'too' ]]> </body>",
    " spaces \t and\nlines ",
    "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U0010fffd",
)


async def messages_go_both_ways():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            await befriend(alice, bob)
            for text in TEXTS:
                alice.write(bob.bare, text)
                message = await bob.reads(text, of=alice.bare)
                assert message["from"] == alice.jid and message["type"] == "chat"
                bob.write(message["from"], text[::-1])
                await alice.reads(text[::-1], of=bob.bare)


async def a_hundred_kilobytes_arrive_whole():
    text = "".join(f"{number:05} 🐦\n" for number in range(9_500))
    assert len(text.encode()) > 100_000
    async with Rookery("alice", "bob") as server:
        for direct in (False, True):
            alice, bob = (Person(server, f"{name}@localhost", direct=direct) for name in ("alice", "bob"))
            async with alice, bob:
                alice.write(bob.bare, text)
                await bob.reads(text, of=alice.bare)


async def a_thousand_arrive_in_order():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            for number in range(1000):
                alice.write(bob.jid, f"number {number}")
            for number in range(1000):
                await bob.reads(f"number {number}", of=alice.bare)


async def all_devices_of_a_user_get_them():
    async with Rookery("alice", "bob") as server:
        desk, phone = Person(server, "bob@localhost/desk"), Person(server, "bob@localhost/phone")
        async with Person(server, "alice@localhost") as alice, desk, phone:
            alice.write("bob@localhost", "to all")
            await desk.reads("to all", of=alice.bare)
            await phone.reads("to all", of=alice.bare)
            alice.write("bob@localhost/phone", "to one")
            await phone.reads("to one", of=alice.bare)
            await desk.quiet()
            assert not desk.seen["message"]


async def nobody_can_be_impersonated():
    async with Rookery("alice", "bob", "mallory") as server:
        async with Person(server, "mallory@localhost") as mallory, Person(server, "bob@localhost") as bob:
            mallory.client.send_raw("<message from='alice@localhost' to='bob@localhost' type='chat'><body>I am Alice</body></message>")
            error = await mallory.take("stream_error", lambda _: True)
            assert error["condition"] == "invalid-from", error
            await bob.quiet()
            assert not bob.seen["message"]


async def what_clients_say_of_messages_passes_untouched():
    async with Rookery("alice", "bob") as server:
        phone, desk = (Person(server, f"bob@localhost/{resource}") for resource in ("phone", "desk"))
        for person in (phone, desk):
            person.client.register_plugin("xep_0280")
            person.client.register_plugin("xep_0313")
        desk.seen["carbon_received"] = []
        desk.client.add_event_handler("carbon_received", desk.seen["carbon_received"].append)
        async with Person(server, "alice@localhost") as alice, phone, desk:
            await desk.client["xep_0280"].enable()
            sent = alice.client.make_message(phone.jid, "look", mtype="chat")
            for payload in PAYLOADS:
                sent.append(ET.fromstring(payload))
            sent.send()
            came = await phone.reads("look", of=alice.bare)
            copy = (await desk.take("carbon_received", lambda _: True))["carbon_received"]
            page = await phone.client["xep_0313"].retrieve()
            (archived,) = page["mam"]["results"]
            wanted = [ET.canonicalize(payload, rewrite_prefixes=True) for payload in PAYLOADS]
            for found in (came, copy, archived["mam_result"]["forwarded"]["stanza"]):
                texts = [ET.canonicalize(ET.tostring(child, encoding="unicode"), rewrite_prefixes=True) for child in found.xml]
                assert all(payload in texts for payload in wanted), (wanted, texts)


async def messages_wait_for_who_is_away():
    async with Rookery("alice", "bob") as server:
        before = datetime.datetime.now(datetime.timezone.utc)
        async with Person(server, "alice@localhost", managed=True) as alice:
            for number, text in enumerate(TEXTS):
                alice.write("bob@localhost", text, mtype=("chat", "normal")[number % 2])
            alice.write("bob@localhost", "a headline isn't kept", mtype="headline")
            await alice.acknowledged()
        after = datetime.datetime.now(datetime.timezone.utc)
        async with Person(server, "bob@localhost") as bob:
            stamps = []
            for text in TEXTS:
                message = await bob.reads(text, of="alice@localhost")
                assert message["delay"]["from"] == "localhost", message
                stamps.append(message["delay"]["stamp"])
            second = datetime.timedelta(seconds=1)
            assert before - second <= stamps[0] and stamps[-1] <= after + second, (before, stamps, after)
            assert stamps == sorted(stamps), stamps
            await bob.quiet()
            assert not bob.seen["message"], bob.seen["message"]
        async with Person(server, "bob@localhost") as bob:
            await bob.quiet()
            assert not bob.seen["message"], "they come once"


async def who_is_not_available_is_away():
    async with Rookery("alice", "bob") as server:
        alice, bob = Person(server, "alice@localhost", managed=True), Person(server, "bob@localhost", present=False)
        async with alice, bob:
            await bob.client.get_roster()
            alice.write("bob@localhost", "later")
            await alice.acknowledged()
            await bob.quiet()
            assert not bob.seen["message"]
            bob.client.send_presence()
            assert (await bob.reads("later", of=alice.bare))["delay"]["stamp"]


async def a_message_to_nobody_comes_back():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            alice.write("nobody@localhost", "is there anybody?")
            error = await alice.take("message_error", lambda _: True)
            assert error["from"] == "nobody@localhost" and error["error"]["condition"] == "service-unavailable", error


async def other_domains_cannot_be_reached():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            alice.write("bob@elsewhere.example", "hello")
            error = await alice.take("message_error", lambda _: True)
            assert error["error"]["condition"] in ("remote-server-not-found", "service-unavailable"), error


# One payload of each kind that a server must not change: receipts, markers, corrections, reactions,
# chat states, replies, OMEMO, OpenPGP, calls.
PAYLOADS = [
    '<request xmlns="urn:xmpp:receipts"></request>',
    '<markable xmlns="urn:xmpp:chat-markers:0"></markable>',
    '<replace xmlns="urn:xmpp:message-correct:0" id="bad1"></replace>',
    '<reactions xmlns="urn:xmpp:reactions:0" id="one"><reaction>👋</reaction></reactions>',
    '<active xmlns="http://jabber.org/protocol/chatstates"></active>',
    '<reply xmlns="urn:xmpp:reply:0" id="two" to="bob@localhost"></reply>',
    '<encrypted xmlns="urn:xmpp:omemo:2"><header sid="27183"></header><payload>c2VjcmV0</payload></encrypted>',
    '<openpgp xmlns="urn:xmpp:openpgp:0">c2VjcmV0</openpgp>',
    '<propose xmlns="urn:xmpp:jingle-message:0" id="call"></propose>',
]
