"""Unmodified pacsys against `rookery dpm --demo`.

    python3 -m venv venv && venv/bin/pip install pacsys     # needs the headers of Kerberos: libkrb5-dev
    cargo build && venv/bin/python tests/dpm/pacsys_client.py target/debug/rookery

Exits with 0 if everything was as it should be; a failed assertion says what was not.
"""

import subprocess
import sys

import pacsys
from pacsys.acnet import DPMAcnet
from pacsys.errors import DeviceError


def main(rookery: str) -> None:
    command = [rookery, "dpm", "--demo", "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        address = server.stdout.readline().rsplit(" ", 1)[1].strip().rstrip(".")
        host, port = address.split(":")
        with pacsys.dpm(host=host, port=int(port)) as backend:
            reads_one(backend)
            reads_many(backend)
            subscribes(backend)
        with DPMAcnet(host=host, port=int(port)) as acnet:
            assert 69 < acnet.read("M:OUTTMP").data < 76
    finally:
        server.terminate()
        server.wait()
    print("pacsys: all well")


def reads_one(backend) -> None:
    assert 69 < backend.read("M:OUTTMP") < 76
    # A connection is used again, and no answer of an earlier list turns up in a later one.
    counted = [backend.read("G:COUNTR") for _ in range(30)]
    assert counted == sorted(set(counted)), counted
    try:
        backend.read("Z:NOSUCH")
    except DeviceError as error:
        assert (error.facility_code, error.error_code) == (16, -13), error
    else:
        raise AssertionError("a device that is not there was read")


def reads_many(backend) -> None:
    asked = {
        "M:OUTTMP": lambda value: 69 < value < 76,
        "B:ARRAY[0:3]": lambda value: len(value) == 4,
        "G:TEXT": lambda value: value == "HELLO",
        "M:OUTTMP.RAW": lambda value: len(value) == 2,
        "M|OUTTMP": lambda value: value["on"] and not value["remote"],
        "M@OUTTMP": lambda value: (value["minimum"], value["maximum"]) == (69.5, 75.75),
        "M$OUTTMP": lambda value: (value["nominal"], value["mask"]) == (2, 3),
        "M:OUTTMP.DESCRIPTION": lambda value: value == "Outdoor temperature",
        "M|OUTTMP.BIT_NAMES": lambda value: list(value) == ["On", "Ready", "Remote"],
        "Z:NOSUCH": lambda value: value is None,
    }
    for (drf, is_right), reading in zip(asked.items(), backend.get_many(list(asked))):
        assert is_right(reading.value), (drf, reading)


def subscribes(backend) -> None:
    with backend.subscribe(["G:COUNTR@p,200", "Z:NOSUCH@p,200", "Z:CUBE_X@q,500"]) as stream:
        counted = []
        for reading, _ in stream.readings(timeout=5):
            if reading.drf.startswith("G:COUNTR"):
                counted.append(reading.value)
            if len(counted) == 5:
                break
        assert counted == sorted(set(counted)), counted


if __name__ == "__main__":
    main(sys.argv[1])
