"""Accounts that move to another server, or go: everything comes along, and nothing stays."""

import sqlite3

from slixmpp.xmlstream import ET

from person import Person, befriend
from rookery import Rookery


async def an_account_moves_with_all_it_has():
    async with Rookery("alice", "bob") as old, Rookery("bob") as new:
        async with _mover(old, "alice@localhost") as alice, Person(old, "bob@localhost") as bob:
            await befriend(alice, bob)
            alice.client.update_roster(bob.bare, name="Bobby", groups=["Friends"])
            await _asks(alice, "set", "<vCard xmlns='vcard-temp'><FN>Alice</FN></vCard>")
            await _asks(alice, "set", "<query xmlns='jabber:iq:private'><notes xmlns='urn:example:notes'>buy milk</notes></query>")
            await _asks(alice, "set", f"<pubsub xmlns='{PUBSUB}'><publish node='urn:example:mood'><item id='1'><happy xmlns='urn:example:mood'/></item></publish></pubsub>")
            await _asks(alice, "set", "<block xmlns='urn:xmpp:blocking'><item jid='mallory@localhost'/></block>")
            bob.write(alice.bare, "in the archive")
            await alice.reads("in the archive", of=bob.bare)
            await alice.logout()
            bob.write("alice@localhost", "while you were away")
            await bob.quiet()
        await old.stop()
        old.command("user", "export", "alice@localhost", "alice.xml")
        await new.stop()
        new.command("user", "import", str(old.folder / "alice.xml"))
        await new.start()
        async with _mover(new, "alice@localhost") as alice:
            item = alice.item("bob@localhost")
            assert (item["subscription"], item["name"], list(item["groups"])) == ("both", "Bobby", ["Friends"]), item
            await alice.reads("while you were away", of="bob@localhost")
            card = await _asks(alice, "get", "<vCard xmlns='vcard-temp'/>")
            assert card.findtext(".//{vcard-temp}FN") == "Alice", ET.tostring(card)
            notes = await _asks(alice, "get", "<query xmlns='jabber:iq:private'><notes xmlns='urn:example:notes'/></query>")
            assert notes.findtext(".//{urn:example:notes}notes") == "buy milk", ET.tostring(notes)
            mood = await _asks(alice, "get", f"<pubsub xmlns='{PUBSUB}'><items node='urn:example:mood'/></pubsub>")
            assert mood.find(".//{urn:example:mood}happy") is not None, ET.tostring(mood)
            blocked = await _asks(alice, "get", "<blocklist xmlns='urn:xmpp:blocking'/>")
            assert [entry.get("jid") for entry in blocked.iter("{urn:xmpp:blocking}item")] == ["mallory@localhost"]
            page = await alice.client["xep_0313"].retrieve()
            bodies = [result["mam_result"]["forwarded"]["stanza"]["body"] for result in page["mam"]["results"]]
            assert "in the archive" in bodies, bodies


async def a_removed_account_leaves_nothing_behind():
    async with Rookery("alicewhowent", "bob") as server:
        async with _mover(server, "alicewhowent@localhost") as alice, Person(server, "bob@localhost") as bob:
            await befriend(alice, bob)
            await _asks(alice, "set", "<vCard xmlns='vcard-temp'><FN>Alice</FN></vCard>")
            await _asks(alice, "set", f"<pubsub xmlns='{PUBSUB}'><publish node='urn:example:mood'><item id='1'><happy xmlns='urn:example:mood'/></item></publish></pubsub>")
            await alice.quiet()
        await server.stop()
        server.command("user", "remove", "alicewhowent@localhost")
        await server.start()
        await server.stop()
        database = next((server.folder / "rookery-data").glob("*.db"))
        with sqlite3.connect(database) as connection:
            # What others keep of their own is theirs; for a minute it is noted that sessions of the account have to end.
            theirs = {"roster_items", "meta"}
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
            left = {table for table in tables for row in connection.execute(f"SELECT * FROM {table}") if b"alicewhowent" in repr(row).encode()}
        assert left <= theirs, left


def _mover(server, jid):
    person = Person(server, jid)
    for plugin in ("xep_0054", "xep_0313"):
        person.client.register_plugin(plugin)
    return person


async def _asks(person, kind, payload):
    iq = person.client.make_iq(itype=kind)
    iq.append(ET.fromstring(payload))
    return (await iq.send(timeout=20)).xml


PUBSUB = "http://jabber.org/protocol/pubsub"
