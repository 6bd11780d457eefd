"""Reads EPICS process variables over pvAccess with unmodified pacsys. The server is p4p, which
wraps the protocol's reference implementation.
"""

import contextlib
import tempfile

from pacsys.auth import KerberosAuth

import iocs
import rookery
import variables
from variables import metrics as _metrics
from variables import read as _read

# Name of the device, variable, further keys, whether it can be set.
P4P = [
    ("E:CURRNT", "PVA:CURRENT", 'units = "mA"', True),
    ("E:MODE", "PVA:MODE", "primary = 68", True),
    ("E:MODENO", "PVA:MODE", "", True),
    ("E:BEAT", "PVA:BEAT", "", False),
    ("E:WAVE", "PVA:WAVE", "size = 48\ndefault_size = 48", True),
    ("E:WORDS", "PVA:WORDS", "primary = 68\nsize = 80\ndefault_size = 80", False),
    ("E:TEXT", "PVA:TEXT", "primary = 68", True),
    ("E:LONG", "PVA:LONG", "primary = 68\nelement = 80\nsize = 80\ndefault_size = 80", False),
    ("E:FLAG", "PVA:FLAG", "", True),
    ("E:HUGE", "PVA:HUGE", "", False),
    ("E:SHORT", "PVA:SHORT", "", True),
    ("E:FLOAT", "PVA:FLOAT", "", False),
    ("E:NEVER", "PVA:NEVER", "", False),
    ("E:LOCKED", "PVA:LOCKED", "", True),
    ("E:IMAGE", "PVA:IMAGE", "size = 800\ndefault_size = 800", False),
    ("E:MISSNG", "PVA:NOBODY", "", False),
]


def values_of_every_type_are_read():
    with _served() as (service, _), service.dpm() as backend:
        expected = {
            "E:CURRNT": 401.5, "E:MODE": "TopUp", "E:MODENO": 1, "E:TEXT": "all is well", "E:FLAG": 1,
            "E:HUGE": 2.0**63, "E:SHORT": -7, "E:FLOAT": 0.25,
            "E:LONG": "a text of more than forty letters, as an array",
        }
        read = {device: _read(backend, device) for device in expected}
        assert read == expected | {"E:MODE": "Decay", "E:MODENO": 0}, read
        assert list(_read(backend, "E:WAVE")) == [1, 2, 3, 4]
        assert list(_read(backend, "E:WAVE[1:2]")) == [2, 3]
        # Its alarm says that the value is undefined.
        never = backend.get("E:NEVER@I")
        assert (never.facility_code, never.error_code) == (14, -35), never


def changes_are_told_as_they_come_and_periods_are_kept():
    with _served() as (service, _), service.dpm() as backend:
        with backend.subscribe(["E:BEAT@q,50", "E:CURRNT@p,200"]) as stream:
            beats, currents = [], []
            for reading, _ in stream.readings(timeout=rookery.PATIENCE):
                assert reading.ok, reading
                (beats if "BEAT" in reading.drf else currents).append(reading.value)
                if len(beats) >= 20 and len(currents) >= 3:
                    break
        assert beats == sorted(set(beats)), beats
        # This value never changes, but is delivered all the same.
        assert set(currents) == {401.5}, currents


def a_variable_is_monitored_once_for_all_readers():
    with _served() as (service, _), contextlib.ExitStack() as stack:
        for _ in range(5):
            stream = stack.enter_context(stack.enter_context(service.dpm()).subscribe(["E:BEAT@q,50"]))
            next(iter(stream.readings(timeout=rookery.PATIENCE)))
        metrics = _metrics(service)
        assert metrics["rookery_dpm_variables"] == 1, metrics
        assert metrics["rookery_dpm_circuits"] == 1, metrics
        assert metrics["rookery_dpm_asked_total"] == 5 and metrics["rookery_dpm_shared_total"] == 4, metrics
        assert metrics["rookery_dpm_devices_requested_total"] == 1, metrics


def what_nobody_has_or_is_too_long_hides_nothing():
    with _served() as (service, _), service.dpm() as backend:
        for device, status in [("E:MISSNG", (1, -49)), ("E:IMAGE@I", (1, -32))]:
            reading = backend.get(device)
            assert (reading.facility_code, reading.error_code) == status, reading
        assert _read(backend, "E:CURRNT") == 401.5


def name_servers_are_asked_over_tcp():
    with _served("name_servers") as (service, _), service.dpm() as backend:
        assert _read(backend, "E:CURRNT") == 401.5
        assert _read(backend, "E:MODE") == "Decay"


def a_server_that_dies_is_told_and_found_again():
    with tempfile.TemporaryDirectory(prefix="rookery-dpm-") as folder, contextlib.ExitStack() as stack:
        first = stack.enter_context(iocs.p4p())
        devices = variables.devices(folder, "PVA", P4P, first.port, "search")
        service = stack.enter_context(rookery.with_database(devices))
        stream = stack.enter_context(stack.enter_context(service.dpm()).subscribe(["E:BEAT@q,100"]))
        readings = (reading for reading, _ in stream.readings(timeout=rookery.PATIENCE))
        assert next(readings).ok
        first.kill()
        dead = next(reading for reading in readings if not reading.ok)
        assert (dead.facility_code, dead.error_code) == (1, -42), dead
        stack.enter_context(iocs.p4p((first.port, first.tcp)))
        assert next(reading for reading in readings if reading.ok).value >= 0


def variables_are_set_by_those_who_may():
    with _served(settings=True) as (service, _), rookery.ticket(service, "operator"):
        with service.dpm(auth=KerberosAuth(), role="testing") as backend:
            settings = [("E:CURRNT", 7.25), ("E:MODE", "TopUp"), ("E:TEXT", "a note"), ("E:FLAG", 0.0), ("E:SHORT", 12.0)]
            for drf, value in settings + [("E:WAVE", [1.5, 2.5])]:
                request = f"{drf}[0:1]" if isinstance(value, list) else drf
                result = backend.write(request, value)
                assert result.success, (drf, result)
            assert {device: _read(backend, device) for device, _ in settings} == dict(settings)
            assert _read(backend, "E:MODENO") == 1
            assert list(_read(backend, "E:WAVE[0:1]")) == [1.5, 2.5]
            assert backend.write("E:MODENO", 0.0).success and _read(backend, "E:MODE") == "Decay"
            # Values beyond the limits, that are no number of the type or no valid choice, and one
            # that the server itself refuses.
            refused = [("E:CURRNT", 501.0, (14, -58)), ("E:SHORT", 40_000.0, (14, -58)), ("E:MODE", "Dump", (14, -20))]
            for drf, value, status in refused + [("E:LOCKED", 2.0, (17, -17))]:
                result = backend.write(drf, value)
                assert (result.facility_code, result.error_code) == status, (drf, result)
            assert _read(backend, "E:CURRNT") == 7.25
        lines = service.attempts()
        assert any("E:CURRNT" in line and "7.25" in line for line in lines), lines


def _served(key="search", settings=False):
    return variables.served("PVA", iocs.p4p(), P4P, key, settings)
