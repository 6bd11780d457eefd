"""Serves a signed DNS zone, and runs Unbound as its validating resolver.

Records are signed when they are queried. Missing names are denied as in RFC 9824: the name exists,
and has no such records.
"""

import asyncio
import base64
import struct
import subprocess
import time
from contextlib import asynccontextmanager

import dns.dnssec
import dns.name
import dns.rcode
import dns.rdata
import dns.rdatatype
import dns.rrset
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from ports import free_port


class Zone:
    """A zone with one key (ECDSA on P-256), which is the resolvers' trust anchor."""

    def __init__(self, name):
        self.name = dns.name.from_text(name)
        self.key, self.wrong = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        numbers = self.key.public_key().public_numbers()
        public = base64.b64encode(numbers.x.to_bytes(32, "big") + numbers.y.to_bytes(32, "big")).decode()
        # Zone key and entry point (RFC 4034 section 2.1.1).
        self.public = f"257 3 {ALGORITHM} {public}"
        self.tag = dns.dnssec.key_id(dns.rdata.from_text("IN", "DNSKEY", self.public))
        # Names and types whose signatures are wrong.
        self.broken = set()

    @property
    def anchor(self):
        return f"{self.name} DNSKEY {self.public}"

    def complete(self, answer, types):
        """Turns a reply into one of the zone: adds signatures, and without records the NSEC record
        with the name's types.
        """
        asked = answer.question[0]
        if asked.name == self.name and asked.rdtype == dns.rdatatype.DNSKEY:
            answer.answer.append(dns.rrset.from_text(asked.name, TTL, "IN", "DNSKEY", self.public))
        answer.set_rcode(dns.rcode.NOERROR)
        if not answer.answer:
            soa = f"{self.name} hostmaster.{self.name} 1 3600 600 86400 {TTL}"
            answer.authority.append(dns.rrset.from_text(self.name, TTL, "IN", "SOA", soa))
            after = dns.name.Name((b"\0", *asked.name.labels))
            nsec = " ".join([after.to_text(), *types, "RRSIG", "NSEC"])
            answer.authority.append(dns.rrset.from_text(asked.name, TTL, "IN", "NSEC", nsec))
        for section in (answer.answer, answer.authority):
            section.extend([self._signature(rrset) for rrset in section])

    def _signature(self, rrset):
        """The signature of records (RFC 4034 section 3.1.8.1)."""
        now, labels = int(time.time()), len(rrset.name) - 1
        begins, ends, signer = now - 60, now + 3600, self.name.to_digestable()
        data = struct.pack("!HBBIIIH", rrset.rdtype, ALGORITHM, labels, TTL, ends, begins, self.tag) + signer
        for record in sorted(record.to_digestable() for record in rrset):
            data += rrset.name.to_digestable() + struct.pack("!HHIH", rrset.rdtype, rrset.rdclass, TTL, len(record)) + record
        kind = dns.rdatatype.to_text(rrset.rdtype)
        key = self.wrong if (rrset.name.to_text().lower(), kind) in self.broken else self.key
        r, s = utils.decode_dss_signature(key.sign(data, ec.ECDSA(hashes.SHA256())))
        signature = base64.b64encode(r.to_bytes(32, "big") + s.to_bytes(32, "big")).decode()
        text = f"{kind} {ALGORITHM} {labels} {TTL} {ends} {begins} {self.tag} {self.name} {signature}"
        return dns.rrset.from_text(rrset.name, TTL, "IN", "RRSIG", text)


@asynccontextmanager
async def unbound(folder, dns_port, signed, unsigned):
    """Runs a validating resolver for a signed zone and for the names below another one, both served
    at the given port. Yields the resolver's port.
    """
    port = free_port()
    stubs = "".join(f"stub-zone:\n  name: {name}\n  stub-addr: 127.0.0.1@{dns_port}\n" for name in (signed.name, unsigned))
    values = dict(HOME=folder, PORT=port, ANCHOR=signed.anchor, STUBS=stubs)
    text = UNBOUND
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    (folder / "unbound.conf").write_text(text)
    command = ["unbound", "-d", "-p", "-c", folder / "unbound.conf"]
    with (folder / "unbound.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        async with asyncio.timeout(20):
            while "start of service" not in (folder / "unbound.log").read_text():
                assert process.poll() is None, (folder / "unbound.log").read_text()
                await asyncio.sleep(0.05)
        yield port
    except BaseException:
        print("What Unbound said:", *(folder / "unbound.log").read_text().splitlines()[-60:], sep="\n  ")
        raise
    finally:
        process.terminate()
        await asyncio.get_running_loop().run_in_executor(None, process.wait, 30)


# RFC 6605: ECDSA on P-256 with SHA-256.
ALGORITHM = 13
TTL = 60

UNBOUND = """
server:
  directory: "@HOME@"
  chroot: ""
  username: ""
  pidfile: ""
  use-syslog: no
  logfile: ""
  verbosity: 1
  val-log-level: 2
  num-threads: 1
  interface: 127.0.0.1
  port: @PORT@
  do-ip6: no
  do-not-query-localhost: no
  access-control: 127.0.0.0/8 allow
  module-config: "validator iterator"
  trust-anchor: "@ANCHOR@"
  qname-minimisation: no
  target-fetch-policy: "0 0 0 0 0"
remote-control:
  control-enable: no
@STUBS@
"""
