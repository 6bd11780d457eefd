"""Requests recorded readings and plots with unmodified pacsys."""

import os
import subprocess
import tempfile
import time

import rookery


def numbers_are_read_back():
    with rookery.demo() as service, service.dpm() as backend:
        # The demonstration records once a second.
        deadline = time.monotonic() + rookery.PATIENCE
        now = int(time.time() * 1000)
        request = f"M:OUTTMP<-LOGGER:{now - 60_000}:{now + 60_000}"
        while len((value := backend.read(request))["data"]) < 3:
            assert time.monotonic() < deadline, value
            time.sleep(0.5)
        assert all(69 < degrees < 76 for degrees in value["data"])
        assert all(now * 1000 - 60_000_000 < micros for micros in value["micros"])
        assert list(value["micros"]) == sorted(set(value["micros"]))
        second = int(value["micros"][-1] // 1_000_000)
        single = f"M:OUTTMP<-LOGGERSINGLE:DPM06:{second}:3"
        assert 69 < backend.read(single) < 76
        command = [os.environ["ROOKERY"], "dpm", "get", request, single, "--from", f"{service.host}:{service.port}"]
        many, one = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        degrees = many.removeprefix(f"{request} ").split()
        assert len(degrees) > 3 and degrees[-1] == "DegF" and 69 < float(degrees[0]) < 76, many
        assert one.startswith(f"{single} ") and one.endswith(" DegF"), one


def history_outlives_a_restart():
    with tempfile.TemporaryDirectory(prefix="rookery-dpm-") as folder:
        options = ["--history", f"{folder}/history.db"]
        request = "M:OUTTMP<-LOGGERDURATION:600000"
        with rookery.demo(*options) as service, service.dpm() as backend:
            deadline = time.monotonic() + rookery.PATIENCE
            while len((before := backend.read(request))["data"]) < 2:
                assert time.monotonic() < deadline, before
                time.sleep(0.5)
        with rookery.demo(*options) as service, service.dpm() as backend:
            after = backend.read(request)
            assert list(after["micros"])[:2] == list(before["micros"])[:2], (before, after)


def arrays_are_read_back():
    with rookery.demo() as service, service.dpm() as backend:
        deadline = time.monotonic() + rookery.PATIENCE
        while len((value := backend.read("B:ARRAY[0:3]<-LOGGERDURATION:60000"))["data"]) < 1:
            assert time.monotonic() < deadline, value
            time.sleep(0.5)
        assert value["data"].shape[1] == 4
        assert abs(value["micros"][0] / 1e6 - time.time()) < 60


def what_was_not_recorded_has_a_status():
    with rookery.demo() as service, service.dpm() as backend:
        for drf, status in {
            "Z:CUBE_X<-LOGGERDURATION:1000": (1, -30),
            "M:OUTTMP<-LOGGER:1:2:BACKUP": (1, -30),
            "M:OUTTMP<-LOGGERSINGLE:DPM06:1000:1": (66, -64),
        }.items():
            reading = backend.get(drf)
            assert (reading.facility_code, reading.error_code) == status, reading
        assert len(backend.read("M:OUTTMP<-LOGGER:1:2")["data"]) == 0


def plots_come_in_batches():
    with rookery.demo() as service, service.dpm() as backend:
        with backend.subscribe(["M:OUTTMP@p,100H<-FTP"]) as stream:
            micros = []
            for reading, _ in stream.readings(timeout=rookery.PATIENCE):
                assert len(reading.value["data"]) == len(reading.value["micros"]), reading
                micros.extend(reading.value["micros"])
                if len(micros) > 60:
                    break
            # Intervals are measured by the front-end's clock, even if a batch is late.
            assert all(later - earlier == 10_000 for earlier, later in zip(micros, micros[1:])), micros
