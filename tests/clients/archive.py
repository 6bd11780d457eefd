"""Uses slixmpp's plugins for archives and carbons. """

import asyncio
from datetime import datetime, timedelta, timezone

from slixmpp.exceptions import IqError
from slixmpp.xmlstream import ET

from person import PATIENCE, Person
from rookery import Rookery


def _device(server, jid):
    person = Person(server, jid)
    for plugin in ("xep_0004", "xep_0059", "xep_0280", "xep_0297", "xep_0313", "xep_0334", "xep_0359", "xep_0441"):
        person.client.register_plugin(plugin)
    for event in ("carbon_received", "carbon_sent"):
        person.seen[event] = []
        person.client.add_event_handler(event, person.seen[event].append)
    return person


async def _archived(person, rsm=None, **wanted):
    """The texts on a page of the account's own archive, and the page's `<fin/>`."""
    page = await person.client["xep_0313"].retrieve(rsm=rsm, **wanted)
    messages = [result["mam_result"]["forwarded"]["stanza"]["body"] for result in page["mam"]["results"]]
    return messages, page["mam_fin"]


async def a_conversation_is_kept_for_both():
    async with Rookery("alice", "bob") as server:
        async with _device(server, "alice@localhost") as alice, _device(server, "bob@localhost") as bob:
            alice.write(bob.bare, "Größe 🐦 <&>")
            await bob.reads("Größe 🐦 <&>", alice.bare)
            bob.write(alice.jid, "two")
            await alice.reads("two", bob.bare)
            for person in alice, bob:
                messages, end = await _archived(person)
                assert messages == ["Größe 🐦 <&>", "two"], messages
                assert end["complete"], end


async def a_page_follows_the_other():
    async with Rookery("alice", "bob") as server:
        async with _device(server, "alice@localhost") as alice, _device(server, "bob@localhost") as bob:
            for number in range(120):
                alice.write(bob.bare, str(number))
            for number in range(120):
                await bob.reads(str(number), alice.bare)
            read, after = [], None
            while True:
                messages, end = await _archived(bob, rsm={"max": 50, **({"after": after} if after else {})})
                read += messages
                if end["complete"]:
                    break
                after = end["rsm"]["last"]
            assert read == [str(number) for number in range(120)], read
            newest = bob.client["xep_0313"].iterate(reverse=True, rsm={"max": 3}, total=4)
            texts = [result["mam_result"]["forwarded"]["stanza"]["body"] async for result in newest]
            assert texts == ["119", "118", "117", "116"], texts


async def an_archive_is_filtered():
    async with Rookery("alice", "bob", "carol") as server:
        async with _device(server, "alice@localhost") as alice, _device(server, "bob@localhost") as bob:
            async with _device(server, "carol@localhost") as carol:
                for person in bob, carol:
                    person.write(alice.bare, f"from {person.bare}")
                    await alice.reads(f"from {person.bare}", person.bare)
            messages, _ = await _archived(alice, with_jid=bob.bare)
            assert messages == [f"from {bob.bare}"], messages
            future = datetime.now(timezone.utc) + timedelta(hours=1)
            messages, _ = await _archived(alice, start=future)
            assert messages == [], messages


async def what_was_taken_back_leaves_a_tombstone():
    async with Rookery("alice", "bob") as server:
        async with _device(server, "alice@localhost") as alice, _device(server, "bob@localhost") as bob:
            said = alice.client.make_message(bob.bare, "wrong recipient")
            said["id"] = "wrong-1"
            said.send()
            await bob.reads("wrong recipient", alice.bare)
            back = alice.client.make_message(bob.bare, "taken back")
            back["id"] = "back-1"
            back.append(ET.Element("{urn:xmpp:message-retract:1}retract", id="wrong-1"))
            back.send()
            await bob.reads("taken back", alice.bare)
            for person in alice, bob:
                tombstone = None
                # Nothing waits for the tombstone, which is written to the archive after the
                # retraction.
                async with asyncio.timeout(PATIENCE):
                    while tombstone is None:
                        page = await person.client["xep_0313"].retrieve()
                        first, second = (result["mam_result"]["forwarded"]["stanza"] for result in page["mam"]["results"])
                        tombstone = first.xml.find("{urn:xmpp:message-retract:1}retracted")
                assert tombstone.get("id") == "back-1", first
                assert not first["body"] and second["body"] == "taken back", (first, second)


async def who_was_away_finds_it_there():
    async with Rookery("alice", "bob") as server:
        async with _device(server, "alice@localhost") as alice:
            alice.write("bob@localhost", "see you")
            await alice.quiet()
        await server.stop()
        await server.start()
        async with _device(server, "bob@localhost") as bob:
            message = await bob.reads("see you", "alice@localhost")
            messages, end = await _archived(bob)
            assert messages == ["see you"], messages
            assert message["stanza_id"]["id"] == end["rsm"]["first"], (str(message), str(end))


async def preferences_are_kept():
    async with Rookery("alice", "bob") as server:
        async with _device(server, "alice@localhost") as alice, _device(server, "bob@localhost") as bob:
            set_to = await alice.client["xep_0441"].set_preferences(default="always", never=[bob.bare])
            assert [str(jid) for jid in set_to["mam_prefs"]["never"]] == [bob.bare], set_to
            bob.write(alice.bare, "off the record")
            await alice.reads("off the record", bob.bare)
            assert (await _archived(alice))[0] == []
            default, _, never = await alice.client["xep_0441"].get_preferences()
            assert (default, [str(jid) for jid in never]) == ("always", [bob.bare]), (default, never)


async def nobody_reads_what_is_not_theirs():
    async with Rookery("alice", "bob") as server:
        async with _device(server, "alice@localhost") as alice, _device(server, "bob@localhost") as bob:
            alice.write(bob.bare, "for you only")
            await bob.reads("for you only", alice.bare)
            try:
                await alice.client["xep_0313"].retrieve(jid=bob.bare)
                raise AssertionError("Alice reads the archive of Bob")
            except IqError as error:
                assert error.condition == "forbidden", error


async def all_devices_have_both_sides():
    async with Rookery("alice", "bob") as server:
        async with _device(server, "alice@localhost/desk") as desk, _device(server, "alice@localhost/phone") as phone:
            await phone.client["xep_0280"].enable()
            async with _device(server, "bob@localhost/home") as bob:
                desk.write(bob.jid, "from the desk")
                await bob.reads("from the desk", desk.bare)
                sent = await phone.take("carbon_sent", lambda _: True)
                assert sent["carbon_sent"]["body"] == "from the desk", sent
                bob.write(desk.jid, "to the desk")
                await desk.reads("to the desk", bob.bare)
                got = await phone.take("carbon_received", lambda _: True)
                assert (got["carbon_received"]["body"], got["from"]) == ("to the desk", phone.bare), got
                # A message from somebody else is not a carbon copy.
                forged = bob.client.make_message(mto=phone.jid, mtype="chat", mbody="look")
                forged.append(ET.fromstring(
                    "<received xmlns='urn:xmpp:carbons:2'><forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client' "
                    "from='carol@localhost'><body>lies</body></message></forwarded></received>"
                ))
                forged.send()
                await phone.take("message", lambda it: it["body"] == "look" and "lies" not in str(it))
                await phone.quiet()
                assert not phone.seen["carbon_received"], phone.seen["carbon_received"]
