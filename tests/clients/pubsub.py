"""Uses publish-subscribe with slixmpp: the service, and nodes that accounts publish for their
contacts.
"""

import base64
import hashlib

from slixmpp.exceptions import IqError
from slixmpp.xmlstream import ET

from person import Person
from rookery import Rookery

ATOM = "{http://www.w3.org/2005/Atom}entry"
DEVICES = "eu.siacs.conversations.axolotl.devicelist"
TUNE = "http://jabber.org/protocol/tune"


async def who_subscribes_is_notified():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            service = "pubsub.localhost"
            owner, reader = _pubsub(alice), _pubsub(bob)
            await owner.create_node(service, "musings", timeout=20)
            await reader.subscribe(service, "musings", timeout=20)
            published = await owner.publish(service, "musings", id="one", payload=_entry("Hello"), timeout=20)
            assert published["pubsub"]["publish"]["item"]["id"] == "one", published
            event = await bob.take("pubsub_publish", lambda _: True)
            item = event["pubsub_event"]["items"]["item"]
            assert (event["from"], item["id"], item["payload"].text) == (service, "one", "Hello"), event
            items = await reader.get_items(service, "musings", timeout=20)
            assert [item["id"] for item in items["pubsub"]["items"]] == ["one"], items

            await owner.retract(service, "musings", "one", notify=True, timeout=20)
            event = await bob.take("pubsub_retract", lambda _: True)
            assert event["pubsub_event"]["items"]["retract"]["id"] == "one", event
            await owner.delete_node(service, "musings", timeout=20)
            event = await bob.take("pubsub_delete", lambda _: True)
            assert event["pubsub_event"]["delete"]["node"] == "musings", event


async def a_node_is_for_members_only():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            service = "pubsub.localhost"
            owner, reader = _pubsub(alice), _pubsub(bob)
            await owner.create_node(service, "closed", config=_config(alice, access_model="whitelist"), timeout=20)
            await owner.publish(service, "closed", id="one", payload=_entry("Hello"), timeout=20)
            assert await _refused(reader.get_items(service, "closed", timeout=20)) == "not-allowed"
            assert await _refused(reader.subscribe(service, "closed", timeout=20)) == "not-allowed"
            await owner.modify_affiliations(service, "closed", [(bob.bare, "member")], timeout=20)
            await reader.subscribe(service, "closed", timeout=20)
            items = await reader.get_items(service, "closed", timeout=20)
            assert [item["id"] for item in items["pubsub"]["items"]] == ["one"], items
            affiliations = await owner.get_node_affiliations(service, "closed", timeout=20)
            found = {(it["jid"].bare, it["affiliation"]) for it in affiliations["pubsub_owner"]["affiliations"]}
            assert found == {(alice.bare, "owner"), (bob.bare, "member")}, affiliations


async def subscriptions_are_approved_and_have_options():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            service = "pubsub.localhost"
            owner, reader = _pubsub(alice), _pubsub(bob)
            await owner.create_node(service, "news", config=_config(alice, access_model="authorize"), timeout=20)
            answer = await reader.subscribe(service, "news", timeout=20)
            assert answer["pubsub"]["subscription"]["subscription"] == "pending", answer
            assert await _refused(reader.get_items(service, "news", timeout=20)) == "not-authorized"
            # The owner fills in the form that the service sends (XEP-0060 §8.6).
            asked = await alice.take("message_xform", lambda _: True)
            submit = asked["form"].get_values()
            assert submit["pubsub#subscriber_jid"] == bob.bare, asked
            submit["pubsub#allow"] = True
            reply = alice.client.make_message(mto=service)
            reply.append(_form(alice, "submit", submit))
            reply.send()
            event = await bob.take("pubsub_subscription", lambda _: True)
            assert event["pubsub_event"]["subscription"]["subscription"] == "subscribed", event
            await owner.publish(service, "news", id="one", payload=_entry("Hello"), timeout=20)
            await bob.take("pubsub_publish", lambda event: event["pubsub_event"]["items"]["item"]["id"] == "one")

            options = await reader.get_subscription_options(service, "news", user_jid=bob.bare, timeout=20)
            assert options["pubsub"]["options"]["options"].get_values()["pubsub#deliver"] is True, options
            # slixmpp's own method sends a get instead of a set.
            quiet = bob.client.make_iq_set(ito=service)
            options = ET.SubElement(ET.SubElement(quiet.xml, "{http://jabber.org/protocol/pubsub}pubsub"), "{http://jabber.org/protocol/pubsub}options", node="news", jid=bob.bare)
            options.append(_config(bob, "http://jabber.org/protocol/pubsub#subscribe_options", deliver="0").xml)
            await quiet.send(timeout=20)
            await owner.publish(service, "news", id="two", payload=_entry("Not for him"), timeout=20)
            await bob.quiet()
            assert not bob.seen["pubsub_publish"], bob.seen["pubsub_publish"]
            subscriptions = await reader.get_subscriptions(service, timeout=20)
            assert [it["node"] for it in subscriptions["pubsub"]["subscriptions"]] == ["news"], subscriptions


async def fields_that_the_service_does_not_know_change_nothing():
    """A field that is left out of a configuration is passed over when a node is configured, and no
    precondition that anybody can rely on.
    """
    async with Rookery("alice") as server, Person(server, "alice@localhost") as alice:
        owner = _pubsub(alice)
        more = {"purge_offline": "1", "tempsub": "1", "language": "en", "title": "Ideas"}
        await owner.create_node("pubsub.localhost", "ideas", config=_config(alice, **more), timeout=20)
        form = (await owner.get_node_config("pubsub.localhost", "ideas", timeout=20))["pubsub_owner"]["configure"]["form"]
        values = form.get_values()
        assert values["pubsub#title"] == "Ideas" and "pubsub#purge_offline" not in values, values
        options = _config(alice, "http://jabber.org/protocol/pubsub#publish-options", purge_offline="1")
        publish = owner.publish(None, "urn:example:mood", id="1", payload=_entry("Happy"), options=options, timeout=20)
        assert await _refused(publish) == "conflict"


async def contacts_hear_of_news_that_they_want():
    async with Rookery("alice", "bob") as server:
        alice, bob = Person(server, "alice@localhost"), Person(server, "bob@localhost", present=False)
        async with alice, bob:
            await _befriend(alice, bob)
            alice.client.register_plugin("xep_0118")
            await alice.client["xep_0118"].publish_tune(artist="Yes", title="Heart of the Sunrise", timeout=20)
            bob.client.register_plugin("xep_0115")
            bob.client.register_plugin("xep_0118")
            await bob.client["xep_0115"].update_caps()
            # The last item arrives as soon as the server knows that the client wants it.
            event = await bob.take("pubsub_publish", lambda event: event["from"].bare == alice.bare)
            assert event["pubsub_event"]["items"]["node"] == TUNE, event
            await alice.client["xep_0118"].publish_tune(artist="Yes", title="Roundabout", timeout=20)
            event = await bob.take("pubsub_publish", lambda event: event["from"].bare == alice.bare)
            tune = event["pubsub_event"]["items"]["item"]["payload"]
            assert tune.findtext(f"{{{TUNE}}}title") == "Roundabout", event


async def new_contacts_hear_of_keys_at_once():
    """slixmpp, once it is available, tells what it wants in directed presence only: to contacts as
    they are made.
    """
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            for person in (alice, bob):
                _pubsub(person)
                person.client.register_plugin("xep_0163")
                person.client["xep_0163"].add_interest(DEVICES)
                await person.client["xep_0115"].update_caps(broadcast=False)
                person.client.roster.auto_authorize = person.client.roster.auto_subscribe = True
            alice.client.send_presence_subscription(pto=bob.bare)
            for one, other in ((alice, bob), (bob, alice)):
                await one.until(lambda: one.item(other.bare)["subscription"] == "both", "a contact")
            for owner, reader in ((alice, bob), (bob, alice)):
                await owner.client["xep_0060"].publish(None, DEVICES, id="current", payload=_entry("4711"), timeout=20)
                event = await reader.take("pubsub_publish", lambda event: event["from"].bare == owner.bare)
                assert event["pubsub_event"]["items"]["node"] == DEVICES, event


async def an_avatar_is_the_photo_of_the_card():
    async with Rookery("alice", "bob") as server:
        async with Person(server, "alice@localhost") as alice, Person(server, "bob@localhost") as bob:
            for person in (alice, bob):
                person.client.register_plugin("xep_0054")
                person.client.register_plugin("xep_0084")
            image = b"not quite an image"
            hash = hashlib.sha1(image).hexdigest()
            options = _config(alice, "http://jabber.org/protocol/pubsub#publish-options", access_model="open")
            pubsub = _pubsub(alice)
            payload = ET.Element("{urn:xmpp:avatar:data}data")
            payload.text = base64.b64encode(image).decode()
            await pubsub.publish(None, "urn:xmpp:avatar:data", id=hash, payload=payload, options=options, timeout=20)
            metadata = ET.Element("{urn:xmpp:avatar:metadata}metadata")
            info = {"id": hash, "type": "image/png", "bytes": str(len(image))}
            ET.SubElement(metadata, "{urn:xmpp:avatar:metadata}info", info)
            await pubsub.publish(None, "urn:xmpp:avatar:metadata", id=hash, payload=metadata, options=options, timeout=20)
            found = await bob.client["xep_0084"].retrieve_avatar(alice.bare, hash, timeout=20)
            assert found["pubsub"]["items"]["item"]["avatar_data"]["value"] == image, found
            card = await bob.client["xep_0054"].get_vcard(alice.bare, timeout=20)
            assert card["vcard_temp"]["PHOTO"]["BINVAL"] == image, card


async def old_and_new_bookmarks_are_the_same():
    async with Rookery("alice") as server:
        async with Person(server, "alice@localhost") as alice:
            alice.client.register_plugin("xep_0048", {"auto_join": False, "storage_method": "xep_0049"})
            pubsub = _pubsub(alice)
            conference = ET.Element("{urn:xmpp:bookmarks:1}conference", {"name": "The Play", "autojoin": "true"})
            options = _config(
                alice,
                "http://jabber.org/protocol/pubsub#publish-options",
                persist_items="true",
                max_items="max",
                send_last_published_item="never",
                access_model="whitelist",
            )
            room = "theplay@conference.shakespeare.lit"
            node = "urn:xmpp:bookmarks:1"
            await pubsub.publish(None, node, id=room, payload=conference, options=options, timeout=20)
            old = await alice.client["xep_0048"].get_bookmarks(timeout=20)
            conferences = [(it["jid"], it["name"]) for it in old["private"]["bookmarks"]["conferences"]]
            assert conferences == [(room, "The Play")], old
            bookmarks = alice.client["xep_0048"].stanza.Bookmarks()
            bookmarks.add_conference("orchard@conference.shakespeare.lit", "alice", name="The Orchard")
            await alice.client["xep_0048"].set_bookmarks(bookmarks, timeout=20)
            items = await pubsub.get_items(None, node, timeout=20)
            assert [it["id"] for it in items["pubsub"]["items"]] == ["orchard@conference.shakespeare.lit"], items


def _pubsub(person):
    person.client.register_plugin("xep_0060")
    person.client.register_plugin("xep_0059")
    for event in ("pubsub_publish", "pubsub_retract", "pubsub_delete", "pubsub_subscription", "message_xform"):
        if event not in person.seen:
            person.seen[event] = []
            person.client.add_event_handler(event, person.seen[event].append)
    return person.client["xep_0060"]


def _entry(text):
    entry = ET.Element(ATOM)
    entry.text = text
    return entry


def _config(person, form_type="http://jabber.org/protocol/pubsub#node_config", **fields):
    person.client.register_plugin("xep_0004")
    form = person.client["xep_0004"].make_form(ftype="submit")
    form.add_field(var="FORM_TYPE", ftype="hidden", value=form_type)
    for name, value in fields.items():
        form.add_field(var=f"pubsub#{name}", value=value)
    return form


def _form(person, kind, values):
    form = person.client["xep_0004"].make_form(ftype=kind)
    for name, value in values.items():
        form.add_field(var=name, value="1" if value is True else value)
    return form


async def _refused(request):
    try:
        answer = await request
    except IqError as error:
        return error.condition
    raise AssertionError(f"not refused: {answer}")


async def _befriend(one, other):
    """Waits until both see each other's presence. The second has not been available before."""
    _pubsub(other)
    await other.client.get_roster()
    other.client.send_presence()
    one.client.send_presence_subscription(pto=other.bare)
    await other.presence(one.bare, "subscribe")
    other.client.send_presence(pto=one.bare, ptype="subscribed")
    await one.presence(other.bare, "subscribed")
    other.client.send_presence_subscription(pto=one.bare)
    await one.presence(other.bare, "subscribe")
    one.client.send_presence(pto=other.bare, ptype="subscribed")
    await other.presence(one.bare, "subscribed")
