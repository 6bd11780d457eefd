#!/usr/bin/env python3
"""Moves real accounts from ejabberd and Prosody to Rookery (XEP-0227), and looks at them as their owners do.

    ROOKERY=target/release/rookery tests/foreign/check.py [ejabberd] [prosody]

Has the other server fill in and export accounts (see export.py, whose needs it has), imports the export into a server of its own, and logs in with the old
passwords: contacts, names and groups, card, private data, bookmarks by the old and the new protocol, nodes, who is blocked, and what has waited have to be there.
Takes half a minute for each.
"""

import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree as ET

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

from person import Person
from rookery import BINARY, Rookery

from export import PASSWORD

# What a server doesn't write into its export: ejabberd keeps no items of personal nodes by default, Prosody's migrator has few stores.
MISSING = {"ejabberd": {"tune"}, "prosody": {"card", "blocked", "waiting"}}


def main():
    for server in sys.argv[1:] or ["ejabberd", "prosody"]:
        with tempfile.TemporaryDirectory(prefix="foreign-") as folder:
            subprocess.run([sys.executable, HERE / "export.py", server, folder], check=True)
            asyncio.run(check(server, Path(folder)))
        print(f"{server}: the accounts have moved")


async def check(server, folder):
    async with Rookery() as rookery:
        await rookery.stop()
        # What is left out is told and makes the exit code 1: keys for SCRAM-SHA-1 only are all that these servers have.
        for file in exports(folder):
            subprocess.run([BINARY, "--config", "rookery.toml", "user", "import", file], cwd=rookery.folder)
        await rookery.start()
        people = [Person(rookery, f"{name}@localhost", PASSWORD, mechanism="SCRAM-SHA-1") for name in ("juliet", "romeo")]
        async with people[0] as juliet, people[1] as romeo:
            await contacts(juliet, romeo)
            await presence(juliet, romeo)
            await data(juliet)
            missing = MISSING[server]
            if "card" not in missing:
                card = await asks(juliet, "get", "<vCard xmlns='vcard-temp'/>")
                assert card.findtext(".//{vcard-temp}FN") == "Juliet Capulet", ET.tostring(card)
            if "tune" not in missing:
                (tune,) = await node(juliet, "http://jabber.org/protocol/tune")
                assert tune.findtext(".//{http://jabber.org/protocol/tune}artist") == "Yes", ET.tostring(tune)
            if "blocked" not in missing:
                listed = await asks(juliet, "get", "<blocklist xmlns='urn:xmpp:blocking'/>")
                assert [item.get("jid") for item in listed.iter("{urn:xmpp:blocking}item")] == ["tybalt@far.example"]
            if "waiting" not in missing:
                await juliet.reads("Art thou there?", of="romeo@localhost")


def exports(folder):
    """The files to import: ejabberd's main file includes the others, Prosody has one for each account."""
    files = sorted(folder.rglob("*.xml"))
    main = [file for file in files if "include" in file.read_text()]
    assert files, f"nothing was exported to {folder}"
    return main or files


async def contacts(juliet, romeo):
    for one, other in ((juliet, romeo), (romeo, juliet)):
        item = one.item(other.bare)
        assert (item["subscription"], item["name"], list(item["groups"])) == ("both", "Friend", ["Friends"]), item
    assert juliet.item("stranger@far.example")["pending_out"], "the request that nobody has answered"


async def presence(juliet, romeo):
    """Contacts see each other without asking again."""
    await juliet.presence(romeo.bare)
    await romeo.presence(juliet.bare)


async def data(juliet):
    private = await asks(juliet, "get", "<query xmlns='jabber:iq:private'><exodus xmlns='exodus:prefs'/></query>")
    assert private.findtext(".//{exodus:prefs}defaultnick") == "Jul", ET.tostring(private)
    old = await asks(juliet, "get", "<query xmlns='jabber:iq:private'><storage xmlns='storage:bookmarks'/></query>")
    assert [room.get("jid") for room in old.iter("{storage:bookmarks}conference")] == ["coven@chat.example"], ET.tostring(old)
    new = await node(juliet, "urn:xmpp:bookmarks:1")
    assert [item.get("id") for item in new] == ["coven@chat.example"], new


async def node(person, name):
    answer = await asks(person, "get", f"<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='{name}'/></pubsub>")
    return list(answer.iter("{http://jabber.org/protocol/pubsub}item"))


async def asks(person, kind, payload):
    iq = person.client.make_iq(itype=kind)
    iq.append(ET.fromstring(payload))
    return (await iq.send(timeout=20)).xml


if __name__ == "__main__":
    main()
