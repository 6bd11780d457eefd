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
from rookery import Rookery

from export import PASSWORD

# What a server doesn't write into its export.
MISSING = {"ejabberd": set(), "prosody": {"blocked", "waiting"}}


def main():
    for server in sys.argv[1:] or ["ejabberd", "prosody"]:
        with tempfile.TemporaryDirectory(prefix="foreign-") as folder:
            subprocess.run([sys.executable, HERE / "export.py", server, folder], check=True)
            asyncio.run(check(server, Path(folder)))
        print(f"{server}: the accounts have moved")


async def check(server, folder):
    async with Rookery() as rookery:
        await rookery.stop()
        imported = [rookery.command("user", "import", str(file)) for file in exports(folder)]
        print(*imported, sep="")
        await rookery.start()
        async with Person(rookery, "juliet@localhost", PASSWORD) as juliet, Person(rookery, "romeo@localhost", PASSWORD) as romeo:
            await contacts(juliet, romeo)
            await presence(juliet, romeo)
            card = await juliet.client.plugin["xep_0054"].get_vcard()
            assert card["vcard_temp"]["FN"] == "Juliet Capulet", card
            await data(juliet)
            missing = MISSING[server]
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
    (tune,) = await node(juliet, "http://jabber.org/protocol/tune")
    assert tune.findtext(".//{http://jabber.org/protocol/tune}artist") == "Yes", ET.tostring(tune)


async def node(person, name):
    answer = await asks(person, "get", f"<pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='{name}'/></pubsub>")
    return list(answer.iter("{http://jabber.org/protocol/pubsub}item"))


async def asks(person, kind, payload):
    iq = person.client.make_iq(itype=kind)
    iq.append(ET.fromstring(payload))
    return (await iq.send(timeout=20)).xml


if __name__ == "__main__":
    main()
