#!/usr/bin/env python3
"""Tries a DPM beside the real acnetd: clients on its machine and on another one find it by multicast
and read a device, by way of their own acnetd.

    git clone https://github.com/fermi-ad/acnetd && make -C acnetd NO_DAEMON=1
    ACNETD=acnetd/acnetd ACSYS=acsys-python ROOKERY=target/debug/rookery python3 tests/dpm/beside_acnetd.py

It isn't a scenario of `run.py`, since acnetd is in no registry, has to be compiled (g++, `libssl-dev`),
and has fixed ports. Root is needed for three network namespaces: the DPM's machine, a console, and
the machine of the front-ends. The device file lists the front-ends only.
"""

import asyncio
import contextlib
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

DEMO = pathlib.Path(__file__).parents[2] / "crates/dpm/src/database/demo.toml"
NODES = {"DPMH": (0x0A06, "10.77.0.1"), "CONSL": (0x0A07, "10.77.0.2"), "MUONFE": (0x0C23, "10.77.0.3"), "DEMOFE": (0x0C24, "10.77.0.3")}
# The port of an acnetd for its clients.
PORT = 6802
LETTERS = " ABCDEFGHIJKLMNOPQRSTUVWXYZ$.%0123456789"
# Commands of acnetd's clients.
CONNECT, ADD_NODE = 1, 10


def main():
    own = f"dpm{os.getpid()}"
    spaces = {host: f"{own}{host}" for host in ("a", "b", "c")}
    with contextlib.ExitStack() as stack:
        _connect(stack, spaces)
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rookery-acnetd-")))
        for host, name in (("a", "DPMH"), ("b", "CONSL")):
            command = [os.environ["ACNETD"], "-s", "-t", name, "-H", name, f"-n{NODES[name][0]:04x}"]
            stack.enter_context(_running(spaces[host], command, folder / f"acnetd-{host}"))
            _within(spaces[host], "--nodes")
        rookery = [os.environ["ROOKERY"], "dpm"]
        stack.enter_context(_running(spaces["c"], [*rookery, "simulate", "--database", str(DEMO), "--listen", "10.77.0.3:6801"], folder / "front-ends"))
        beside = ["--database", str(DEMO), "--acnetd", f"127.0.0.1:{PORT}", "--listen", "127.0.0.1:6812"]
        stack.enter_context(_running(spaces["a"], [*rookery, *beside], folder / "dpm"))
        time.sleep(1)
        for host, what in (("a", "beside the DPM"), ("b", "on another machine")):
            print(f"a client {what}:", flush=True)
            _within(spaces[host], "--client")


def _connect(stack, spaces):
    """Makes the namespaces, whose machines are on one network: a bridge on the first of them."""
    for space in spaces.values():
        _ip("netns", "add", space)
        stack.callback(_ip, "netns", "del", space)
        _ip("-n", space, "link", "set", "lo", "up")
    first = spaces["a"]
    _ip("-n", first, "link", "add", "eth0", "type", "bridge")
    for host in ("b", "c"):
        _ip("-n", first, "link", "add", f"to{host}", "type", "veth", "peer", "name", "eth0", "netns", spaces[host])
        _ip("-n", first, "link", "set", f"to{host}", "master", "eth0", "up")
    for number, space in enumerate(spaces.values(), 1):
        _ip("-n", space, "addr", "add", f"10.77.0.{number}/24", "dev", "eth0")
        _ip("-n", space, "link", "set", "eth0", "up")
        # Where an acnetd sends its searches, and joins the group.
        _ip("-n", space, "route", "add", "239.128.4.1", "dev", "eth0")


def _ip(*arguments):
    subprocess.run(["ip", *arguments], check=True)


def _within(space, part):
    """Runs a part of this script in a namespace."""
    subprocess.run(["ip", "netns", "exec", space, sys.executable, __file__, part], check=True, timeout=60)


@contextlib.contextmanager
def _running(space, command, output):
    with output.open("w") as file:
        process = subprocess.Popen(["ip", "netns", "exec", space, *command], stdout=file, stderr=subprocess.STDOUT)
    try:
        time.sleep(0.5)
        assert process.poll() is None, f"{command[0]} ended: {output.read_text()}"
        yield
    finally:
        process.terminate()
        process.wait()


def nodes():
    """Gives an acnetd the table of nodes, as its network's own program does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as daemon:
        daemon.connect(("127.0.0.1", PORT))
        daemon.settimeout(5)

        def order(code, rest):
            daemon.send(struct.pack(">HII", code, _rad50("NODES"), 0) + rest)
            answer = daemon.recv(64)
            assert answer[2:4] == bytes(2), f"acnetd refused command {code}: {answer.hex()}"

        order(CONNECT, struct.pack(">IH", os.getpid(), daemon.getsockname()[1]))
        for name, (node, address) in NODES.items():
            order(ADD_NODE, socket.inet_aton(address) + struct.pack(">IHI", 0, node, _rad50(name)))


def _rad50(name):
    first, second = (sum(LETTERS.index(letter) * 40**power for power, letter in zip((2, 1, 0), part)) for part in (name.ljust(6)[:3], name.ljust(6)[3:]))
    return second << 16 | first


def client():
    """Finds the DPM and reads a device, as a client of the acnetd of its machine."""
    sys.path.append(os.environ["ACSYS"])
    import acsys
    import acsys.dpm
    import acsys.scaling

    # acsys-python's host name is fixed.
    connect = socket.create_connection
    socket.create_connection = lambda address, *rest, **named: connect(("127.0.0.1", PORT), *rest, **named)

    async def run(connection):
        begun = time.monotonic()
        found = await acsys.dpm.find_dpm(connection)
        print(f"  found DPMD@MCAST on {found} within {1000 * (time.monotonic() - begun):.1f} ms")
        scales = await acsys.scaling.find_service(connection)
        print(f"  found SCALE@MCAST on {scales}")
        assert (found, scales) == ("DPMH", "DPMH")
        async with acsys.dpm.DPMContext(connection) as dpm:
            await dpm.add_entry(0, "M:OUTTMP@p,200")
            await dpm.start()
            seen = []
            async for item in dpm.replies(tmo=10):
                seen.append(item.data)
                if len(seen) == 3:
                    break
        assert all(69 < value < 76 for value in seen), seen
        print(f"  read M:OUTTMP: {seen}")

    async def within(connection):
        await asyncio.wait_for(run(connection), 30)

    acsys.run_client(within)


if __name__ == "__main__":
    {"--nodes": nodes, "--client": client}.get(sys.argv[-1], main)()
