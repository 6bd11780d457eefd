"""Uses rooms (XEP-0045) with slixmpp."""

import asyncio
import hashlib
from typing import NamedTuple

import slixmpp
from slixmpp.exceptions import IqError, PresenceError
from slixmpp.xmlstream import ET
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from person import Person
from rookery import Rookery

ROOM = slixmpp.JID("coven@conference.localhost")


async def people_talk_in_a_room():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            entered = await alice.enter("Alice")
            assert 201 in entered.self_presence["muc"]["status_codes"], entered
            await alice.opens()
            entered = await bob.enter("Bob")
            assert {presence["from"].resource for presence in entered.occupants} == {"Alice", "Bob"}, entered
            await alice.until(lambda: "Bob" in alice.muc.get_roster(ROOM))
            for one, nick, other in ((alice, "Alice", bob), (bob, "Bob", alice)):
                one.write(ROOM, f"hello from {nick}", mtype="groupchat")
                for person in (one, other):
                    message = await person.hears(f"hello from {nick}")
                    assert message["from"] == f"{ROOM}/{nick}", message
            bob.write(f"{ROOM}/Alice", "psst")
            message = await alice.take("message", lambda message: message["body"] == "psst")
            assert message["from"] == f"{ROOM}/Bob", message
            await bob.muc.set_self_nick(ROOM, "Robert", timeout=20)
            await alice.until(lambda: "Robert" in alice.muc.get_roster(ROOM))
            bob.muc.leave_muc(ROOM, "Robert")
            await alice.until(lambda: "Robert" not in alice.muc.get_roster(ROOM))


async def who_enters_later_reads_what_was_said():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            await alice.enter("Alice")
            await alice.opens()
            for text in ("one", "two", "three"):
                alice.write(ROOM, text, mtype="groupchat")
                await alice.hears(text)
            alice.muc.set_subject(ROOM, "Spells")
            await alice.until(lambda: any(it["subject"] == "Spells" for it in alice.seen["groupchat_subject"]))
            entered = await bob.enter("Bob", maxstanzas=2)
            assert [message["body"] for message in entered.history] == ["two", "three"], entered
            assert entered.subject["subject"] == "Spells", entered


async def an_owner_rules():
    async with Rookery("alice", "bob", "carol") as server:
        people = [_Occupant(server, f"{name}@localhost") for name in ("alice", "bob", "carol")]
        async with people[0] as alice, people[1] as bob, people[2] as carol:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_membersonly": True, "muc#roomconfig_whois": "anyone"})
            assert await _refusal(bob.enter("Bob")) == "registration-required"
            await alice.muc.set_affiliation(ROOM, "member", jid=bob.bare, timeout=20)
            await bob.enter("Bob")
            members = await bob.muc.get_affiliation_list(ROOM, "member", timeout=20)
            assert members == [bob.bare], members
            try:
                await bob.muc.set_role(ROOM, "Alice", "none", timeout=20)
                raise AssertionError("a member kicked the owner")
            except IqError as error:
                assert error.condition == "forbidden", error
            await alice.muc.set_role(ROOM, "Bob", "none", reason="enough", timeout=20)
            await bob.until(lambda: any(307 in it["muc"]["status_codes"] for it in bob.seen["groupchat_presence"]))
            await alice.muc.set_affiliation(ROOM, "outcast", jid=bob.bare, timeout=20)
            assert await _refusal(bob.enter("Bob")) == "forbidden"
            alice.muc.invite(ROOM, carol.bare, "come in")
            invitation = await carol.take("groupchat_invite", lambda _: True)
            assert invitation["from"] == ROOM, invitation
            await carol.enter("Carol")
            await alice.muc.destroy(ROOM, reason="over", timeout=20)
            await carol.until(lambda: any(it["type"] == "unavailable" for it in carol.seen["groupchat_presence"]))


async def a_room_outlives_the_server():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_persistentroom": True, "muc#roomconfig_roomname": "The Cave"})
            alice.muc.set_subject(ROOM, "Spells")
            alice.write(ROOM, "remember me", mtype="groupchat")
            await alice.hears("remember me")
        await server.stop()
        await server.start()
        async with _Occupant(server, "bob@localhost") as bob:
            items = await bob.client["xep_0030"].get_items(jid=ROOM.domain, timeout=20)
            assert (str(ROOM), None, "The Cave") in items["disco_items"]["items"], items
            entered = await bob.enter("Bob")
            assert entered.subject["subject"] == "Spells", entered
            archived = await bob.client["xep_0313"].retrieve(jid=ROOM, rsm={"max": 10}, timeout=20)
            results = archived["mam"]["results"]
            bodies = [result["mam_result"]["forwarded"]["stanza"]["body"] for result in results]
            assert "remember me" in bodies, bodies


async def what_is_taken_back_leaves_a_tombstone():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_persistentroom": True})
            await bob.enter("Bob")
            ids = []
            for text in ("regretted", "potions!"):
                bob.write(ROOM, text, mtype="groupchat")
                ids.append((await alice.hears(text))["stanza_id"]["id"])
            back = bob.client.make_message(ROOM, "taken back", mtype="groupchat")
            back.append(ET.fromstring(f"<retract xmlns='urn:xmpp:message-retract:1' id='{ids[0]}'/>"))
            back.send()
            await alice.hears("taken back")
            retract = "<retract xmlns='urn:xmpp:message-retract:1'/><reason>spam</reason>"
            moderate = f"<moderate xmlns='urn:xmpp:message-moderate:1' id='{ids[1]}'>{retract}</moderate>"
            assert await _refused(bob, moderate) == "forbidden"
            await _asks(alice, moderate)
            # The reply doesn't wait for the tombstone, which appears when the store has written it.
            results = await alice.archive()
            while not all(_is_tombstone(results[id]) for id in ids):
                results = await alice.archive()
            for id, text in zip(ids, ("regretted", "potions!")):
                assert text not in str(results[id]), results[id]
            moderated = results[ids[1]].xml.find(".//{urn:xmpp:message-moderate:1}moderated")
            assert moderated.get("by") == f"{ROOM}/Alice", results[ids[1]]


async def occupants_are_told_apart_and_can_ask_whether_they_are_there():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            await alice.enter("Alice")
            await alice.opens()
            entered = await bob.enter("Bob")
            pseudonym = entered.self_presence.xml.find("{urn:xmpp:occupant-id:0}occupant-id").get("id")
            bob.write(ROOM, "who am I", mtype="groupchat")
            heard = await alice.hears("who am I")
            assert heard.xml.find("{urn:xmpp:occupant-id:0}occupant-id").get("id") == pseudonym, heard
            await bob.client["xep_0199"].send_ping(f"{ROOM}/Bob", timeout=20)
            bob.muc.leave_muc(ROOM, "Bob")
            await alice.until(lambda: "Bob" not in alice.muc.get_roster(ROOM))
            try:
                await bob.client["xep_0199"].send_ping(f"{ROOM}/Bob", timeout=20)
            except IqError as error:
                assert error.condition == "not-acceptable", error
            else:
                raise AssertionError("who has left is told to be there")
            # An occupant who comes back is known by the same pseudonym.
            entered = await bob.enter("Robert")
            assert entered.self_presence.xml.find("{urn:xmpp:occupant-id:0}occupant-id").get("id") == pseudonym


async def voice_is_asked_for_and_given():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_moderatedroom": True})
            await bob.enter("Bob")
            bob.write(ROOM, "may I?", mtype="groupchat")
            error = await bob.take("message_error", lambda _: True)
            assert error["error"]["condition"] == "forbidden", error
            bob.muc.request_voice(ROOM, "participant")
            asked = await alice.take("message_xform", lambda message: message["from"] == ROOM)
            answer = alice.client.make_message(ROOM)
            form = asked["form"]
            form["type"] = "submit"
            form.set_values({"muc#request_allow": True})
            answer.append(form)
            answer.send()
            await bob.until(lambda: bob.muc.get_jid_property(ROOM, "Bob", "role") == "participant")
            bob.write(ROOM, "thank you", mtype="groupchat")
            await alice.hears("thank you")


async def a_room_is_logged_for_people():
    tables = '[modules.rooms]\nlogs = "logs"\n'
    async with Rookery("alice", tables=tables) as server:
        async with _Occupant(server, "alice@localhost") as alice:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_enablelogging": True})
            alice.write(ROOM, "for <posterity>", mtype="groupchat")
            await alice.hears("for <posterity>")
        await server.stop()
        logs = [file for file in server.folder.rglob("*") if file.suffix in (".txt", ".html") and "coven" in str(file)]
        texts = {file.suffix: file.read_text() for file in logs}
        assert "for <posterity>" in texts[".txt"] and "for &lt;posterity&gt;" in texts[".html"], texts


async def a_nick_is_registered():
    async with Rookery("alice", "bob", "carol") as server:
        people = [_Occupant(server, f"{name}@localhost") for name in ("alice", "bob", "carol")]
        async with people[0] as alice, people[1] as bob, people[2] as carol:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_whois": "anyone"})
            await bob.registers("Bob")
            members = await alice.muc.get_affiliation_list(ROOM, "member", timeout=20)
            assert members == [bob.bare], members
            registered = await bob.client["xep_0077"].get_registration(ROOM, timeout=20)
            assert registered["register"]["registered"] and registered["register"]["username"] == "Bob", registered
            assert await _refusal(carol.enter("bob")) == "conflict"
            try:
                await carol.registers("BOB")
            except IqError as error:
                assert error.condition == "conflict", error
            else:
                raise AssertionError("a nick was registered twice")
            await bob.enter("Bob")
            assert bob.muc.get_jid_property(ROOM, "Bob", "affiliation") == "member"
            await bob.client["xep_0077"].cancel_registration(ROOM, timeout=20)
            await bob.until(lambda: bob.muc.get_jid_property(ROOM, "Bob", "affiliation") == "none")


async def an_admin_approves_a_registration():
    async with Rookery("alice", "bob", "carol") as server:
        people = [_Occupant(server, f"{name}@localhost") for name in ("alice", "bob", "carol")]
        async with people[0] as alice, people[1] as bob, people[2] as carol:
            await alice.enter("Alice")
            await alice.opens({"muc#roomconfig_membersonly": True, "muc#roomconfig_persistentroom": True})
            alice.muc.leave_muc(ROOM, "Alice")
            await bob.registers("Bob", **{"muc#register_first": "Robert"})
            await carol.registers("Carol")
            assert await _refusal(bob.enter("Bob")) == "registration-required"
            for allow, text in ((True, bob.bare), (False, carol.bare)):
                asked = await alice.take("message_xform", lambda message: message["from"] == ROOM)
                values = asked["form"].get_values()
                assert values["muc#jid"] == text, asked
                answer = alice.client.make_message(ROOM)
                form = asked["form"]
                form["type"] = "submit"
                form.set_values({"muc#register_allow": allow})
                answer.append(form)
                answer.send()
            denied = await carol.take("message", lambda message: message["from"] == ROOM)
            assert "denied" in denied["body"], denied
            assert await _refusal(carol.enter("Carol")) == "registration-required"
            await bob.enter("Bob")
            assert bob.muc.get_jid_property(ROOM, "Bob", "affiliation") == "member"


async def hats_are_given_and_worn():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            await alice.enter("Alice")
            await alice.opens()
            await bob.enter("Bob")
            uri = "http://schemas.example.com/hats#teacher"
            for person, refused in ((bob, True), (alice, False)):
                made = _hats("create", {"hats#uri": uri, "hats#title": "Teacher", "hats#hue": "327.25"})
                assert (await _refused(person, made) == "forbidden") if refused else await _asks(person, made)
            await _asks(alice, _hats("assign", {"hats#uri": uri, "hats#jid": bob.bare}))
            shown = await alice.take("groupchat_presence", lambda it: it["muc"]["nick"] == "Bob" and _hats_of(it))
            assert _hats_of(shown) == [(uri, "Teacher")], shown
            await _asks(alice, _hats("unassign", {"hats#uri": uri, "hats#jid": bob.bare}))
            await alice.take("groupchat_presence", lambda it: it["muc"]["nick"] == "Bob" and not _hats_of(it))


async def a_room_has_an_avatar():
    async with Rookery("alice", "bob") as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            await alice.enter("Alice")
            await alice.opens()
            await bob.enter("Bob")
            for person in (bob, alice):
                cards = person.client["xep_0054"]
                card = cards.make_vcard()
                card["PHOTO"]["TYPE"], card["PHOTO"]["BINVAL"] = "image/png", b"no picture"
                try:
                    await cards.publish_vcard(card, jid=ROOM, timeout=20)
                    assert person is alice, "who owns nothing has set an avatar"
                except IqError as error:
                    assert person is bob and error.condition == "forbidden", error
            changed = lambda message: "104" in [it.get("code") for it in message.xml.iter(f"{{{USER}}}status")]
            await bob.until(lambda: any(map(changed, bob.seen["status"])), "code 104")
            info = await bob.client["xep_0030"].get_info(jid=ROOM, timeout=20)
            hashes = [field for field in info.xml.iter("{jabber:x:data}field") if field.get("var") == "muc#roominfo_avatarhash"]
            assert [it.text for it in hashes[0]] == [hashlib.sha1(b"no picture").hexdigest()], info
            seen = await bob.client["xep_0054"].get_vcard(ROOM, cached=False, timeout=20)
            assert seen["vcard_temp"]["PHOTO"]["BINVAL"] == b"no picture", seen


async def rooms_are_closed_to_listed_abusers():
    tables = '[modules.rtbl]\nlists = ["pubsub.localhost muc_bans_sha256"]\nlocal = true\n'
    async with Rookery("alice", "bob", tables=tables) as server:
        async with _Occupant(server, "alice@localhost") as alice, _Occupant(server, "bob@localhost") as bob:
            alice.client.register_plugin("xep_0060")
            lists = alice.client["xep_0060"]
            await lists.create_node("pubsub.localhost", "muc_bans_sha256", timeout=20)
            await alice.enter("Alice")
            await alice.opens()
            await bob.enter("Bob")
            item = hashlib.sha256(bob.bare.encode()).hexdigest()
            report = ET.fromstring("<report xmlns='urn:xmpp:reporting:1' reason='urn:xmpp:reporting:spam'/>")
            await lists.publish("pubsub.localhost", "muc_bans_sha256", id=item, payload=report, timeout=20)
            # The server applies the list a moment after it was published, and then mutes occupants
            # on it.
            while not bob.seen["message_error"]:
                bob.write(ROOM, "buy my potions", mtype="groupchat")
                await asyncio.sleep(0.2)
            assert bob.seen["message_error"][0]["error"]["condition"] == "forbidden", bob.seen["message_error"]
            bob.muc.leave_muc(ROOM, "Bob")
            await alice.until(lambda: "Bob" not in alice.muc.get_roster(ROOM))
            assert await _refusal(bob.enter("Bob")) == "forbidden"
            await lists.retract("pubsub.localhost", "muc_bans_sha256", item, timeout=20)
            # The room keeps its own replies in order, but changes of the list take another path.
            while (refusal := await _refusal_or_none(bob.enter("Bob"))) is not None:
                assert refusal == "forbidden", refusal
            bob.write(ROOM, "I am sorry", mtype="groupchat")
            await alice.hears("I am sorry")


class _Entered(NamedTuple):
    """The stanzas that an occupant got on entering."""

    self_presence: slixmpp.Presence
    subject: slixmpp.Message
    occupants: list
    history: list


class _Occupant(Person):
    """A person who can enter the room."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        for plugin in ("xep_0004", "xep_0045", "xep_0054", "xep_0313", "xep_0359"):
            self.client.register_plugin(plugin)
        for event in ("groupchat_message", "groupchat_subject", "groupchat_presence", "groupchat_invite", "message_xform"):
            self.seen[event] = []
            self.client.add_event_handler(event, self.seen[event].append)
        # Messages of a room without a body, for which slixmpp has no event.
        self.seen["status"] = []
        path = MatchXPath(f"{{jabber:client}}message/{{{USER}}}x")
        self.client.register_handler(Callback("status", path, self.seen["status"].append))

    @property
    def muc(self):
        return self.client["xep_0045"]

    async def enter(self, nick, **history):
        return _Entered(*await self.muc.join_muc_wait(ROOM, nick, timeout=20, **history))

    async def opens(self, fields=None):
        """Configures the room, which unlocks it."""
        form = await self.muc.get_room_config(ROOM, timeout=20)
        form["type"] = "submit"
        form.set_values(fields or {})
        await self.muc.set_room_config(ROOM, form, timeout=20)

    async def registers(self, nick, **more):
        """Fills in the form of the room (XEP-0045 §7.10)."""
        asked = await self.client["xep_0077"].get_registration(ROOM, timeout=20)
        form = asked["register"]["form"]
        form["type"] = "submit"
        form.set_values({"muc#register_roomnick": nick, **more})
        iq = self.client.make_iq_set(ito=ROOM)
        iq.enable("register")
        iq["register"].append(form)
        return await iq.send(timeout=20)

    async def archive(self):
        """The messages that the room has kept, by ids."""
        page = await self.client["xep_0313"].retrieve(jid=ROOM, rsm={"max": 50}, timeout=20)
        return {result["mam_result"]["id"]: result["mam_result"]["forwarded"]["stanza"] for result in page["mam"]["results"]}

    async def hears(self, text):
        """The message to all with this text. Earlier messages are skipped."""
        return await self.take("groupchat_message", lambda message: message["body"] == text)


async def _refusal(entering):
    """The condition of the error that refuses to let somebody enter."""
    condition = await _refusal_or_none(entering)
    assert condition, "nobody was refused"
    return condition


async def _refusal_or_none(entering):
    try:
        await entering
    except PresenceError as error:
        return error.condition
    return None


def _hats(command, values):
    """A command of XEP-0317 §5."""
    fields = "".join(f"<field var='{var}'><value>{value}</value></field>" for var, value in values.items())
    return (
        f"<command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:hats:commands:{command}' action='execute'>"
        f"<x xmlns='jabber:x:data' type='submit'>{fields}</x></command>"
    )


def _hats_of(presence):
    return [(hat.get("uri"), hat.get("title")) for hat in presence.xml.iter("{urn:xmpp:hats:0}hat")]


def _is_tombstone(message):
    return message.xml.find("{urn:xmpp:message-retract:1}retracted") is not None


async def _asks(person, payload):
    iq = person.client.make_iq_set(ito=ROOM)
    iq.append(ET.fromstring(payload))
    return await iq.send(timeout=20)


async def _refused(person, payload):
    try:
        await _asks(person, payload)
    except IqError as error:
        return error.condition
    raise AssertionError("nobody was refused")


USER = "http://jabber.org/protocol/muc#user"
