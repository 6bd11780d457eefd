"""Runs a pvAccess server with a few process variables on 127.0.0.1. It is a separate program, which
`iocs.p4p` starts.
"""

import time

from p4p.nt import NTEnum, NTScalar
from p4p.server import Server, StaticProvider
from p4p.server.thread import SharedPV


class Settable:
    """Accepts every value."""

    def put(self, pv, op):
        pv.post(op.value(), timestamp=time.time())
        op.done()


class Locked:
    """Refuses every value."""

    def put(self, pv, op):
        op.done(error="Put permission denied")


INVALID = {"severity": 3, "status": 1, "message": "never read"}
MINOR = {"severity": 1, "status": 3, "message": "HIGH"}


def current():
    kind = NTScalar("d", control=True, display=True)
    value = {"value": 401.5, "control": {"limitLow": 0.0, "limitHigh": 500.0}, "display": {"units": "mA"}, "alarm": MINOR}
    return SharedPV(handler=Settable(), initial=kind.wrap(value, timestamp=time.time()), nt=kind)


def scalar(code, value, handler=None, **parts):
    kind = NTScalar(code)
    value = kind.wrap({"value": value, **parts}, timestamp=time.time())
    return SharedPV(handler=handler or Settable(), initial=value, nt=kind)


def choice():
    kind = NTEnum()
    value = {"value": {"index": 0, "choices": ["Decay", "TopUp"]}}
    return SharedPV(handler=Settable(), initial=kind.wrap(value, timestamp=time.time()), nt=kind)


beat = scalar("i", 0)
VARIABLES = {
    "PVA:CURRENT": current(),
    "PVA:MODE": choice(),
    "PVA:BEAT": beat,
    "PVA:WAVE": scalar("ad", [1.0, 2.0, 3.0, 4.0]),
    "PVA:WORDS": scalar("as", ["one", "two"]),
    "PVA:TEXT": scalar("s", "all is well"),
    "PVA:LONG": scalar("aB", list(b"a text of more than forty letters, as an array")),
    "PVA:FLAG": scalar("?", True),
    "PVA:HUGE": scalar("L", 2**63),
    "PVA:SHORT": scalar("h", -7),
    "PVA:FLOAT": scalar("f", 0.25),
    "PVA:NEVER": scalar("d", 0.0, alarm=INVALID),
    "PVA:LOCKED": scalar("d", 1.5, Locked()),
    # An array of more elements than the service keeps of a message.
    "PVA:IMAGE": scalar("ad", [0.0] * 100_000),
}

provider = StaticProvider("rookery")
for name, variable in VARIABLES.items():
    provider.add(name, variable)

with Server(providers=[provider]):
    print("ready", flush=True)
    count = 0
    while True:
        time.sleep(0.05)
        count += 1
        beat.post(count, timestamp=time.time())
