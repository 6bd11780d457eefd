"""Sends one stanza to many recipients: slixmpp finds and uses XEP-0033."""

from slixmpp import Message

from person import Person
from rookery import Rookery

FEATURE = "http://jabber.org/protocol/address"


async def the_service_is_found():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            assert await _service(alice) == "multicast.localhost"
            info = await alice.client["xep_0030"].get_info(jid="multicast.localhost", timeout=20)
            assert ("service", "multicast") in {identity[:2] for identity in info["disco_info"]["identities"]}, info
            fields = info.xml.iterfind(".//{jabber:x:data}field")
            limits = {field.get("var"): field.findtext("{jabber:x:data}value") for field in fields}
            assert limits == {"FORM_TYPE": FEATURE, "message": "100", "presence": "100"}, limits


async def one_message_reaches_all_and_shows_what_it_may():
    async with Rookery("alice", "bob", "carol", "dave") as server:
        people = [Person(server, f"{name}@localhost") for name in ("alice", "bob", "carol", "dave")]
        async with people[0] as alice, people[1] as bob, people[2] as carol, people[3] as dave:
            addresses = [("to", bob.bare), ("cc", carol.bare), ("bcc", dave.bare)]
            _write(alice, await _service(alice), "hello", addresses)
            public = [("to", bob.bare, True), ("cc", carol.bare, True)]
            for person, own in ((bob, []), (carol, []), (dave, [("bcc", dave.bare, False)])):
                message = await person.reads("hello", alice.bare)
                assert message["to"] == person.bare, message
                assert _seen(message) == public + own, message
            await alice.quiet()
            assert not alice.seen["message_error"], alice.seen


async def who_is_away_reads_it_later():
    async with Rookery("alice", "bob", "carol") as server:
        async with Person(server, "alice@localhost", managed=True) as alice:
            _write(alice, await _service(alice), "later", [("to", "bob@localhost"), ("bcc", "carol@localhost")])
            await alice.acknowledged()
        for name, own in (("bob", []), ("carol", [("bcc", "carol@localhost", False)])):
            async with Person(server, f"{name}@localhost") as person:
                message = await person.reads("later", "alice@localhost")
                assert _seen(message) == [("to", "bob@localhost", True)] + own, message


async def too_many_are_refused():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            service = await _service(alice)
            many = [("to", f"somebody{number}@localhost") for number in range(100)]
            _write(alice, service, "too many", [("to", bob.bare), *many])
            error = await alice.take("message_error", lambda _: True)
            assert (error["from"], error["error"]["condition"]) == (service, "not-acceptable"), error
            # One recipient less is accepted.
            _write(alice, service, "enough", [("to", bob.bare), *many[1:]])
            await bob.reads("enough", alice.bare)


async def _service(person):
    """The service, found as in XEP-0033 §2.2: the item of the domain that has the feature. """
    disco = person.client["xep_0030"]
    items = await disco.get_items(jid=person.jid.domain, timeout=20)
    for jid, _, _ in items["disco_items"]["items"]:
        info = await disco.get_info(jid=jid, timeout=20)
        if FEATURE in info["disco_info"]["features"]:
            return jid
    raise AssertionError(f"no multicast service: {items}")


def _write(person, service, text, addresses):
    person.client.register_plugin("xep_0033")
    message = Message(person.client, sto=service, stype="chat")
    message["body"] = text
    for kind, jid in addresses:
        message["addresses"].add_address(atype=kind, jid=jid)
    message.send()


def _seen(message):
    """The header as the recipient sees it: type, JID, and the `delivered` mark."""
    header = message.xml.find(f"{{{FEATURE}}}addresses")
    return [(address.get("type"), address.get("jid"), address.get("delivered") == "true") for address in header]
