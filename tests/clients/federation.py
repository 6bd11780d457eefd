"""Servers that meet: two Rookeries, and Rookery with Debian's Prosody, over DNS and certificates of the scenario's own.

All of them are on loopback. The DNS server answers for the domains of the scenario and says of all others that they don't exist.
"""

import asyncio
import datetime
import socket
import subprocess
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import slixmpp
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from person import Person
from rookery import Rookery


async def two_rookeries_meet():
    async with _World() as world:
        async with world.rookery("one.example", "alice") as one, world.rookery("two.example", "bob") as two:
            await _meet(one, "alice@one.example", two, "bob@two.example", world)
            assert "another server has opened a stream" in one.log.read_text(), one.log.read_text()


async def rookery_and_prosody_meet():
    async with _World() as world:
        async with world.rookery("one.example", "alice") as one, world.prosody("two.example", "bob") as two:
            await _meet(one, "alice@one.example", two, "bob@two.example", world)


async def a_server_whose_certificate_is_foreign_gets_nothing():
    async with _World() as world, _World() as other:
        # One network, and an authority that the other doesn't know.
        other.names = world.names
        async with world.rookery("one.example", "alice") as one, other.rookery("two.example", "bob", dns=world.dns) as two:
            async with Person(one, "alice@one.example", trust=world.authority) as alice:
                async with Person(two, "bob@two.example", trust=other.authority) as bob:
                    alice.write("bob@two.example", "hello")
                    error = await alice.take("message_error", lambda _: True)
                    assert error["error"]["condition"] == "remote-server-timeout", error
                    await bob.quiet()
                    assert not bob.seen["message"], bob.seen["message"]


async def _meet(one, alice, two, bob, world):
    """People of both servers chat, see each other, and meet in rooms of either."""
    async with Person(one, alice, trust=world.authority) as alice, Person(two, bob, trust=world.authority) as bob:
        for number in range(20):
            alice.write(bob.jid, f"to {number}")
        for number in range(20):
            await bob.reads(f"to {number}", of=alice.bare)
        for number in range(20):
            bob.write(alice.jid, f"back {number}")
        for number in range(20):
            await alice.reads(f"back {number}", of=bob.bare)
        for asker, asked in ((alice, bob), (bob, alice)):
            asker.client.send_presence_subscription(pto=asked.bare, ptype="subscribe")
            await asked.presence(asker.bare, "subscribe")
            asked.client.send_presence(pto=asker.bare, ptype="subscribed")
            await asker.presence(asked.jid)
        alice.client.send_presence(pshow="away")
        await bob.take("presence", lambda it: it["from"] == alice.jid and it["show"] == "away")
        for host in (alice.jid.domain, bob.jid.domain):
            await _room(slixmpp.JID(f"coven@conference.{host}"), alice, bob)
        alice.write("nobody@nowhere.example", "hello?")
        error = await alice.take("message_error", lambda it: it["from"].domain == "nowhere.example")
        assert error["error"]["condition"] == "remote-server-not-found", error


async def _room(room, alice, bob):
    hosts = (alice, bob) if room.domain.endswith(alice.jid.domain) else (bob, alice)
    for person in hosts:
        if "groupchat_message" not in person.seen:
            person.seen["groupchat_message"] = []
            person.client.register_plugin("xep_0045")
            person.client.add_event_handler("groupchat_message", person.seen["groupchat_message"].append)
        await person.client["xep_0045"].join_muc_wait(room, person.jid.user, timeout=20, maxstanzas=0)
        if person is hosts[0]:
            form = await person.client["xep_0045"].get_room_config(room, timeout=20)
            form["type"] = "submit"
            await person.client["xep_0045"].set_room_config(room, form, timeout=20)
    for person in hosts:
        person.write(room, f"hello from {person.jid.user}", mtype="groupchat")
        for hearer in hosts:
            message = await hearer.take("groupchat_message", lambda it: it["body"] == f"hello from {person.jid.user}")
            assert message["from"] == f"{room}/{person.jid.user}", message


class _World:
    """DNS, and an authority that all servers of it trust."""

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="federation-"))
        self.names = {}
        self.key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "The authority of a scenario")])
        certificate = self._certificate(name, name, self.key).add_extension(x509.BasicConstraints(True, None), True)
        self.own = certificate.sign(self.key, hashes.SHA256())
        self.authority = self.folder / "authority.pem"
        self.authority.write_bytes(self.own.public_bytes(serialization.Encoding.PEM))

    async def __aenter__(self):
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_datagram_endpoint(lambda: _Dns(self), local_addr=("127.0.0.1", 0))
        self.dns = self.transport.get_extra_info("sockname")[1]
        return self

    async def __aexit__(self, *_):
        self.transport.close()
        subprocess.run(["rm", "-r", self.folder], check=True)

    def _certificate(self, subject, issuer, key):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=30))

    def certify(self, domain):
        """Files of a certificate for a domain and its rooms, and of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._certificate(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, domain)]), self.own.subject, key)
        names = [x509.DNSName(name) for name in (domain, f"conference.{domain}")]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        # What authorities issue today: not for clients.
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        chain, private = self.folder / f"{domain}.pem", self.folder / f"{domain}.key"
        chain.write_bytes(builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        form = serialization.PrivateFormat.PKCS8
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return chain, private

    def is_at(self, domain, port):
        for name in (domain, f"conference.{domain}"):
            self.names[f"_xmpp-server._tcp.{name}.", "SRV"] = f"0 0 {port} {domain}."
            self.names[f"{name}.", "A"] = "127.0.0.1"

    @asynccontextmanager
    async def rookery(self, domain, account, dns=None):
        chain, key = self.certify(domain)
        tables = f"""
[tls]
certificate = "{chain}"
key = "{key}"
[federation]
enabled = true
dns = ["127.0.0.1:{dns or self.dns}"]
trusted = ["{self.authority}"]
allow_private_addresses = true
"""
        listen = 's2s = ["127.0.0.1:0"]\ns2s_tls = []'
        server = Rookery(f"{account}@{domain}", top=f'domains = ["{domain}"]', listen=listen, tables=tables)
        async with server:
            at = await server.says(r"\S+:(\d+) \(other servers, STARTTLS\)")
            self.is_at(domain, int(at[1]))
            yield server

    @asynccontextmanager
    async def prosody(self, domain, account):
        chain, key = self.certify(domain)
        clients, servers = _free_port(), _free_port()
        home = self.folder / domain
        (home / "data").mkdir(parents=True)
        config = home / "prosody.cfg.lua"
        self.is_at(domain, servers)
        (home / "mod_scenario_dns.lua").write_text(RESOLVER)
        values = dict(HOME=home, CLIENTS=clients, SERVERS=servers, CHAIN=chain, KEY=key, CA=self.authority, DOMAIN=domain)
        values["RECORDS"] = "".join(f'["{name} {kind}"] = "{value}"; ' for (name, kind), value in self.names.items())
        config.write_text(_filled(PROSODY, values))
        register = ["prosodyctl", "--root", "--config", config, "register", account, domain, "secret"]
        subprocess.run(register, check=True, stdout=subprocess.DEVNULL)
        process = subprocess.Popen(["prosody", "--root", "-F", "--config", config], cwd=home, stdout=subprocess.DEVNULL)
        async with _running(process, clients, home / "log") as peer:
            yield peer


class _Peer:
    """What a person needs of a server."""

    def __init__(self, port):
        self.port, self.certificate = port, None


@asynccontextmanager
async def _running(process, port, log):
    try:
        async with asyncio.timeout(60):
            while not _answers(port):
                assert process.poll() is None, log.read_text()
                await asyncio.sleep(0.1)
        await asyncio.sleep(1)
        yield _Peer(port)
    except BaseException:
        print("What the other server said:", *log.read_text().splitlines()[-100:], sep="\n  ")
        raise
    finally:
        process.terminate()
        process.wait()


class _Dns(asyncio.DatagramProtocol):
    def __init__(self, world):
        self.world = world

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, sender):
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question, recursion_available=True)
        asked = question.question[0]
        name, kind = asked.name.to_text().lower(), dns.rdatatype.to_text(asked.rdtype)
        found = self.world.names.get((name, kind))
        if found:
            answer.answer.append(dns.rrset.from_text(asked.name, 60, "IN", kind, found))
        elif not any(known == name for known, _ in self.world.names):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        self.transport.sendto(answer.to_wire(), sender)


def _filled(text, values):
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


def _answers(port):
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


PROSODY = """
run_as_root = true
data_path = "@HOME@/data"
certificates = "@HOME@"
pidfile = "@HOME@/prosody.pid"
log = { debug = "@HOME@/log" }
interfaces = { "127.0.0.1" }
c2s_ports = { @CLIENTS@ }
c2s_direct_tls_ports = {}
s2s_ports = { @SERVERS@ }
s2s_direct_tls_ports = {}
http_ports = {}
https_ports = {}
plugin_paths = { "@HOME@" }
records = { @RECORDS@ }
ssl = { certificate = "@CHAIN@", key = "@KEY@", cafile = "@CA@" }
s2s_secure_auth = true
s2s_require_encryption = true
authentication = "internal_hashed"
storage = "internal"
modules_enabled = { "roster", "saslauth", "tls", "dialback", "disco", "ping", "scenario_dns" }
VirtualHost "@DOMAIN@"
Component "conference.@DOMAIN@" "muc"
"""

# Debian's Prosody asks the name servers of the machine, on port 53: this takes their place.
RESOLVER = """
module:set_global()
local records = module:get_option("records")
local function lookup(_, handler, name, kind)
  name = name:gsub("%.?$", ".")
  local found, answer = records[name .. " " .. kind], {}
  if found and kind == "SRV" then
    local priority, weight, port, target = found:match("(%d+) (%d+) (%d+) (%S+)")
    answer[1] = { srv = { priority = tonumber(priority), weight = tonumber(weight), port = tonumber(port), target = target } }
  elseif found then
    answer[1] = { [kind:lower()] = found }
  end
  handler(answer)
end
require "net.adns".resolver = function () return { lookup = lookup } end
"""
