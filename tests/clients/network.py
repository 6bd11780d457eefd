"""Runs a network of servers on loopback: its own DNS, an authority that all of them trust, Rookery,
and Debian's Prosody and ejabberd.

The DNS server answers for the network's domains and denies that any others exist. No other DNS
server is queried.
"""

import asyncio
import datetime
import hashlib
import os
import signal
import socket
import subprocess
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ports import free_port
from rookery import Rookery


class Network:
    """DNS, and an authority that all servers of this network trust."""

    def template(self, kind):
        """The configuration template of a kind of server."""
        return {"rookery": ROOKERY, "prosody": PROSODY, "ejabberd": EJABBERD}[kind]

    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="federation-"))
        self.names = {}
        self.hosts = self.folder / "hosts"
        # The signed zone, if there is one: a `Zone`.
        self.zone = None
        # The behaviour of DNS for names with these endings; see `_Dns`.
        self.moods = {}
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

    def _certificate(self, subject, issuer, key, ends=30):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number())
        return builder.not_valid_before(now - datetime.timedelta(days=60)).not_valid_after(now + datetime.timedelta(days=ends))

    def certify(self, domain, fault=None):
        """The files of a certificate for a domain and its rooms, and of its key. `fault` makes it
        `expired`, `own` (self-signed), or for `other` names.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, domain)])
        issuer, signer = (subject, key) if fault == "own" else (self.own.subject, self.key)
        builder = self._certificate(subject, issuer, key, ends=-1 if fault == "expired" else 30)
        shown = f"not-{domain}" if fault == "other" else domain
        names = [x509.DNSName(name) for name in (shown, f"conference.{shown}")]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        # Authorities issue certificates without client authentication today, which Debian's
        # ejabberd requires.
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
        chain, private = self.folder / f"{domain}.pem", self.folder / f"{domain}.key"
        chain.write_bytes(builder.sign(signer, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        form = serialization.PrivateFormat.PKCS8
        private.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
        return chain, private

    def names_certificate(self, domain, port, chain):
        """Publishes the key of a certificate in DNS for the server at a port (RFC 6698: usage 3,
        selector 1, type 1).
        """
        key = x509.load_pem_x509_certificate(chain.read_bytes()).public_key()
        info = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.names[f"_{port}._tcp.{domain}.", "TLSA"] = f"3 1 1 {hashlib.sha256(info).hexdigest()}"

    def is_at(self, domain, port):
        for name in (domain, f"conference.{domain}"):
            self.names[f"_xmpp-server._tcp.{name}.", "SRV"] = f"0 0 {port} {domain}."
            self.names[f"{name}.", "A"] = "127.0.0.1"
        addresses = (f"{value} {name[:-1]}\n" for (name, kind), value in self.names.items() if kind == "A")
        self.hosts.write_text("".join(addresses))

    @asynccontextmanager
    async def rookery(self, domain, account, dns=None, more="", federation="", fault=None):
        """Starts a Rookery. `more` has further tables of its configuration, `federation` further
        keys of that table.
        """
        chain, key = self.certify(domain, fault)
        servers = free_port()
        tables = _filled(self.template("rookery"), dict(CHAIN=chain, KEY=key, DNS=dns or self.dns, CA=self.authority))
        tables += f"{federation}\n{more}"
        listen = f's2s = ["127.0.0.1:{servers}"]\ns2s_tls = []'
        self.is_at(domain, servers)
        async with Rookery(f"{account}@{domain}", top=f'domains = ["{domain}"]', listen=listen, tables=tables) as server:
            yield server

    @asynccontextmanager
    async def prosody(self, domain, account, modules=("dialback",), secure="true", fault=None):
        chain, key = self.certify(domain, fault)
        clients, servers = free_port(), free_port()
        home = self.folder / domain
        (home / "data").mkdir(parents=True)
        config = home / "prosody.cfg.lua"
        self.is_at(domain, servers)
        values = dict(HOME=home, CLIENTS=clients, SERVERS=servers, CHAIN=chain, KEY=key, CA=self.authority, DOMAIN=domain, DNS=self.dns, SECURE=secure)
        values["MODULES"] = "".join(f', "{module}"' for module in modules)
        config.write_text(_filled(self.template("prosody"), values))
        register = ["prosodyctl", "--root", "--config", config, "register", account, domain, "secret"]
        subprocess.run(register, check=True, stdout=subprocess.DEVNULL)
        command = ["prosody", "--root", "-F", "--config", config]
        async with Peer(command, os.environ, home, clients, home / "log") as peer:
            peer.servers, peer.chain = servers, chain
            yield peer

    @asynccontextmanager
    async def ejabberd(self, domain, account):
        chain, key = self.certify(domain)
        clients, servers = free_port(), free_port()
        home = self.folder / domain
        self.is_at(domain, servers)
        (home / "log").mkdir(parents=True)
        both = home / "own.pem"
        both.write_bytes(chain.read_bytes() + key.read_bytes())
        values = dict(HOME=home, CLIENTS=clients, SERVERS=servers, CHAIN=both, CA=self.authority, DOMAIN=domain)
        (home / "ejabberd.yml").write_text(_filled(self.template("ejabberd"), values))
        control = Path("/usr/sbin/ejabberdctl").read_text().splitlines()
        libraries = next(line.split("=", 1)[1].strip("'\"") for line in control if line.startswith("ERL_LIBS="))
        # ejabberd looks for SRV records by itself, and has the C library find addresses, which asks
        # port 53 of the name servers in /etc/resolv.conf and nobody else: for these there is a
        # file, which is read again when a server joins the network.
        (home / "inetrc").write_text(_filled(INETRC, dict(DNS=self.dns)))
        environment = dict(os.environ, EJABBERD_CONFIG_PATH=str(home / "ejabberd.yml"), EJABBERD_LOG_PATH=str(home / "log/ejabberd.log"))
        environment.update(HOME=str(home), ERL_LIBS=libraries, ERL_CRASH_DUMP_BYTES="0", ERL_INETRC=str(home / "inetrc"))
        environment.update(LD_PRELOAD="libnss_wrapper.so", NSS_WRAPPER_HOSTS=str(self.hosts))
        script = f'ejabberd_auth:try_register(<<"{account}">>, <<"{domain}">>, <<"secret">>).'
        command = ["erl", "-noinput", "-mnesia", "dir", f'"{home}/spool"', "-s", "ejabberd", "-eval", script]
        async with Peer(command, environment, home, clients, home / "log/ejabberd.log") as peer:
            yield peer


class Peer:
    """A server of another project, as a process that a scenario can stop and start again."""

    certificate = None

    def __init__(self, command, environment, folder, port, log):
        self.command, self.environment, self.folder, self.port, self.log = command, environment, folder, port, log
        self.process = None

    async def __aenter__(self):
        try:
            await self.start()
        except BaseException:
            self._leave()
            raise
        return self

    async def __aexit__(self, kind, *_):
        if kind:
            print("What the other server said:", *self.log.read_text().splitlines()[-100:], sep="\n  ")
        self._leave()

    async def start(self):
        self.process = subprocess.Popen(self.command, env=self.environment, cwd=self.folder, stdout=subprocess.DEVNULL)
        async with asyncio.timeout(60):
            while not _answers(self.port):
                assert self.process.poll() is None, self.log.read_text()
                await asyncio.sleep(0.1)
        # The account is created after the port is open.
        await asyncio.sleep(1)

    async def stop(self, number=signal.SIGTERM):
        process, self.process = self.process, None
        process.send_signal(number)
        await asyncio.get_running_loop().run_in_executor(None, process.wait, 30)

    def _leave(self):
        if self.process:
            self.process.kill()
            self.process.wait()


class _Dns(asyncio.DatagramProtocol):
    """Answers queries, by the network's mood for the name if there is one. `fails` returns
    SERVFAIL, `silent` nothing, `slow` the answer after two seconds; with `lies`, a forged answer
    comes first, with a wrong id and an address on which nothing listens.
    """

    def __init__(self, network):
        self.network = network

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, sender):
        question = dns.message.from_wire(data)
        answer = dns.message.make_response(question, recursion_available=True)
        asked = question.question[0]
        name, kind = asked.name.to_text().lower(), dns.rdatatype.to_text(asked.rdtype)
        found = self.network.names.get((name, kind))
        if found:
            answer.answer.append(dns.rrset.from_text(asked.name, 60, "IN", kind, found))
        elif not any(known == name for known, _ in self.network.names):
            answer.set_rcode(dns.rcode.NXDOMAIN)
        # A validating resolver queries for the zone itself.
        if not question.flags & dns.flags.RD:
            answer.flags |= dns.flags.AA
            if self.network.zone and asked.name.is_subdomain(self.network.zone.name):
                self.network.zone.complete(answer, [known for owner, known in self.network.names if owner == name])
        mood = next((mood for end, mood in self.network.moods.items() if name.endswith(end)), None)
        if mood == "fails":
            answer.answer.clear()
            answer.set_rcode(dns.rcode.SERVFAIL)
        if mood == "lies" and found:
            lie = dns.message.make_response(question, recursion_available=True)
            lie.id ^= 1
            lie.answer.append(dns.rrset.from_text(asked.name, 60, "IN", kind, "0 0 9 localhost." if kind == "SRV" else "127.0.0.9"))
            self.transport.sendto(lie.to_wire(), sender)
        if mood == "slow":
            asyncio.get_running_loop().call_later(2, self.transport.sendto, answer.to_wire(), sender)
        elif mood != "silent":
            self.transport.sendto(answer.to_wire(), sender)


def _filled(text, values):
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    return text


def _answers(port):
    with socket.socket() as trying:
        return trying.connect_ex(("127.0.0.1", port)) == 0


ROOKERY = """
[tls]
certificate = "@CHAIN@"
key = "@KEY@"
[federation]
enabled = true
dns = ["127.0.0.1:@DNS@"]
trusted = ["@CA@"]
allow_private_addresses = true
"""

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
unbound = {
  resolvconf = false; forward = "127.0.0.1@@DNS@";
  options = { ["do-not-query-localhost:"] = "no" };
}
ssl = { certificate = "@CHAIN@", key = "@KEY@", cafile = "@CA@" }
s2s_secure_auth = @SECURE@
s2s_require_encryption = true
authentication = "internal_hashed"
storage = "internal"
modules_enabled = { "roster", "saslauth", "tls", "disco", "ping"@MODULES@ }
VirtualHost "@DOMAIN@"
Component "conference.@DOMAIN@" "muc"
"""

INETRC = """
{resolv_conf, ""}.
{hosts_file, ""}.
{lookup, [dns]}.
{nameserver, {127,0,0,1}, @DNS@}.
"""

EJABBERD = """
hosts: ["@DOMAIN@"]
loglevel: debug
certfiles: ["@CHAIN@"]
ca_file: "@CA@"
listen:
  - port: @CLIENTS@
    ip: "127.0.0.1"
    module: ejabberd_c2s
    access: all
    starttls: true
  - port: @SERVERS@
    ip: "127.0.0.1"
    module: ejabberd_s2s_in
s2s_use_starttls: required
outgoing_s2s_families: [ipv4]
s2s_max_retry_delay: 1
auth_method: mnesia
auth_password_format: scram
default_db: mnesia
modules:
  mod_caps: {}
  mod_disco: {}
  mod_ping: {}
  mod_pubsub:
    plugins: ["flat", "pep"]
  mod_roster: {}
  mod_s2s_dialback: {}
  mod_muc:
    host: "conference.@DOMAIN@"
    access: all
    access_create: all
"""
