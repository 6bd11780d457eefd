"""Runs a caproto server with a few process variables on 127.0.0.1. It is a separate program, which
`iocs.caproto` starts.
"""

from caproto.server import PVGroup, pvproperty, run


class Variables(PVGroup):
    current = pvproperty(name="PY:CURRENT", value=401.5, units="mA", precision=2, upper_ctrl_limit=500.0, lower_ctrl_limit=0.0)
    mode = pvproperty(name="PY:MODE", value="Decay", enum_strings=["Decay", "TopUp"], record="bo", dtype=bool)
    wave = pvproperty(name="PY:WAVE", value=[1, 2, 3, 4], max_length=6)
    beat = pvproperty(name="PY:BEAT", value=0)
    text = pvproperty(name="PY:TEXT", value="hello", dtype=str)

    @beat.startup
    async def beat(self, instance, async_lib):
        print("ready", flush=True)
        while True:
            await instance.write(instance.value + 1)
            await async_lib.library.sleep(0.05)


if __name__ == "__main__":
    run(Variables(prefix="").pvdb, interfaces=["127.0.0.1"], module_name="caproto.asyncio.server")
