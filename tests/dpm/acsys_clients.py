"""Runs unmodified acsys-python. Its host name is fixed; connections to that name are redirected to
the scenario's service.
"""

import contextlib
import socket
import struct

import acsys
import acsys.dpm
import acsys.scaling
import acsys.status
import acsys.sync

import rookery


def devices_are_read():
    async def read(connection):
        async with acsys.dpm.DPMContext(connection) as dpm:
            await dpm.add_entry(0, "M:OUTTMP@I")
            await dpm.add_entry(1, "B:ARRAY[0:3]@I")
            await dpm.add_entry(2, "Z:NOSUCH@I")
            await dpm.start()
            seen = await _take(dpm, lambda seen: len(seen) == 3)
        return {item.tag: item for item in seen}

    with rookery.demo() as service:
        seen = _run(service, read)
    assert 69 < seen[0].data < 76 and len(seen[1].data) == 4, seen
    assert seen[2].is_status_for(2) and seen[2].status.facility == 16, seen


def readings_are_subscribed_to_and_lists_change():
    async def subscribe(connection):
        async with acsys.dpm.DPMContext(connection) as dpm:
            await dpm.add_entry(7, "G:COUNTR@p,200")
            await dpm.start()
            first = await _take(dpm, lambda seen: len(seen) == 4)
            await dpm.add_entry(8, "M:OUTTMP@p,200")
            await dpm.remove_entry(7)
            await dpm.start()
            later = await _take(dpm, lambda seen: sum(item.tag == 8 for item in seen) == 3)
            await dpm.stop()
        return first, later

    with rookery.demo() as service:
        first, later = _run(service, subscribe)
    counted = [item.data for item in first]
    assert counted == sorted(set(counted)), counted
    assert [item.tag for item in later[-2:]] == [8, 8], later


def clock_and_state_events_are_followed():
    async def follow(connection):
        async with acsys.dpm.DPMContext(connection) as dpm:
            await dpm.add_entry(0, "M:OUTTMP@E,1D")
            await dpm.add_entry(1, "G:COUNTR@E,0F,H,20")
            await dpm.add_entry(2, "B:ARRAY[0:3]@S,Z:CUBE_X,5000,0,>")
            await dpm.add_entry(3, "G:COUNTR@E,55")
            await dpm.start()
            of = lambda seen, tag: sum(item.tag == tag for item in seen)
            return await _take(dpm, lambda seen: of(seen, 0) >= 2 and of(seen, 1) >= 20 and of(seen, 2) >= 1)

    with rookery.demo() as service:
        seen = _run(service, follow)
    assert {item.tag for item in seen} == {0, 1, 2}, "an event that never came was answered"
    assert all(69 < item.data < 76 for item in seen if item.tag == 0), seen
    assert all(len(item.data) == 4 for item in seen if item.tag == 2), seen


def values_are_converted_by_the_task_scale():
    async def convert(connection):
        node = await acsys.scaling.find_service(connection)
        raw = struct.pack("<ii", 500, -500)
        scaled = await acsys.scaling.convert_data(connection, "Z:CUBE_X", raw, node=node)
        back = await acsys.scaling.convert_data(connection, "Z:CUBE_X.SETTING.RAW", scaled, node=node)
        try:
            await acsys.scaling.convert_data(connection, "Z:NOSUCH", raw, node=node)
        except acsys.status.Status as status:
            return node, scaled, back == raw, (status.facility, status.err_code)

    with rookery.demo() as service:
        assert _run(service, convert) == ("DPM06", [5.0, -5.0], True, (16, -13))


def events_are_reported_by_the_task_sync():
    async def follow(connection):
        events = ["e,0F", "e,1D", "s,Z:CUBE_X,5000,0,>"]
        seen = []
        async for event in acsys.sync.get_events(connection, events):
            seen.append(event)
            clocks = [event for event in seen if isinstance(event, acsys.sync.ClockEvent)]
            if {event.event for event in clocks} == {0x0F, 0x1D} and len(clocks) > 20 and len(seen) > len(clocks):
                return seen

    with rookery.with_clock("G:COUNTR") as service:
        seen = _run(service, follow)
    numbers = [event.number for event in seen if isinstance(event, acsys.sync.ClockEvent) and event.event == 0x0F]
    assert numbers == list(range(1, len(numbers) + 1)), numbers
    states = [event for event in seen if isinstance(event, acsys.sync.StateEvent)]
    assert all(event.di == 118001 for event in states), states


def devices_are_set():
    async def set_and_read(connection):
        async with acsys.dpm.DPMContext(connection) as dpm:
            await dpm.enable_settings(role="testing")
            await dpm.add_entry(0, "Z:CUBE_X.SETTING@N")
            await dpm.add_entry(1, "Z:CUBE_X.CONTROL@N")
            await dpm.start()
            await dpm.apply_settings([(0, 77.5), (1, "ON")])
            applied = await _take(dpm, lambda seen: len(seen) == 2)
        async with acsys.dpm.DPMContext(connection) as dpm:
            await dpm.add_entry(0, "Z:CUBE_X@I")
            await dpm.start()
            read = await _take(dpm, lambda seen: len(seen) == 1)
        return applied, read

    with rookery.with_settings() as service, rookery.ticket(service, "operator"):
        applied, read = _run(service, set_and_read)
        attempts = service.attempts()
    assert [(item.tag, item.status.is_success) for item in applied] == [(0, True), (1, True)], applied
    assert read[0].data == 77.5, read
    assert ["Z:CUBE_X.SETTING@N" in attempts[0], "Z:CUBE_X.CONTROL@N" in attempts[1]] == [True, True], attempts


def who_may_not_set_is_told():
    async def refused(connection):
        async with acsys.dpm.DPMContext(connection) as dpm:
            try:
                await dpm.enable_settings(role="testing")
            except acsys.status.Status as status:
                return status

    async def not_in_the_role(connection):
        async with acsys.dpm.DPMContext(connection) as dpm:
            await dpm.enable_settings(role="testing")
            await dpm.add_entry(0, "Z:CUBE_X.SETTING@N")
            await dpm.start()
            await dpm.apply_settings([(0, 1.0)])
            return (await _take(dpm, lambda seen: len(seen) == 1))[0].status

    with rookery.with_settings() as service, rookery.ticket(service, "guest"):
        with rookery.demo() as without:
            status = _run(without, refused)
            assert status is not None and (status.facility, status.err_code) == (17, -17), status
        status = _run(service, not_in_the_role)
        assert (status.facility, status.err_code) == (17, -17), status


async def _take(dpm, enough):
    seen = []
    async for item in dpm.replies(tmo=rookery.PATIENCE):
        seen.append(item)
        if enough(seen):
            return seen
    raise AssertionError(f"no more came: {seen}")


def _run(service, main):
    """Runs a client's main function and returns its result."""
    returned = []

    async def keep(connection):
        returned.append(await main(connection))

    with _led_to(service):
        acsys.run_client(keep)
    assert returned, "the client ended early"
    return returned[0]


@contextlib.contextmanager
def _led_to(service):
    connect = socket.create_connection

    def lead(address, *arguments, **named):
        if address[0].startswith("acsys-proxy"):
            # A busy machine may need more than the library's timeout of a quarter of a second.
            return connect((service.host, service.port), rookery.PATIENCE)
        return connect(address, *arguments, **named)

    socket.create_connection = lead
    try:
        yield
    finally:
        socket.create_connection = connect
