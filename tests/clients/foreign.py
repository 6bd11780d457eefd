"""Imports accounts from other servers (XEP-0227): Debian's ejabberd and Prosody export real
accounts, whose owners continue here.

Clients fill the other server, which exports to a folder (see foreign_export.py). The command line
imports that, and the owners log in with their old passwords: they find their contacts with names
and groups, vCards, private data, bookmarks by the old and the new protocol, nodes, block lists, and
offline messages.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

from foreign_export import PASSWORD
from person import Person
from rookery import BINARY, Rookery

# The parts that a server's export lacks: ejabberd doesn't persist items of personal nodes by
# default, and Prosody's migrator knows few stores.
MISSING = {
    "ejabberd": {"tune", "archive"},
    "prosody": {"card", "blocked", "waiting", "archive"},
    "ejabberd-database": set(),
    # Prosody converts vCards to XEP-0292, in a node.
    "prosody-database": {"card"},
}


async def accounts_come_from_ejabberd():
    await _moves_from("ejabberd")


async def accounts_come_from_prosody():
    await _moves_from("prosody")


async def accounts_come_from_the_database_of_ejabberd():
    await _moves_from("ejabberd-database")


async def accounts_come_from_the_database_of_prosody():
    await _moves_from("prosody-database")


async def _moves_from(server):
    with tempfile.TemporaryDirectory(prefix="foreign-") as folder:
        export = [sys.executable, Path(__file__).with_name("foreign_export.py"), server, folder]
        exported = await asyncio.to_thread(subprocess.run, export, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert exported.returncode == 0, exported.stdout
        await _check(server, Path(folder))


async def _check(server, folder):
    async with Rookery() as rookery:
        await rookery.stop()
        # Omissions are reported and make the exit code 1: keys for SCRAM-SHA-1 only are all that
        # these servers have.
        for source in _sources(server, folder):
            command = [BINARY, "--config", "rookery.toml", "user", "import", "--allow-short", *source]
            print(subprocess.run(command, cwd=rookery.folder, capture_output=True, text=True))
        await rookery.start()
        people = [Person(rookery, f"{name}@localhost", PASSWORD, mechanism="SCRAM-SHA-1") for name in ("juliet", "romeo")]
        async with people[0] as juliet, people[1] as romeo:
            await _contacts(juliet, romeo)
            await _presence(juliet, romeo)
            await _data(juliet)
            missing = MISSING[server]
            if "card" not in missing:
                card = await _asks(juliet, "get", "<vCard xmlns='vcard-temp'/>")
                assert card.findtext(".//{vcard-temp}FN") == "Juliet Capulet", ET.tostring(card)
            if "tune" not in missing:
                (tune,) = await _node(juliet, "http://jabber.org/protocol/tune")
                assert tune.findtext(".//{http://jabber.org/protocol/tune}artist") == "Yes", ET.tostring(tune)
            if "blocked" not in missing:
                listed = await _asks(juliet, "get", "<blocklist xmlns='urn:xmpp:blocking'/>")
                assert [item.get("jid") for item in listed.iter("{urn:xmpp:blocking}item")] == ["tybalt@far.example"]
            if "waiting" not in missing:
                await juliet.reads("Art thou there?", of="romeo@localhost")
            if "archive" not in missing:
                kept = await _asks(romeo, "get", "<metadata xmlns='urn:xmpp:mam:2'/>")
                assert kept.find(".//{urn:xmpp:mam:2}start") is not None, ET.tostring(kept)
        if server == "ejabberd-database":
            async with Person(rookery, "nurse@localhost", PASSWORD):
                pass


def _sources(server, folder):
    """The sources from which the command line imports."""
    name, _, kind = server.partition("-")
    if not kind:
        return [[file] for file in _exports(folder)]
    source = ["--from", folder / f"{name}.db", "--schema", name]
    return [source + (["--domain", "localhost"] if name == "ejabberd" else [])]


def _exports(folder):
    """The files to import: ejabberd's main file includes the others, Prosody has one for each
    account.
    """
    files = sorted(folder.rglob("*.xml"))
    main = [file for file in files if "include" in file.read_text()]
    assert files, f"nothing was exported to {folder}"
    return main or files


async def _contacts(juliet, romeo):
    for one, other in ((juliet, romeo), (romeo, juliet)):
        item = one.item(other.bare)
        assert (item["subscription"], item["name"], list(item["groups"])) == ("both", "Friend", ["Friends"]), item
    assert juliet.item("stranger@far.example")["pending_out"], "the request that nobody has answered"


async def _presence(juliet, romeo):
    """Asserts that contacts see each other's presence without new subscriptions."""
    await juliet.presence(romeo.bare)
    await romeo.presence(juliet.bare)


async def _data(juliet):
    private = await _asks(juliet, "get", "<query xmlns='jabber:iq:private'><exodus xmlns='exodus:prefs'/></query>")
    assert private.findtext(".//{exodus:prefs}defaultnick") == "Jul", ET.tostring(private)
    old = await _asks(juliet, "get", "<query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'/></query>")
    assert [room.get("jid") for room in old.iter("{storage:bookmarks}conference")] == ["coven@chat.example"], ET.tostring(old)
    new = await _node(juliet, "urn:xmpp:bookmarks:1")
    assert [item.get("id") for item in new] == ["coven@chat.example"], new


async def _node(person, name):
    answer = await _asks(person, "get", f"<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='{name}'/></pubsub>")
    return list(answer.iter("{http://jabber.org/protocol/pubsub}item"))


async def _asks(person, kind, payload):
    iq = person.client.make_iq(itype=kind)
    iq.append(ET.fromstring(payload))
    return (await iq.send(timeout=20)).xml

