"""Moves accounts to another server, or removes them: everything moves, and nothing is left
behind.
"""

import asyncio
import contextlib
import sqlite3

from slixmpp.exceptions import IqError
from slixmpp.xmlstream import ET

from browser import Browser, token
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
    """Removes an account on the command line while no server runs: all its data is gone when the
    command ends.
    """
    async with Rookery("alicewhowent", "bob", tables=TABLES) as server:
        async with Person(server, "bob@localhost") as bob:
            await _live(server, "alicewhowent@localhost", bob)
        await server.stop()
        server.command("user", "remove", "alicewhowent@localhost")
        assert not _left(server, "alicewhowent"), _left(server, "alicewhowent")
        await server.start()
        async with Person(server, "bob@localhost") as bob:
            assert bob.item("alicewhowent@localhost")["subscription"] == "none", bob.item("alicewhowent@localhost")


async def a_removed_account_leaves_nothing():
    """A running server removes an account at once, however it is requested; large data follows
    within seconds.
    """
    ways = {"cli": _by_command_line, "api": _by_api, "page": _by_admin_page, "adhoc": _by_command, "itself": _by_itself}
    names = [f"whowent{way}" for way in ways]
    async with Rookery("admin", "bob", *names, tables=TABLES) as server:
        async with Person(server, "bob@localhost") as bob:
            for name, (way, remove) in zip(names, ways.items()):
                await _live(server, f"{name}@localhost", bob)
                await remove(server, f"{name}@localhost")
                if way != "itself":
                    assert f"{name}@localhost" not in server.command("user", "list"), "it was removed when that was answered"
                await bob.until(lambda: not _left(server, name), f"the end of what {way} removes")
                await bob.until(lambda: bob.item(f"{name}@localhost")["subscription"] == "none", f"the end of a subscription, {way}")
        assert not list((server.folder / "rookery-data/uploads").rglob("*/*"))


async def the_next_of_that_name_finds_nothing():
    async with Rookery("alice", "bob", tables=TABLES) as server, Person(server, "bob@localhost") as bob:
        await _live(server, "alice@localhost", bob)
        # The account is removed just after its last messages, while its client is online.
        old = _mover(server, "alice@localhost")
        async with old:
            await old.reads("while you were away", of=bob.bare)
            bob.write(old.bare, "last words")
            await old.reads("last words", of=bob.bare)
            server.command("user", "remove", "alice@localhost")
            server.command("user", "add", "alice@localhost", "--password-stdin", "--allow-short", said="another\n")
            await old.until(lambda: old.seen["disconnected"])
        async with _mover(server, "alice@localhost", "another") as heir:
            assert not set(heir.client.client_roster.keys()) - {heir.bare}, heir.client.client_roster
            await heir.quiet()
            assert not heir.seen["message"], heir.seen
            page = await heir.client["xep_0313"].retrieve()
            assert not page["mam"]["results"], page
            card = await _asks(heir, "get", "<vCard xmlns='vcard-temp'/>")
            assert card.find(".//{vcard-temp}FN") is None, ET.tostring(card)
            try:
                mood = await _asks(heir, "get", f"<pubsub xmlns='{PUBSUB}'><items node='urn:example:mood'/></pubsub>")
                raise AssertionError(ET.tostring(mood))
            except IqError as error:
                assert error.condition == "item-not-found", error
            notes = await _asks(heir, "get", "<query xmlns='jabber:iq:private'><notes xmlns='urn:example:notes'/></query>")
            assert not notes.findtext(".//{urn:example:notes}notes"), ET.tostring(notes)
            # No presence is sent any more, in either direction.
            bob.seen["presence"].clear()
            bob.client.send_presence(pstatus="for friends")
            heir.client.send_presence(pstatus="for friends")
            await heir.quiet()
            await bob.quiet()
            for one, other in ((heir, bob), (bob, heir)):
                assert not [it for it in one.seen["presence"] if it["from"].bare == other.bare and it["type"] == "available"], one.seen


async def _live(server, jid, bob):
    """Lets a user leave data of every kind on the server, in every place that stores any."""
    async with _mover(server, jid) as person:
        await befriend(person, bob)
        await _asks(person, "set", "<vCard xmlns='vcard-temp'><FN>Alice</FN></vCard>")
        await _asks(person, "set", "<query xmlns='jabber:iq:private'><notes xmlns='urn:example:notes'>buy milk</notes></query>")
        await _asks(person, "set", f"<pubsub xmlns='{PUBSUB}'><publish node='urn:example:mood'><item id='1'><happy xmlns='urn:example:mood'/></item></publish></pubsub>")
        service = "pubsub.localhost"
        name = person.client.boundjid.user
        for wanted in (f"<create node='of {name}'/>", f"<publish node='of {name}'><item id='1'><n xmlns='urn:n'/></item></publish>"):
            await _asks(person, "set", f"<pubsub xmlns='{PUBSUB}'>{wanted}</pubsub>", service)
        await _asks(person, "set", "<block xmlns='urn:xmpp:blocking'><item jid='mallory@localhost'/></block>")
        await _asks(person, "set", "<prefs xmlns='urn:xmpp:mam:2' default='always'><always/><never/></prefs>")
        await _asks(person, "set", "<enable xmlns='urn:xmpp:push:0' jid='push.localhost' node='n'/>")
        command = "<command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:invite#invite' action='execute'/>"
        await _asks(person, "set", command, "localhost")
        slot = await _asks(person, "get", "<request xmlns='urn:xmpp:http:upload:0' filename='a.bin' size='4'/>", "upload.localhost")
        put = slot.find(".//{urn:xmpp:http:upload:0}put").get("url").split("/upload/")[1]
        assert Browser(server).ask("PUT", f"/upload/{put}", {"Content-Type": "application/octet-stream"}, b"mine").status == 201
        room = f"room-of-{name}@conference.localhost"
        person.client.send_raw(f"<presence to='{room}/{name}'><x xmlns='http://jabber.org/protocol/muc'/></presence>")
        await person.quiet()
        form = "<x xmlns='jabber:x:data' type='submit'><field var='muc#roomconfig_persistentroom'><value>1</value></field></x>"
        await _asks(person, "set", f"<query xmlns='http://jabber.org/protocol/muc#owner'>{form}</query>", room)
        other = f"<query xmlns='http://jabber.org/protocol/muc#admin'><item affiliation='owner' jid='{bob.bare}'/></query>"
        await _asks(person, "set", other, room)
        bob.write(person.bare, "for the archive")
        await person.reads("for the archive", of=bob.bare)
        person.write(bob.bare, "likewise")
        await bob.reads("likewise", of=person.bare)
    bob.write(jid, "while you were away")
    await bob.quiet()


def _left(server, name):
    """The places in the data folder that still name an account, except other accounts' own data,
    and messages and files without an owner.
    """
    theirs = {
        # The data of other accounts, and the administrators' actions.
        "roster_items": lambda row: True,
        "archive_messages": lambda row: _owned(row),
        "lists": lambda row: row[0] == "journal",
        # The room itself, which has another owner, and whose name contains the account's.
        "rooms": lambda row: True,
    }
    path = next((server.folder / "rookery-data").glob("*.db"))
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        owners = {owner for (owner,) in connection.execute("SELECT id FROM archives WHERE domain <> ''")}
        _owned = lambda row: row[0] in owners
        tables = [table for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
        rows = {table: connection.execute(f"SELECT * FROM {table}").fetchall() for table in tables}
    named = {table: [row for row in rows[table] if name in repr(row) and not theirs.get(table, lambda row: False)(row)] for table in tables}
    named["archives of nobody"] = [row for row in rows["archive_messages"] if not _owned(row)]
    named["rooms"] = [row for row in rows["room_affiliations"] if name in repr(row)]
    files = len(list((server.folder / "rookery-data/uploads").rglob("*/*")))
    named["files"] = [f"{files} files for {len(rows['slots'])} slots"] if files > len(rows["slots"]) or rows["slots"] else []
    return {table: rows for table, rows in named.items() if rows}


async def _by_command_line(server, jid):
    await asyncio.to_thread(server.command, "user", "remove", jid)


async def _by_api(server, jid):
    secret = server.command("token", "add", "remover", "--scope", "users:write").strip()
    answer = Browser(server).ask("DELETE", f"/api/v1/users/{jid.replace('@', '%40')}", {"Authorization": f"Bearer {secret}"})
    assert answer.status == 204, answer


async def _by_admin_page(server, jid):
    browser = Browser(server)
    assert browser.post("/admin/login", {"name": "admin", "password": "secret"}).status == 303
    page = browser.get("/admin/users")
    erased = browser.post("/admin/user", {"csrf": token(page.text), "jid": jid, "act": "erase", "confirm": jid})
    assert erased.status == 303, erased


async def _by_command(server, jid):
    async with _mover(server, "admin@localhost") as admin:
        node = "http://jabber.org/protocol/admin#delete-user"
        command = admin.client["xep_0050"]
        asked = (await command.send_command("localhost", node, timeout=20))["command"]
        form = admin.client["xep_0004"].make_form(ftype="submit")
        form.add_field(var="accountjids", value=[jid])
        done = await command.send_command("localhost", node, action="complete", payload=form, sessionid=asked["sessionid"], timeout=20)
        assert done["command"]["status"] == "completed", done


async def _by_itself(server, jid):
    person = _mover(server, jid)
    async with person:
        person.client.send_raw("<iq type='set' id='gone'><query xmlns='jabber:iq:register'><remove/></query></iq>")
        await person.until(lambda: person.seen["disconnected"])
        person.client.cancel_connection_attempt()


def _mover(server, jid, password="secret"):
    person = Person(server, jid, password)
    for plugin in ("xep_0004", "xep_0050", "xep_0054", "xep_0313"):
        person.client.register_plugin(plugin)
    return person


async def _asks(person, kind, payload, to=None):
    iq = person.client.make_iq(itype=kind, ito=to)
    iq.append(ET.fromstring(payload))
    return (await iq.send(timeout=20)).xml


PUBSUB = "http://jabber.org/protocol/pubsub"
TABLES = """
[modules.administration]
admins = ["admin@localhost"]
[modules.register]
users_invite = true
[modules.upload]
url = "https://localhost/upload"
"""
