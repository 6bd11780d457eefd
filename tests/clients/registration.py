"""People register their own accounts (XEP-0077)."""

from slixmpp.exceptions import IqError
from slixmpp.xmlstream import ET

from person import Person, Refused
from rookery import Rookery
from wire import Wire

REGISTER = "[modules.register]\nallow_creation = true\n"
INVITING = "[modules.register]\nusers_invite = true\n"


async def nobody_can_register_by_default():
    async with Rookery() as server:
        assert await _register(server, "eve@localhost", "secret") == "not offered"
        await _is_refused(server, "eve@localhost", "secret")


async def people_register_where_it_is_on():
    async with Rookery("alice", tables=REGISTER) as server:
        assert await _register(server, "eve@localhost", "Geheim ☃") is None
        async with Person(server, "eve@localhost", "Geheim ☃") as eve, Person(server, "alice@localhost") as alice:
            eve.write(alice.bare, "I am new")
            await alice.reads("I am new", of="eve@localhost")
        assert await _register(server, "alice@localhost", "stolen account") == "conflict"
        assert await _register(server, "mallory@localhost", "short") == "not-acceptable"
        async with Person(server, "alice@localhost"):
            pass


async def passwords_are_changed():
    async with Rookery("alice", tables=REGISTER) as server:
        async with Person(server, "alice@localhost") as alice:
            await alice.client["xep_0077"].change_password("new & <better>", jid="localhost")
            await alice.quiet()
        await _is_refused(server, "alice@localhost", "secret")
        async with Person(server, "alice@localhost", "new & <better>"):
            pass


async def operators_change_passwords():
    async with Rookery("alice") as server:
        server.command("user", "passwd", "alice@localhost", "--password-stdin", "--allow-short", said="new\n")
        await _is_refused(server, "alice@localhost", "secret")
        async with Person(server, "alice@localhost", "new"):
            pass


async def invited_people_register():
    """XEP-0401 and XEP-0445: a user's invitation link creates an account although registration is
    closed, and inviter and guest become contacts.
    """
    async with Rookery("alice", tables=INVITING) as server, Person(server, "alice@localhost") as alice:
        assert await _redeem(server, "eve", "geheim12") == "service-unavailable"
        uri = await _link(alice, "urn:xmpp:invite#invite")
        assert uri.startswith("xmpp:alice@localhost?roster;preauth=") and uri.endswith(";ibr=y"), uri
        token = uri.split("preauth=")[1].split(";")[0]
        assert await _redeem(server, "eve", "geheim12", "invented") == "item-not-found"
        assert await _redeem(server, "eve", "geheim12", token) is None
        assert await _redeem(server, "mallory", "geheim12", token) == "item-not-found", "it was good once"
        async with Person(server, "eve@localhost", "geheim12") as eve:
            assert eve.item(alice.bare)["subscription"] == "both", eve.item(alice.bare)
            await eve.presence(alice.bare)
            await alice.presence(eve.bare)


async def a_link_sets_a_forgotten_password():
    async with Rookery("alice", "bob") as server:
        link = server.command("user", "reset-link", "alice@localhost").strip()
        assert link.startswith("xmpp:alice@localhost?register;preauth="), link
        token = link.split("preauth=")[1]
        assert await _redeem(server, "bob", "geheim12", token) == "not-acceptable", "it is not for him"
        assert await _redeem(server, "alice", "geheim12", token) is None
        await _is_refused(server, "alice@localhost", "secret")
        assert await _redeem(server, "alice", "geheim13", token) == "item-not-found", "it was good once"
        async with Person(server, "alice@localhost", "geheim12"):
            pass


async def people_leave():
    async with Rookery("alice", tables=REGISTER) as server:
        alice = Person(server, "alice@localhost")
        async with alice:
            iq = alice.client.make_iq_set(ito="localhost")
            iq["register"]["remove"] = True
            # The client may see either the reply or the end of the stream first.
            iq.send(callback=lambda _: None)
            await alice.take("disconnected", lambda _: True)
            alice.client.cancel_connection_attempt()
        await _is_refused(server, "alice@localhost", "secret")
        assert "alice@localhost" not in server.command("user", "list")


async def _link(person, node):
    """Returns the link that a command creates."""
    for plugin in ("xep_0004", "xep_0050"):
        person.client.register_plugin(plugin)
    answer = await person.client["xep_0050"].send_command("localhost", node, timeout=20)
    return answer["command"]["form"].get_values()["uri"]


async def _redeem(server, name, password, token=None):
    """Presents a token and registers, which slixmpp can't. Returns the condition of the error."""
    wire = await Wire.open(server)
    try:
        assert "<register xmlns='urn:xmpp:ibr-token:0'/>" in wire.features.replace('"', "'"), wire.features
        shown = f"<iq type='set' id='1' to='localhost'><preauth xmlns='urn:xmpp:pars:0' token='{token}'/></iq>"
        form = f"<query xmlns='jabber:iq:register'><username>{name}</username><password>{password}</password></query>"
        for number, iq in (("1", shown), ("2", f"<iq type='set' id='2' to='localhost'>{form}</iq>")):
            if iq is shown and token is None:
                continue
            wire.send(iq)
            text = await wire.until("</iq>", "/>")
            while text.count("<") > 1 and not text.endswith("</iq>"):
                text += await wire.until("</iq>", "/>")
            answer = ET.fromstring(text)
            assert answer.get("id") == number, ET.tostring(answer)
            if answer.get("type") == "error":
                return answer.find("error")[0].tag.split("}")[1]
    finally:
        wire.abort()


async def _register(server, jid, password):
    """Registers as slixmpp does. Returns the condition of the error."""
    person = Person(server, jid, password)
    outcome = []

    async def register(_):
        iq = person.client.Iq()
        iq["type"] = "set"
        iq["register"]["username"] = person.client.requested_jid.user
        iq["register"]["password"] = password
        try:
            await iq.send(timeout=20)
            outcome.append(None)
        except IqError as error:
            outcome.append(error.condition)

    person.client["xep_0077"].create_account = True
    person.client["xep_0077"].force_registration = False
    person.client.add_event_handler("register", register)
    person.client.connect("127.0.0.1", server.port)
    await person.until(lambda: outcome or person.seen["session_start"] or person.seen["failed_auth"])
    await person.logout()
    return outcome[0] if outcome else "not offered"


async def _is_refused(server, jid, password):
    try:
        async with Person(server, jid, password, mechanism="SCRAM-SHA-256"):
            raise AssertionError(f"{jid} gets in with {password}")
    except Refused as why:
        assert str(why) == "not-authorized", why
