"""Obtains certificates by ACME: the server proves its domains to Pebble, an authority for such
tests.
"""

import asyncio
import json
import os
import signal
import socket
import ssl
import stat
import subprocess

from cryptography import x509

from person import Person
from ports import free_port
from rookery import Rookery

DOMAINS = 'domains = ["localhost", "one.example", "two.example"]'
ACME = """
[tls.acme]
enabled = true
services = {services}
directory = "https://localhost:{port}/dir"
contact = ["mailto:admin@one.example"]
domains = {domains}
trusted = "authority.pem"
"""


async def certificates_are_issued_and_renewed():
    async with Rookery("alice@one.example", top=DOMAINS) as server, _Pebble(server, seconds=15) as pebble:
        assert "localhost" in str(_shown(server, "one.example").extensions), "its own, for all domains"
        async with Person(server, "alice@one.example") as alice:
            await _wants(server, pebble, '["one.example", "two.example"]')
            first = {domain: await _issued(server, domain) for domain in ("one.example", "two.example")}
            assert _issuer(_shown(server, "localhost")) == _issuer_of_file(server), "who isn't named keeps the server's own"
            renewed = await _other_than(server, "one.example", first["one.example"])
            assert renewed.not_valid_after_utc > first["one.example"].not_valid_after_utc
            # Earlier sessions continue.
            await alice.quiet()
        account = server.folder / "rookery-data/certs/acme/account.toml"
        for file in (account, account.with_name("one.example.pem")):
            assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
        kept = account.read_bytes()
        await server.stop()
        await server.start()
        assert "Pebble" in _issuer(_shown(server, "two.example")), "it is there from the start"
        assert account.read_bytes() == kept


async def what_the_authority_refuses_changes_nothing():
    async with Rookery(top=DOMAINS) as server, _Pebble(server, answers="127.0.0.2") as pebble:
        before = _shown(server, "one.example")
        at = server.log.stat().st_size
        await _wants(server, pebble, '["one.example"]')
        await server.says(r"no certificate was issued.*one\.example", at)
        assert _shown(server, "one.example") == before
        assert not (server.folder / "rookery-data/certs/acme/one.example.pem").exists()


async def services_are_named_by_the_certificate_of_their_domain():
    async with Rookery(top=DOMAINS) as server, _Pebble(server) as pebble:
        await _wants(server, pebble, '["one.example"]')
        await _issued(server, "one.example")
        assert "localhost" in str(_shown(server, "upload.one.example").extensions), "nobody's: the server's own"
        # A further name makes the server renew the certificate, which it then presents for all
        # names.
        await _wants(server, pebble, '["one.example"]', services='["rooms", "upload"]')
        named = {"one.example", "conference.one.example", "upload.one.example"}
        for name in sorted(named):
            while set(_names(shown := _shown(server, name))) != named:
                await asyncio.sleep(0.1)
            assert "Pebble" in _issuer(shown), shown


class _Pebble:
    """An authority on this machine, which connects to the server's port for HTTP. `answers` is the
    address to which it resolves all domains, `seconds` the validity of its certificates.
    """

    def __init__(self, server, answers="127.0.0.1", seconds=86400):
        self.server, self.answers, self.seconds = server, answers, seconds
        self.processes = []

    async def __aenter__(self):
        folder = self.server.folder
        self.port, management, names = (free_port() for _ in range(3))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", "authority.key", "-out",
             "authority.pem", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext",
             "basicConstraints=critical,CA:FALSE"],
            cwd=folder, check=True, capture_output=True,
        )
        (folder / "pebble.json").write_text(json.dumps({"pebble": {
            "listenAddress": f"127.0.0.1:{self.port}", "managementListenAddress": f"127.0.0.1:{management}", "certificate": "authority.pem",
            "privateKey": "authority.key", "httpPort": self.server.web_port, "tlsPort": 1, "certificateValidityPeriod": self.seconds,
        }}))
        self.log = (folder / "pebble.log").open("wb")
        self._run("pebble-challtestsrv", "-defaultIPv4", self.answers, "-defaultIPv6", "", "-dns01", f"127.0.0.1:{names}", "-http01", "",
                  "-https01", "", "-tlsalpn01", "", "-management", f"127.0.0.1:{free_port()}")
        self._run("pebble", "-config", "pebble.json", "-dnsserver", f"127.0.0.1:{names}")
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                assert all(process.poll() is None for process in self.processes), (folder / "pebble.log").read_text()
                await asyncio.sleep(0.05)

    async def __aexit__(self, kind, *_):
        for process in self.processes:
            process.send_signal(signal.SIGTERM)
            process.wait()
        self.log.close()
        if kind is not None:
            print("What Pebble said:", *(self.server.folder / "pebble.log").read_text().splitlines()[-40:], sep="\n  ")

    def _run(self, *command):
        # Pebble would wait a random time before it validates, and refuse one in twenty requests at
        # random: now and then all requests of one order.
        environment = {**os.environ, "PEBBLE_VA_NOSLEEP": "1", "PEBBLE_WFE_NONCEREJECT": "0"}
        self.processes.append(subprocess.Popen(command, cwd=self.server.folder, env=environment, stdout=self.log, stderr=self.log))


async def _wants(server, pebble, domains, services="[]"):
    server.configure(top=DOMAINS, tables=ACME.format(port=pebble.port, domains=domains, services=services))
    await server.reload()


async def _issued(server, domain):
    """Waits until the server presents the authority's certificate for a domain, and only for this
    domain.
    """
    while "Pebble" not in _issuer(_shown(server, domain)):
        await asyncio.sleep(0.1)
    shown = _shown(server, domain)
    assert _names(shown) == [domain], shown
    return shown


async def _other_than(server, domain, old):
    while (shown := _shown(server, domain)).serial_number == old.serial_number:
        await asyncio.sleep(0.2)
    return shown


def _shown(server, domain):
    """The certificate that the server presents to a client for a domain."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", server.web_tls_port), timeout=20) as plain:
        with context.wrap_socket(plain, server_hostname=domain) as tls:
            return x509.load_der_x509_certificate(tls.getpeercert(binary_form=True))


def _names(certificate):
    return certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(x509.DNSName)


def _issuer(certificate):
    return certificate.issuer.rfc4514_string()


def _issuer_of_file(server):
    return _issuer(x509.load_pem_x509_certificate(server.certificate.read_bytes()))
