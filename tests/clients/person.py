"""A person who uses slixmpp: the unmodified client, whose events are kept until a scenario takes
them.
"""

import asyncio
import ssl

import slixmpp

# The longest wait for anything that must arrive, in seconds.
PATIENCE = 20


class Refused(Exception):
    """Raised if the server refuses a login, with the reason."""


class Person:
    """`async with Person(server, "alice@localhost")`: logged in, with the roster loaded and
    available.

    `trust` is a file of certificates to trust, by default the server's own; None trusts no others.
    `believing` accepts any certificate. `direct` uses direct TLS instead of STARTTLS. `mechanism`
    forces a SASL mechanism. `present=False` leaves roster and presence to the scenario. `managed`
    uses stream management.
    """

    def __init__(self, server, jid, password="secret", *, trust=..., believing=False, direct=False, mechanism=None, tls=None, present=True, managed=False):
        self.server, self.direct, self.present = server, direct, present
        self.client = client = slixmpp.ClientXMPP(jid, password)
        # The scenario answers subscription requests, as people do.
        client.roster.auto_authorize = client.roster.auto_subscribe = None
        client.ca_certs = server.certificate if trust is ... else trust
        if believing:
            client.ssl_context.check_hostname, client.ssl_context.verify_mode = False, ssl.CERT_NONE
        client.enable_direct_tls, client.enable_starttls, client.enable_plaintext = direct, not direct, False
        client["feature_mechanisms"].use_mech = mechanism
        if tls:
            client.ssl_context.minimum_version = client.ssl_context.maximum_version = tls
        for plugin in ("xep_0030", "xep_0077", "xep_0092", "xep_0199", "xep_0202", "xep_0203"):
            client.register_plugin(plugin)
        if managed:
            client.register_plugin("xep_0198")
        # slixmpp would register an account by itself.
        client["xep_0077"].create_account = False
        self.seen = {}
        for event in EVENTS:
            self.seen[event] = []
            client.add_event_handler(event, self.seen[event].append)

    async def __aenter__(self):
        await self.login()
        return self

    async def __aexit__(self, *_):
        await self.logout()

    async def login(self):
        # slixmpp would reconnect by itself, which no scenario wants.
        self.client.add_event_handler("connection_failed", lambda _: self.client.cancel_connection_attempt())
        self.client.connect("127.0.0.1", self.server.tls_port if self.direct else self.server.port)
        try:
            await self.until(lambda: any(self.seen[event] for event in ("session_start", *FAILURES)))
            if not self.seen["session_start"]:
                raise Refused(self._why())
        except BaseException:
            await self.logout()
            raise
        if self.present:
            await self.client.get_roster()
            self.client.send_presence()

    def _why(self):
        if self.seen["failed_auth"]:
            return self.seen["failed_auth"][0]["condition"]
        return next(f"{event}: {self.seen[event][0]}" for event in FAILURES if self.seen[event])

    async def logout(self):
        self.client.cancel_connection_attempt()
        if self.client.is_connected():
            await self.client.disconnect(wait=1)

    @property
    def jid(self):
        return self.client.boundjid

    @property
    def bare(self):
        return self.client.boundjid.bare

    @property
    def cipher(self):
        """The encryption, as an `ssl.SSLObject`."""
        return self.client.transport.get_extra_info("ssl_object")

    def certificate(self):
        """The certificate that the server presented."""
        return ssl.DER_cert_to_PEM_cert(self.cipher.getpeercert(True))

    def write(self, to, text, **attributes):
        self.client.send_message(mto=to, mbody=text, **{"mtype": "chat", **attributes})

    async def message(self):
        """Takes the next message, in order of arrival."""
        return await self.take("message", lambda _: True)

    async def reads(self, text, of):
        """Asserts that the next message has this text and this sender."""
        message = await self.message()
        assert (message["body"], message["from"].bare) == (text, str(of)), f"instead of {text!r} came: {message}"
        return message

    async def presence(self, of, kind="available"):
        """Takes the next presence from an address of this type, such as `subscribe` or
        `unavailable`.
        """
        wanted = slixmpp.JID(of)
        matches = lambda it: it["from"] == wanted or (not wanted.resource and it["from"].bare == wanted.bare)
        return await self.take("presence", lambda it: it["type"] == kind and matches(it))

    async def take(self, event, wanted):
        """Takes the first event of a kind that wasn't taken yet."""
        found = await self.until(lambda: next((it for it in self.seen[event] if wanted(it)), None), event)
        self.seen[event].remove(found)
        return found

    async def until(self, condition, what=""):
        """Waits until the condition holds, and returns its value."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := condition()):
                    await asyncio.sleep(0.01)
                return found
        except TimeoutError:
            heard = {event: list(map(str, its)) for event, its in self.seen.items() if its}
            raise TimeoutError(f"{self.client.requested_jid} waits for {what or condition} in vain; heard: {heard}") from None

    async def quiet(self):
        """Waits until no stanza is under way: the server sends in order, so everything else arrives
        before its reply. Writes of the store may still be pending.
        """
        await self.client["xep_0199"].send_ping(self.client.boundjid.domain, timeout=PATIENCE)
        await self.client["xep_0199"].send_ping(self.bare, timeout=PATIENCE)

    async def acknowledged(self):
        """Waits until the server has stored everything that was sent (XEP-0198)."""
        # slixmpp queues stanzas, but sends a request for an acknowledgement at once.
        await self.quiet()
        management = self.client["xep_0198"]
        management.request_ack()
        await self.until(lambda: not management.unacked_queue, "an acknowledgement")

    def item(self, jid):
        """The roster item of an address."""
        return self.client.client_roster[jid]


async def befriend(one, other):
    """Lets two people add each other."""
    for asker, asked in ((one, other), (other, one)):
        asker.client.send_presence_subscription(pto=asked.bare, ptype="subscribe")
        await asked.presence(asker.bare, "subscribe")
        asked.client.send_presence_subscription(pto=asker.bare, ptype="subscribed")
        await asker.presence(asked.bare, "subscribed")
        await asker.presence(asked.jid)


async def is_refused(server, jid, password, reason):
    """Asserts that a login fails with this reason."""
    try:
        async with Person(server, jid, password):
            pass
    except Refused as refused:
        assert reason in str(refused), refused
    else:
        raise AssertionError(f"{jid} can log in")


# slixmpp tries the next mechanism after `failed_auth`.
FAILURES = ("failed_all_auth", "ssl_invalid_chain", "stream_error", "connection_failed", "disconnected")
EVENTS = ("session_start", "failed_auth", "message", "message_error", "presence", "roster_update", *FAILURES)
