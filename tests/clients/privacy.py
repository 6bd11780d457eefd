"""Tests blocking, and the last activity of offline users."""

from slixmpp.exceptions import IqError
from slixmpp.xmlstream import ET

from person import PATIENCE, Person, befriend
from rookery import Rookery


def _with_plugins(person):
    for plugin in ("xep_0012", "xep_0191", "xep_0359"):
        person.client.register_plugin(plugin)
    return person


async def _refused(request, condition):
    try:
        await request
    except IqError as error:
        assert error.condition == condition, error
    else:
        raise AssertionError("it was answered")


async def _comes_back(person, text):
    """A message that was sent comes back as an error."""
    message = await person.take("message_error", lambda _: True)
    assert message["error"]["condition"] == "service-unavailable", (text, message)


async def who_is_blocked_gets_nothing_through():
    async with Rookery("alice", "bob") as server:
        async with _with_plugins(Person(server, "alice@localhost")) as alice, Person(server, "bob@localhost") as bob:
            await befriend(alice, bob)
            blocking = alice.client["xep_0191"]
            assert not await blocking.get_blocked_jids(timeout=PATIENCE)
            await blocking.block(bob.bare, timeout=PATIENCE)
            await bob.presence(alice.bare, "unavailable")
            assert [str(jid) for jid in await blocking.get_blocked_jids(timeout=PATIENCE)] == [bob.bare]

            bob.write(alice.bare, "Are you there?")
            await _comes_back(bob, "Are you there?")
            await _refused(bob.client["xep_0092"].get_version(alice.jid), "service-unavailable")

            await blocking.unblock(bob.bare, timeout=PATIENCE)
            await bob.presence(alice.jid)
            bob.write(alice.bare, "And now?")
            await alice.reads("And now?", bob.bare)


async def a_block_counts_while_nobody_is_there():
    async with Rookery("alice", "bob") as server:
        async with _with_plugins(Person(server, "alice@localhost")) as alice:
            await alice.client["xep_0191"].block("bob@localhost", timeout=PATIENCE)
        async with Person(server, "bob@localhost") as bob:
            bob.write("alice@localhost", "Keep this for later")
            await _comes_back(bob, "Keep this for later")
        async with Person(server, "alice@localhost") as alice:
            await alice.quiet()
            assert not alice.seen["message"], alice.seen


async def contacts_learn_when_somebody_was_here_last():
    async with Rookery("alice", "bob", "carol") as server:
        async with _with_plugins(Person(server, "alice@localhost")) as alice:
            ask = lambda jid: alice.client["xep_0012"].get_last_activity(jid, local=False, timeout=PATIENCE)
            async with Person(server, "bob@localhost") as bob:
                await befriend(alice, bob)
                assert (await ask(bob.bare))["last_activity"]["seconds"] == 0
                bob.client.send_presence(ptype="unavailable", pstatus="Heading home")
                await alice.presence(bob.bare, "unavailable")
                gone = bob.bare
            last = (await ask(gone))["last_activity"]
            assert last["seconds"] < 60 and last["status"] == "Heading home", last
            assert (await ask("localhost"))["last_activity"]["seconds"] < 600
            await _refused(ask("carol@localhost"), "forbidden")


async def who_is_blocked_can_be_reported():
    """XEP-0377: the block takes effect, and operators can read the reason."""
    tables = '[modules.privacy]\nreport_to = ["admin@localhost"]\n'
    async with Rookery("admin", "alice", "bob", tables=tables) as server:
        async with Person(server, "admin@localhost") as admin, _with_plugins(Person(server, "alice@localhost")) as alice, Person(server, "bob@localhost") as bob:
            assert "urn:xmpp:reporting:1" in (await alice.client["xep_0030"].get_info(jid="localhost"))["disco_info"]["features"]
            bob.write(alice.bare, "Buy <now>!")
            spam = await alice.reads("Buy <now>!", of=bob.bare)
            iq = alice.client.make_iq_set()
            block = ET.SubElement(iq.xml, "{urn:xmpp:blocking}block")
            report = ET.SubElement(ET.SubElement(block, "{urn:xmpp:blocking}item", jid=bob.bare), "{urn:xmpp:reporting:1}report", reason="urn:xmpp:reporting:spam")
            ET.SubElement(report, "{urn:xmpp:reporting:1}text").text = "He sells & sells"
            ET.SubElement(report, "{urn:xmpp:sid:0}stanza-id", by=alice.bare, id=spam["stanza_id"]["id"])
            await iq.send(timeout=PATIENCE)
            told = await admin.message()
            assert told["from"] == "localhost" and "alice@localhost" in told["body"] and "bob@localhost" in told["body"], told
            assert "He sells & sells" in told["body"] and "urn:xmpp:reporting:spam" in told["body"], told
            reported = told.xml.find("{urn:xmpp:reporting:1}report/{urn:xmpp:sid:0}stanza-id")
            assert reported is not None and reported.get("id") == spam["stanza_id"]["id"], told
            bob.write(alice.bare, "Again!")
            await _comes_back(bob, "Again!")
