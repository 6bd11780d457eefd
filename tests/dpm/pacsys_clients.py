"""Unmodified pacsys: its library, and its commands acget, acmonitor and acput."""

import json
import os
import pathlib
import queue
import socket
import struct
import subprocess
import sys
import time

from pacsys.acnet import (
    AcnetConnectionTCP,
    DPMAcnet,
    FTPClient,
    FTPDevice,
    Gets32Client,
    ReadDevice,
    RetdatClient,
)
from pacsys.acnet.errors import AcnetError, AcnetTimeoutError
from pacsys.acnet.gets32 import build_request as gets32_request
from pacsys.auth import KerberosAuth
from pacsys.errors import AuthenticationError, DeviceError

import rookery


def one_device_is_read():
    with rookery.demo() as service, service.dpm() as backend:
        assert 69 < backend.read("M:OUTTMP") < 76
        # The connection is reused, and no reading of an earlier list arrives in a later one.
        counted = [backend.read("G:COUNTR") for _ in range(30)]
        assert counted == sorted(set(counted)), counted
        try:
            backend.read("Z:NOSUCH")
        except DeviceError as error:
            assert (error.facility_code, error.error_code) == (16, -13), error
        else:
            raise AssertionError("a device that is not there was read")


def values_of_every_type_are_read_at_once():
    asked = {
        "M:OUTTMP": lambda value: 69 < value < 76,
        "M:OUTTMP.PRIMARY": lambda value: 3.7 < value < 4.4,
        "B:ARRAY[0:3]": lambda value: len(value) == 4,
        "B:ARRAY[]": lambda value: len(value) == 16,
        "G:TEXT": lambda value: value == "HELLO",
        "M:OUTTMP.RAW": lambda value: len(value) == 2,
        "M|OUTTMP": lambda value: value["on"] and not value["remote"],
        "M|OUTTMP.ON": lambda value: value == 1.0,
        "M|OUTTMP.TEXT": lambda value: value == "..L+ ",
        "M|OUTTMP.EXTENDED_TEXT": lambda value: list(value) == ["On", "Yes", "Ready", "Yes", "Remote", "Local"],
        "M|OUTTMP.BIT_VALUE": lambda value: value == 11.0,
        "M|OUTTMP.BIT_NAMES": lambda value: list(value) == ["On", "Ready", "Remote"],
        "M|OUTTMP.BIT_VALUES": lambda value: list(value) == ["Yes", "Yes", "Local"],
        "M@OUTTMP": lambda value: (value["minimum"], value["maximum"]) == (69.5, 75.75),
        "M@OUTTMP.MIN": lambda value: value == 69.5,
        "M$OUTTMP": lambda value: (value["nominal"], value["mask"]) == (2, 3),
        "M:OUTTMP.DESCRIPTION": lambda value: value == "Outdoor temperature",
        "M:OUTTMP.INDEX": lambda value: value == 27235,
        "Z:NOSUCH": lambda value: value is None,
    }
    with rookery.demo() as service, service.dpm() as backend:
        for (drf, is_right), reading in zip(asked.items(), backend.get_many(list(asked))):
            assert is_right(reading.value), (drf, reading)


def readings_are_subscribed_to():
    with rookery.demo() as service, service.dpm() as backend:
        with backend.subscribe(["G:COUNTR@p,200", "Z:NOSUCH@p,200", "Z:CUBE_X@q,500"]) as stream:
            counted = []
            for reading, _ in stream.readings(timeout=rookery.PATIENCE):
                if reading.drf.startswith("G:COUNTR"):
                    counted.append(reading.value)
                if len(counted) == 5:
                    break
            assert counted == sorted(set(counted)), counted


def clock_and_state_events_are_followed():
    # The generator's clock events 1D and 0F, a ramp that enters a state every ten seconds, and an
    # event that never occurs.
    asked = ["M:OUTTMP@E,1D", "G:COUNTR@E,0F,H,20", "B:ARRAY[0:3]@S,Z:CUBE_X,5000,0,>", "G:COUNTR@E,55"]
    with rookery.demo() as service, service.dpm() as backend, backend.subscribe(asked) as stream:
        seen = {drf: [] for drf in asked}
        for reading, _ in stream.readings(timeout=rookery.PATIENCE):
            assert reading.ok, reading
            seen[reading.drf].append(reading.value)
            if [len(seen[drf]) >= wanted for drf, wanted in zip(asked, (2, 20, 1))] == [True] * 3:
                break
        clock, counted, state, never = (seen[drf] for drf in asked)
        assert all(69 < degrees < 76 for degrees in clock) and len(clock) >= 2, seen
        assert counted == sorted(set(counted)) and len(counted) > len(clock), seen
        assert [len(values) for values in state] == [4] and not never, seen


def the_acnet_transport_reads():
    with rookery.demo() as service, DPMAcnet(host=service.host, port=service.port) as acnet:
        assert 69 < acnet.read("M:OUTTMP").data < 76


def the_acnet_node_tells_of_itself_and_others():
    with rookery.demo() as service, AcnetConnectionTCP(service.host, service.port) as node:
        here = node.get_local_node()
        assert (node.get_default_node(), node.get_name(here), node.get_node("DPM06")) == (here, "DPM06", here)
        assert (node.get_node("MCAST"), node.get_node("MUONFE"), node.get_name(0x0C24)) == (0x00FF, 0x0C23, "DEMOFE")
        try:
            node.get_node("NOSUCH")
        except AcnetError as error:
            assert (error.facility, error.error_number) == (1, -30), error
        else:
            raise AssertionError("a node that is not there was found")
        assert node.get_task_pid("DPMD") != 0
        # A ping, a look-up of the task DPMD, and a task that doesn't exist.
        assert _asked(node, here, "ACNET", b"\0\0") == (0, b"\0\0")
        assert _asked(node, here, "ACNET", b"\x01\0\x8d\x1b\0\x19") == (0, b"\x01\0")
        assert _asked(node, here, "NOTASK", b"\0\0")[0] >> 8 == -33
        # Devices are read for the recordings: requests leave and replies arrive.
        deadline = time.monotonic() + rookery.PATIENCE
        while (told := node.get_node_stats()).replies_received < 3:
            assert time.monotonic() < deadline, told
            time.sleep(0.2)
        assert told.requests_sent >= 1 and told.requests_received == 0, told


def front_ends_are_asked_by_way_of_the_node():
    outside = ReadDevice(di=27235, pi=12, ssdn=bytes.fromhex("000042003f210000"), length=2)
    counter = ReadDevice(di=118040, pi=12, ssdn=bytes.fromhex("0000000000000050"), length=4)
    silent = ReadDevice(di=118030, pi=12, ssdn=bytes.fromhex("0000000000000040"), length=2)
    with rookery.demo() as service, AcnetConnectionTCP(service.host, service.port) as node:
        muon, demo = node.get_node("MUONFE"), node.get_node("DEMOFE")
        # A ping, and a task that doesn't exist on the front-end.
        assert _asked(node, muon, "ACNET", b"\0\0") == (0, b"\0\0")
        retdat = RetdatClient(node)
        read = retdat.read(muon, [outside, outside], timeout=rookery.PATIENCE)
        assert [(value.status, len(value.data)) for value in read.values] == [(0, 2), (0, 2)], read
        with retdat.stream(muon, [outside], ftd=6) as stream:
            values = [value for value, _ in zip(stream.readings(rookery.PATIENCE), range(3))]
        assert all(value.values[0].status == 0 for value in values), values
        gets32 = Gets32Client(node)
        read = gets32.read(demo, [counter], timeout=rookery.PATIENCE)
        assert int.from_bytes(read.values[0].data, "little") > 0, read
        # The node refuses a request to set, and a silent device is waited for until the timeout.
        for task in ("SETDAT", "SETS32"):
            try:
                _asked(node, demo, task, bytes(20))
            except AcnetError as error:
                assert (error.facility, error.error_number) == (1, -25), error
            else:
                raise AssertionError(f"{task} was asked")
        try:
            gets32.read(demo, [silent], timeout=1)
        except AcnetTimeoutError:
            pass
        else:
            raise AssertionError("a silent device was read")
        status, _ = _asked(node, demo, "GETS32", gets32_request(demo, [silent]), timeout=400)
        assert status >> 8 == -6, status


def snapshots_are_taken():
    outside = FTPDevice(di=27235, pi=12, ssdn=bytes.fromhex("000042003f210000"))
    with rookery.demo() as service, AcnetConnectionTCP(service.host, service.port) as node:
        muon, client = node.get_node("MUONFE"), FTPClient(node)
        codes = client.get_class_codes(muon, outside, timeout=rookery.PATIENCE)
        assert (codes.error, codes.ftp, codes.snap) == (0, 12, 12), codes
        options = {"rate_hz": 1440, "num_points": 720, "snap_class_code": codes.snap, "timeout": rookery.PATIENCE}
        with client.start_snapshot(muon, [outside], **options) as snapshot:
            snapshot.wait(timeout=rookery.PATIENCE)
            points = _points(snapshot)
            assert len(points) == 720, len(points)
            assert all(12000 <= point.raw_value <= 14000 for point in points), points
            times = [point.timestamp_us for point in points]
            assert times == sorted(times) and times[-1] - times[0] == 499_300, (times[0], times[-1])
            # The whole plot is read again from its first point, then taken again.
            snapshot.reset_pointers(timeout=rookery.PATIENCE)
            assert len(_points(snapshot)) == 720
            snapshot.restart(timeout=rookery.PATIENCE)
            snapshot.wait(timeout=rookery.PATIENCE)
            assert len(_points(snapshot)) == 720
        # Armed by a clock event of the generator.
        events = b"\x0f" + b"\xff" * 7
        with client.start_snapshot(muon, [outside], arm_events=events, **options) as snapshot:
            snapshot.wait(timeout=rookery.PATIENCE)
            assert len(_points(snapshot)) == 720
        # Continuous plots take the same path.
        with client.start_continuous(muon, [outside], rate_hz=1000, timeout=rookery.PATIENCE) as plot:
            batch = next(iter(plot.readings(timeout=rookery.PATIENCE)))
        assert len(batch[0]) > 100, batch


def _points(snapshot):
    points = []
    while more := snapshot.retrieve(timeout=rookery.PATIENCE):
        points += more
    return points


def commands_read_and_watch():
    with rookery.demo() as service:
        read = json.loads(_command("acget", service, "--format", "json", "M:OUTTMP"))
        value = (read[0] if isinstance(read, list) else read)["value"]
        assert 69 < value < 76, read
        seen = _command("acmonitor", service, "-n", "3", "G:COUNTR@p,200").splitlines()
        assert sum("COUNTR" in line for line in seen) == 3, seen


def values_of_every_type_are_set_and_read_back():
    with rookery.with_settings() as service, rookery.ticket(service, "operator"):
        with _backend(service, "testing") as backend:
            assert backend.write("Z:CUBE_X", 45.5).success
            assert backend.read("Z:CUBE_X") == 45.5
            results = backend.write_many([
                ("Z:CUBE_X", 1.25),
                ("B:ARRAY[0:1]", [1.0, 2.0]),
                ("G:TEXT", "BYE"),
                ("Z:CUBE_X.CONTROL", "ON"),
                ("Z:NOSUCH", 1.0),
            ])
            assert [result.success for result in results] == [True, True, True, True, False], results
            assert (results[4].facility_code, results[4].error_code) == (16, -13), results
            assert backend.read("Z:CUBE_X") == 1.25
            assert [round(value, 2) for value in backend.read("B:ARRAY[0:1]")] == [1.0, 2.0]
            assert backend.read("G:TEXT.SETTING") == "BYE"
            assert backend.write("Z:CUBE_X.RAW", (777).to_bytes(2, "little")).success
            assert backend.read("Z:CUBE_X") == 7.77
        attempts = service.attempts()
        assert all(line.split()[1:3] == ["operator@FNAL.GOV", "role=testing"] for line in attempts), attempts
        assert len(attempts) == 7 and "Z:CUBE_X.SETTING@N = 45.5: [0 0]" in attempts[0], attempts


def alarm_limits_are_set_field_by_field():
    with rookery.with_settings() as service, rookery.ticket(service, "operator"):
        with _backend(service, "testing") as backend:
            assert backend.write("M:OUTTMP.ANALOG", {"minimum": 40.0, "maximum": 90.0, "alarm_enable": False}).success
            alarm = backend.read("M:OUTTMP.ANALOG")
            assert (round(alarm["minimum"], 1), round(alarm["maximum"], 1)) == (40.0, 90.0), alarm
            assert not alarm["alarm_enable"], alarm


def alarm_blocks_are_set_whole():
    with rookery.with_settings() as service, rookery.ticket(service, "operator"):
        with _backend(service, "testing") as backend:
            block = bytearray(backend.read("M:OUTTMP.ANALOG{0:20}.RAW"))
            # The abort flag can only be set together with its block.
            block[0] |= 4
            assert backend.write("M:OUTTMP.ANALOG{0:20}.RAW", bytes(block)).success
            assert backend.read("M:OUTTMP.ANALOG")["abort"] is True
            result = backend.write("M:OUTTMP.ANALOG.ABORT", 0.0)
            assert (result.facility_code, result.error_code) == (17, -15), result


def what_was_set_is_told_to_the_log_of_settings():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as log:
        log.bind(("127.0.0.1", 0))
        log.settimeout(rookery.PATIENCE)
        with rookery.with_settings(log=log.getsockname()) as service, rookery.ticket(service, "operator"):
            with _backend(service, "testing") as backend:
                assert backend.write("Z:CUBE_X", 45.5).success
            datagram = log.recv(10_000)
    words = bytes(byte for word in zip(datagram[1::2], datagram[::2]) for byte in word)
    head, body = words[:18], words[18:]
    assert head[:2] == b"\0\0" and head[4:6] == b"\x09\xcd", head
    kind, _, millis, user, devices, _ = struct.unpack_from("<hiqiii", body)
    assert (kind, user, devices) == (1000, 0, 1) and abs(millis / 1000 - time.time()) < rookery.PATIENCE, body
    assert body[26:].startswith(b"\x05DPM06\x09127.0.0.1\x08operator"), body
    told = struct.unpack_from("<IHIh", body, 26 + 6 + 10 + 9)
    assert told == (13 << 24 | 118001, 2, 0, 4550), body


def who_has_no_ticket_or_no_role_sets_nothing():
    with rookery.with_settings() as service, rookery.ticket(service, "guest"):
        with _backend(service, "testing") as backend:
            result = backend.write("Z:CUBE_X", 1.0)
            assert (result.facility_code, result.error_code) == (17, -17), result
        with _backend(service, "cubes") as backend:
            assert backend.write("Z:CUBE_X", 2.0).success
            result = backend.write("M:OUTTMP", 40.0)
            assert (result.facility_code, result.error_code) == (17, -17), result
            assert backend.read("Z:CUBE_X") == 2.0
        # A service without a keytab, and a client with a ticket.
        with rookery.demo() as without, _backend(without, "testing") as backend:
            try:
                backend.write("Z:CUBE_X", 1.0)
            except AuthenticationError as error:
                assert "17" in str(error), error
            else:
                raise AssertionError("a service without a keytab let somebody in")


def a_command_sets():
    with rookery.with_settings() as service, rookery.ticket(service, "operator"):
        _command("acput", service, "-a", "kerberos", "--role", "testing", "--verify", "Z:CUBE_X", "12.5")
        assert "12.5" in _command("acget", service, "-t", "Z:CUBE_X")


def rookery_sets_by_ticket():
    def run(*arguments, expects=0):
        command = [os.environ["ROOKERY"], "dpm", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=rookery.PATIENCE)
        assert done.returncode == expects, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    with rookery.with_settings() as service:
        to = f"{service.host}:{service.port}"
        with rookery.ticket(service, "operator"):
            said = run("set", "Z:CUBE_X=12.5", "Z:CUBE_X.CONTROL=ON", "--kerberos", "--role", "testing", "--to", to)
            assert said.splitlines()[0].startswith("Z:CUBE_X.SETTING@N [0 0]"), said
            assert "12.5" in run("get", "Z:CUBE_X.SETTING", "--from", to)
            assert any("operator@FNAL.GOV role=testing" in line for line in service.attempts()), service.attempts()
        with rookery.ticket(service, "guest"):
            said = run("set", "Z:CUBE_X=1", "--kerberos", "--role", "testing", "--to", to, expects=1)
            assert "[17 -17]" in said, said
            os.environ["KRB5CCNAME"] = f"FILE:{service.realm.folder}/nobody.ccache"
            said = run("set", "Z:CUBE_X=1", "--kerberos", "--to", to, expects=1)
            assert "no Kerberos ticket for daeset@localhost" in said and "kinit" in said, said
        assert "12.5" in run("get", "Z:CUBE_X.SETTING", "--from", to)


def _asked(node, address, task, body, **options):
    """The status and data of a request's only reply."""
    replies = queue.Queue()
    node.request_single(address, task, body, replies.put, **options)
    reply = replies.get(timeout=rookery.PATIENCE)
    return reply.status, bytes(reply.data)


def _backend(service, role):
    return service.dpm(auth=KerberosAuth(), role=role)


def _command(name, service, *arguments):
    command = [_program(name), "-H", service.host, "-P", str(service.port), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=rookery.PATIENCE)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def _program(name):
    return str(pathlib.Path(sys.executable).parent / name)
