"""Somebody with slixmpp: the client as it is, with what it reports kept until a scenario asks for
it.
"""

import asyncio
import ssl

import slixmpp

# The time to wait for something that has to come.
PATIENCE = 20


class Refused(Exception):
    """The server doesn't let somebody in; says why."""


class Person:
    """`async with Person(server, "alice@localhost")`: logged in, with the roster loaded and
    available.

    `trust` is the file of certificates to trust, by default the server's own; None trusts no
    further one. `believing` takes any certificate for proof. `direct` uses direct TLS; otherwise it
    is STARTTLS. `mechanism` forces one. `present=False` leaves roster and presence to the scenario.
    `managed` uses stream management.
    """

    def __init__(self, server, jid, password="secret", *, trust=..., believing=False, direct=False, mechanism=None, tls=None, present=True, managed=False):
        self.server, self.direct, self.present = server, direct, present
        self.client = client = slixmpp.ClientXMPP(jid, password)
        # Requests are answered by the scenario, as they are by people.
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
        # slixmpp connects again by itself after a loss, which no scenario wants.
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
        """The certificate that the server showed."""
        return ssl.DER_cert_to_PEM_cert(self.cipher.getpeercert(True))

    def write(self, to, text, **attributes):
        self.client.send_message(mto=to, mbody=text, **{"mtype": "chat", **attributes})

    async def message(self):
        """The next message that came, in the order in which they came."""
        return await self.take("message", lambda _: True)

    async def reads(self, text, of):
        """The next message has this text and is from somebody."""
        message = await self.message()
        assert (message["body"], message["from"].bare) == (text, str(of)), f"instead of {text!r} came: {message}"
        return message

    async def presence(self, of, kind="available"):
        """The next presence of somebody that is of a kind, such as `subscribe` or `unavailable`."""
        wanted = slixmpp.JID(of)
        matches = lambda it: it["from"] == wanted or (not wanted.resource and it["from"].bare == wanted.bare)
        return await self.take("presence", lambda it: it["type"] == kind and matches(it))

    async def take(self, event, wanted):
        """The first thing of a kind that was reported and not taken yet."""
        found = await self.until(lambda: next((it for it in self.seen[event] if wanted(it)), None), event)
        self.seen[event].remove(found)
        return found

    async def until(self, condition, what=""):
        """Waits until something is so, and returns it."""
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := condition()):
                    await asyncio.sleep(0.01)
                return found
        except TimeoutError:
            heard = {event: list(map(str, its)) for event, its in self.seen.items() if its}
            raise TimeoutError(f"{self.client.requested_jid} waits for {what or condition} in vain; heard: {heard}") from None

    async def quiet(self):
        """Nothing is on its way: the server answers in order, so what it had to say came before its
        answer. That says nothing of its store.
        """
        await self.client["xep_0199"].send_ping(self.client.boundjid.domain, timeout=PATIENCE)
        await self.client["xep_0199"].send_ping(self.bare, timeout=PATIENCE)

    async def acknowledged(self):
        """The server has stored all that was sent (XEP-0198)."""
        # Stanzas leave by a queue, a request for an acknowledgement doesn't.
        await self.quiet()
        management = self.client["xep_0198"]
        management.request_ack()
        await self.until(lambda: not management.unacked_queue, "an acknowledgement")

    def item(self, jid):
        """The entry of somebody in the roster."""
        return self.client.client_roster[jid]


async def befriend(one, other):
    """Two people add each other."""
    for asker, asked in ((one, other), (other, one)):
        asker.client.send_presence_subscription(pto=asked.bare, ptype="subscribe")
        await asked.presence(asker.bare, "subscribe")
        asked.client.send_presence_subscription(pto=asker.bare, ptype="subscribed")
        await asker.presence(asked.bare, "subscribed")
        await asker.presence(asked.jid)


async def is_refused(server, jid, password, reason):
    """Somebody can't log in, and is told why."""
    try:
        async with Person(server, jid, password):
            pass
    except Refused as refused:
        assert reason in str(refused), refused
    else:
        raise AssertionError(f"{jid} can log in")


# After `failed_auth` slixmpp tries the next mechanism.
FAILURES = ("failed_all_auth", "ssl_invalid_chain", "stream_error", "connection_failed", "disconnected")
EVENTS = ("session_start", "failed_auth", "message", "message_error", "presence", "roster_update", *FAILURES)
