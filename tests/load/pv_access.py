"""A client of pvAccess that monitors many variables on one circuit, for `variables.py`.

It reads what it is sent without looking at more than the head of each message, but for a part of
them, whose time stamps it reads. It speaks little endian, as the circuits of EPICS on x86 do.
"""

import contextlib
import socket
import struct
import time

HEAD = struct.Struct("<BBBBI")
MAGIC, VERSION = 0xCA, 2
# Flags of a message, and its commands.
CONTROL, SEGMENT, BIG_ENDIAN = 0x01, 0x30, 0x80
VALIDATION, ECHO, SEARCH, FOUND, CREATE, VALIDATED, MONITOR = 1, 2, 3, 4, 7, 9, 13
# The steps of a monitor.
INIT, START = 0x08, 0x44
# The fields that are asked for, as an empty structure of each.
ASKED = b"\x80\x00\x01\x05field\x80\x00\x02\x05value\x80\x00\x00\x09timeStamp\x80\x00\x00"
SIZES = {0x00: 1, 0x20: 1, 0x21: 2, 0x22: 4, 0x23: 8, 0x24: 1, 0x25: 2, 0x26: 4, 0x27: 8, 0x42: 4, 0x43: 8}
TEXT = 0x60
# The number of names in a datagram of searches, and of variables that are opened at a time.
AT_ONCE, OPENED_AT_ONCE = 40, 500
# Seconds between two signs of life.
ECHO_EVERY = 10


class PvaMonitorClient:
    """A client of pvAccess with one circuit."""

    def __init__(self, names, address, ports, sample):
        """Prepares a client of the server with the ports for searches and for circuits. Of its
        updates, it reads the time stamp of one in `sample`.
        """
        self.names, self.address, self.ports, self.sample = names, address, ports, sample
        self.socket, self.updates, self.late = None, 0, []
        self._rest, self._channels, self._types, self._leaves, self._echo = b"", {}, {}, [], 0

    def join(self):
        """Searches for the variables, opens their channels and monitors them."""
        self._search()
        self.socket = socket.create_connection(("127.0.0.1", self.ports[1]), source_address=(self.address, 0))
        self.socket.settimeout(60)
        self._await(VALIDATION)
        self._send(VALIDATION, struct.pack("<IHH", 1 << 16, 1 << 15, 0) + _text("anonymous") + b"\xff")
        self._await(VALIDATED)
        for first in range(0, len(self.names), OPENED_AT_ONCE):
            part = range(first, min(first + OPENED_AT_ONCE, len(self.names)))
            for place in part:
                self._send(CREATE, struct.pack("<HI", 1, place) + _text(self.names[place]))
            for _ in part:
                place, channel, status = struct.unpack_from("<IIB", self._await(CREATE))
                assert status in (0, 1, 0xFF), f"the channel was refused: {self.names[place]}"
                self._send(MONITOR, struct.pack("<IIB", channel, place, INIT) + ASKED)
                self._channels[place] = channel
            known = set()
            while len(known) < len(part):
                payload = self._await(MONITOR)
                place, step = struct.unpack_from("<IB", payload)
                if step == INIT:
                    assert payload[5] in (0, 1, 0xFF), f"the monitor was refused: {self.names[place]}"
                    self._describe(payload[6:])
                    self._send(MONITOR, struct.pack("<IIB", self._channels[place], place, START))
                elif place in part:
                    known.add(place)
        self.socket.setblocking(False)

    def read(self, observes):
        """Takes the updates that have arrived."""
        try:
            taken = self.socket.recv(1 << 20)
        except BlockingIOError:
            return
        assert taken, "the server ended the circuit"
        now, rest, place = time.time(), self._rest + taken, 0
        if now > self._echo + ECHO_EVERY:
            # Servers end the circuits of clients that are silent.
            self._echo = now
            self._send(ECHO, b"")
        while len(rest) - place >= HEAD.size:
            magic, _, flags, command, size = HEAD.unpack_from(rest, place)
            assert magic == MAGIC and not flags & (SEGMENT | BIG_ENDIAN), rest[place : place + HEAD.size].hex()
            if flags & CONTROL:
                place += HEAD.size
                continue
            if len(rest) - place - HEAD.size < size:
                break
            place += HEAD.size
            if command == MONITOR and rest[place + 4] == 0:
                self.updates += 1
                if observes and self.updates % self.sample == 0:
                    stamp = self._stamp(rest[place + 5 : place + size])
                    self.late += [1000 * (now - stamp)] if stamp else []
            place += size
        self._rest = rest[place:]

    def _search(self):
        left = dict(enumerate(self.names))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as searches:
            searches.bind(("127.0.0.1", 0))
            searches.settimeout(0.2)
            port, end = searches.getsockname()[1], time.monotonic() + 120
            here = bytes(10) + b"\xff\xff" + socket.inet_aton("127.0.0.1")
            while left:
                assert time.monotonic() < end, f"{len(left)} variables weren't found, such as {min(left.values())}"
                numbers = list(left)[: 10 * AT_ONCE]
                for first in range(0, len(numbers), AT_ONCE):
                    part = numbers[first : first + AT_ONCE]
                    asked = b"".join(struct.pack("<I", number) + _text(left[number]) for number in part)
                    head = struct.pack("<IB3x", first, 0x80) + here + struct.pack("<H", port) + b"\x01" + _text("tcp")
                    searches.sendto(_message(SEARCH, head + struct.pack("<H", len(part)) + asked), ("127.0.0.1", self.ports[0]))
                with contextlib.suppress(TimeoutError):
                    while any(number in left for number in numbers):
                        answer = searches.recv(65536)
                        if answer[3] == FOUND and answer[HEAD.size + 38]:
                            order = ">" if answer[2] & BIG_ENDIAN else "<"
                            [count] = struct.unpack_from(f"{order}H", answer, HEAD.size + 39)
                            for number in struct.unpack_from(f"{order}{count}I", answer, HEAD.size + 41):
                                left.pop(number, None)

    def _await(self, wanted):
        """Returns the payload of the next message of a kind."""
        while True:
            while len(self._rest) < HEAD.size or (not self._rest[2] & CONTROL and len(self._rest) < HEAD.size + HEAD.unpack_from(self._rest)[4]):
                taken = self.socket.recv(1 << 16)
                assert taken, "the server ended the circuit"
                self._rest += taken
            _, _, flags, command, size = HEAD.unpack_from(self._rest)
            size = 0 if flags & CONTROL else size
            payload, self._rest = self._rest[HEAD.size : HEAD.size + size], self._rest[HEAD.size + size :]
            if command == wanted and not flags & CONTROL:
                return payload

    def _send(self, command, payload):
        self.socket.sendall(_message(command, payload))

    def _describe(self, described):
        """Reads a type, and notes the scalars in it with the bits that name them as changed."""
        self._leaves = []
        of, _ = self._type(described, 0)
        self._count(of, 0, [], "")

    def _type(self, taken, place):
        code, place = taken[place], place + 1
        if code in (0xFD, 0xFE):
            [number] = struct.unpack_from("<H", taken, place)
            if code == 0xFD:
                self._types[number], place = self._type(taken, place + 2)
                return self._types[number], place
            return self._types[number], place + 2
        if code != 0x80:
            assert code & 0xE7 == TEXT or code & 0xE7 in SIZES, f"a type that isn't read here: {code:02x}"
            assert code & 0x18 in (0, 0x08), f"an array that isn't read here: {code:02x}"
            return code, place
        place += 1 + taken[place]
        fields, place = [taken[place], []], place + 1
        for _ in range(fields[0]):
            name, place = taken[place + 1 : place + 1 + taken[place]].decode(), place + 1 + taken[place]
            of, place = self._type(taken, place)
            fields[1].append((name, of))
        return fields[1], place

    def _count(self, of, bit, above, path):
        """Notes the scalars of a type that begins at a bit. Returns the bit after it."""
        if not isinstance(of, list):
            self._leaves.append((sum(1 << bit for bit in [*above, bit]), of, path))
            return bit + 1
        above, bit = [*above, bit], bit + 1
        for name, inner in of:
            bit = self._count(inner, bit, above, f"{path}/{name}")
        return bit

    def _stamp(self, update):
        """Returns the time stamp of an update, if the update has all of it."""
        length = update[0]
        changed, place = int.from_bytes(update[1 : 1 + length], "little"), 1 + length
        found = {}
        for bits, code, path in self._leaves:
            if not bits & changed:
                continue
            count = 1
            if code & 0x08:
                count, place = update[place], place + 1
            for _ in range(count):
                size = 1 + update[place] if code & 0xE7 == TEXT else SIZES[code & 0xE7]
                found[path] = update[place : place + size]
                place += size
        whole, part = (found.get(f"/timeStamp/{name}") for name in ("secondsPastEpoch", "nanoseconds"))
        return int.from_bytes(whole, "little") + int.from_bytes(part, "little") / 1e9 if whole and part else None


def _message(command, payload):
    return HEAD.pack(MAGIC, VERSION, 0, command, len(payload)) + payload


def _text(text):
    return bytes([len(text)]) + text.encode()
