"""Uses what aioxmpp has beside chat, as a second implementation of rooms, carbons, blocking, nodes
and vCards.
"""

import asyncio
import contextlib
import datetime
import socket

import aioxmpp

from others import _aioxmpp, _password, _security
from rookery import Rookery


async def rooms_are_entered_and_talked_in():
    async with _people("alice", "bob") as (alice, bob):
        room = aioxmpp.JID.fromstr("coven@conference.localhost")
        first, entered = alice.summon(aioxmpp.MUCClient).join(room, "first")
        await _soon(entered)
        # Until it is configured, nobody else gets in (XEP-0045 §10.1).
        form = await alice.summon(aioxmpp.MUCClient).get_room_config(room)
        form = aioxmpp.muc.ConfigurationForm.from_xso(form)
        await alice.summon(aioxmpp.MUCClient).set_room_config(room, form.render_reply())
        second, entered = bob.summon(aioxmpp.MUCClient).join(room, "second")
        await _soon(entered)
        assert {member.nick for member in second.members} == {"first", "second"}
        heard, subject, left = _futures(3)
        second.on_message.connect(lambda message, *_, **__: _settle(heard, message))
        second.on_topic_changed.connect(lambda _, topic, **__: any(topic.values()) and _settle(subject, topic))
        message = aioxmpp.Message(type_=aioxmpp.MessageType.GROUPCHAT)
        message.body[None] = "Thrice the brinded cat hath mew'd"
        await first.send_message(message)
        assert (await _soon(heard)).body.any() == "Thrice the brinded cat hath mew'd"
        await first.set_topic({None: "Fire Burn and Cauldron Bubble!"})
        assert (await _soon(subject)).any() == "Fire Burn and Cauldron Bubble!"
        second.on_leave.connect(lambda member, *_, **__: _settle(left, member))
        await first.leave()
        assert (await _soon(left)).nick == "first"


async def devices_get_copies_of_what_the_other_says():
    async with _people("alice", "alice", "bob") as (one, other, bob):
        await other.summon(aioxmpp.CarbonsClient).enable()
        copies = asyncio.Queue()
        dispatcher = other.summon(aioxmpp.dispatcher.SimpleMessageDispatcher)
        dispatcher.register_callback(None, None, lambda message: copies.put_nowait(message))
        message = aioxmpp.Message(type_=aioxmpp.MessageType.CHAT, to=bob.local_jid.bare())
        message.body[None] = "neither here nor there"
        await one.send(message)
        copy = (await _soon(copies.get())).xep0280_sent.stanza
        assert (copy.body.any(), copy.from_) == ("neither here nor there", one.local_jid)


async def who_is_blocked_is_silent():
    async with _people("alice", "bob") as (alice, bob):
        blocking = alice.summon(aioxmpp.BlockingClient)
        await blocking.block_jids([bob.local_jid.bare()])
        failed = asyncio.get_running_loop().create_future()
        dispatcher = bob.summon(aioxmpp.dispatcher.SimpleMessageDispatcher)
        dispatcher.register_callback(aioxmpp.MessageType.ERROR, None, lambda message: _settle(failed, message))
        message = aioxmpp.Message(type_=aioxmpp.MessageType.CHAT, to=alice.local_jid.bare())
        message.body[None] = "let me in"
        await bob.send(message)
        error = (await _soon(failed)).error
        assert error.condition == aioxmpp.ErrorCondition.SERVICE_UNAVAILABLE, error
        empty = asyncio.get_running_loop().create_future()
        blocking.on_jids_unblocked.connect(lambda jids: _settle(empty, jids))
        await blocking.unblock_jids([bob.local_jid.bare()])
        assert await _soon(empty) == {bob.local_jid.bare()} and not blocking.blocklist


async def nodes_are_published_to_and_read():
    async with _people("alice", "bob") as (alice, bob):
        service, node = aioxmpp.JID.fromstr("pubsub.localhost"), "princely_musings"
        owner, reader = alice.summon(aioxmpp.PubSubClient), bob.summon(aioxmpp.PubSubClient)
        await owner.create(service, node)
        await reader.subscribe(service, node)
        published = asyncio.get_running_loop().create_future()
        reader.on_item_published.connect(lambda _, of, item, **__: _settle(published, (of, item.id_)))
        payload = aioxmpp.avatar.xso.Data(b"soliloquy")
        await owner.publish(service, node, payload, id_="one")
        assert await _soon(published) == (node, "one")
        items = await reader.get_items(service, node)
        assert [item.id_ for item in items.payload.items] == ["one"]
        await owner.retract(service, node, "one")
        assert not (await reader.get_items(service, node)).payload.items


async def nodes_are_configured():
    """aioxmpp takes a form only if each field has the type that it knows, and each value is one of
    its options.
    """
    async with _people("alice") as (alice,):
        item = aioxmpp.roster.xso.Item(jid=aioxmpp.JID.fromstr("bob@localhost"), groups=[aioxmpp.roster.xso.Group(name="Work")])
        query = aioxmpp.roster.xso.Query(items=[item])
        await alice.send(aioxmpp.IQ(type_=aioxmpp.IQType.SET, payload=query))
        service = aioxmpp.JID.fromstr("pubsub.localhost")
        owner = alice.summon(aioxmpp.PubSubClient)
        await owner.create(service, "musings")
        form = aioxmpp.pubsub.NodeConfigForm.from_xso(await owner.get_node_config(service, "musings"))
        assert form.roster_groups_allowed.options.keys() == {"Work"}, form.roster_groups_allowed.options
        form.access_model.value, form.roster_groups_allowed.value = "roster", ["Work"]
        await owner.set_node_config(service, form.render_reply(), "musings")
        form = aioxmpp.pubsub.NodeConfigForm.from_xso(await owner.get_node_config(service, "musings"))
        assert (form.access_model.value, set(form.roster_groups_allowed.value)) == ("roster", {"Work"})


async def cards_are_kept():
    async with _people("alice", "bob") as (alice, bob):
        card = await alice.summon(aioxmpp.vcard.VCardService).get_vcard()
        card.set_photo_data("image/png", b"no picture")
        await alice.summon(aioxmpp.vcard.VCardService).set_vcard(card)
        seen = await bob.summon(aioxmpp.vcard.VCardService).get_vcard(alice.local_jid.bare())
        assert seen.get_photo_data() == b"no picture"


async def a_session_goes_on_after_a_break():
    async with _people("alice", "bob") as (alice, bob):
        assert alice.stream.sm_enabled and alice.stream.sm_resumable
        heard, lost = asyncio.Queue(), []
        dispatcher = alice.summon(aioxmpp.dispatcher.SimpleMessageDispatcher)
        dispatcher.register_callback(aioxmpp.MessageType.CHAT, None, heard.put_nowait)
        alice.on_stream_destroyed.connect(lambda reason=None: lost.append(reason))
        alice.backoff_start = datetime.timedelta(milliseconds=10)
        for number in range(3):
            resumed = asyncio.get_running_loop().create_future()
            token = alice.on_stream_resumed.connect(lambda resumed=resumed: _settle(resumed, True))
            # The network fails: neither side closes the stream.
            alice.stream._xmlstream.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
            await bob.send(_chat(alice, f"to {number}"))
            await _soon(resumed)
            alice.on_stream_resumed.disconnect(token)
            assert (await _soon(heard.get())).body.any() == f"to {number}"
            await alice.send(_chat(bob, f"back {number}"))
        assert not lost and heard.empty(), (lost, heard)


@contextlib.asynccontextmanager
async def _people(*names):
    async with Rookery(*sorted(set(names))) as server, contextlib.AsyncExitStack() as stack:
        clients = []
        for name in names:
            security = _security(server, aioxmpp.security_layer.PasswordSASLProvider(_password))
            client = _aioxmpp(server, f"{name}@localhost", security)
            for service in SERVICES:
                client.summon(service)
            await stack.enter_async_context(client.connected())
            clients.append(client)
        yield clients


def _chat(to, text):
    message = aioxmpp.Message(type_=aioxmpp.MessageType.CHAT, to=to.local_jid.bare())
    message.body[None] = text
    return message


def _futures(count):
    return [asyncio.get_running_loop().create_future() for _ in range(count)]


def _settle(future, value):
    if not future.done():
        future.set_result(value)


async def _soon(awaitable):
    return await asyncio.wait_for(awaitable, 20)


# These services must listen from the start.
SERVICES = [
    aioxmpp.MUCClient,
    aioxmpp.CarbonsClient,
    aioxmpp.BlockingClient,
    aioxmpp.PubSubClient,
    aioxmpp.vcard.VCardService,
    aioxmpp.dispatcher.SimpleMessageDispatcher,
]
