#!/usr/bin/python3
# parallel: yes
# threads: yes
# takes: 1 s CPU in 11 s
"""Alarms on quantities of an analysis: how many hits a channel has, their energies, a field of them, intervals, dead
time. They end when it is certain that nothing more is beyond the limit, and stay while that is unknown."""
import time
import unittest

import convolvd as c
from test_alarms import CHANNELS, RATE, Rig

CONFIG = f"""
[stream a]
source = rtp
address = 127.0.0.1:{{port}}
rate = {RATE} Hz
channels = {CHANNELS}
format = L16
full scale = 10 V
block = 200 frames
filter = f
flat line = 0 s
[filter f]
type = identity
[analysis bursts]
type = hits
stream = a
threshold = 1 V
hdt = 1 ms
max duration = 20 ms
[analysis levels]
type = intervals
stream = a
interval = 100 ms
[alarm loud]
analysis = bursts
quantity = peak_db
above = 126 dB
within = 1 s
[alarm many]
analysis = bursts
quantity = hits
above = 5
within = 1 s
hysteresis = 20 %
[alarm energetic]
analysis = bursts
quantity = sum energy_eu
above = 1e10 eu
within = 1 s
hold = 1.5 s
[alarm faint]
analysis = levels
quantity = rms
channel = 2
below = 10 mV
within = 0.5 s
[alarm blind]
analysis = bursts
quantity = dead time
above = 20 %
within = 1 s
"""


class AnalysisAlarms(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        port = c.free_port()
        self.daemon = c.Daemon(folder.name, CONFIG.format(port=port))
        self.addCleanup(self.daemon.kill)
        self.rig = Rig(port)
        self.rig.start()
        self.addCleanup(self.rig.stop)
        c.wait_for(lambda: self.daemon.stream()["frames_in"]["received"] > RATE, "a second of frames")

    def listed(self):
        return {(alarm["name"], alarm["channel"]): alarm for alarm in self.daemon.status()["alarms"]}

    def wait_active(self, want, without=()):
        """Exactly these are active, whatever those of `without` are."""
        def active():
            return sorted(key for key, alarm in self.listed().items()
                          if alarm["state"] == "active" and key[0] not in without)
        try:
            c.wait_for(lambda: active() == want, f"the alarms {want}", None, 0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}, not {active()}\n{self.daemon.output()}") from None

    def test_each_of_them(self):
        time.sleep(1)
        self.wait_active([])
        bursts = [("energetic", 1), ("loud", 1), ("many", 1)]
        self.rig.scale[0] = 30  # 3 V
        self.wait_active(bursts)
        loud = self.listed()[("loud", 1)]
        self.assertEqual((loud["analysis"], loud["quantity"], loud["unit"], loud["limit"], loud["stream"]),
                         ("bursts", "peak_db", "dB", 126, "a"))
        self.assertGreater(loud["value"], 126)
        self.daemon.wait_said("stream a: channel 1: alarm loud: peak_db of bursts ")
        many = self.listed()[("many", 1)]
        self.assertEqual((many["quantity"], many["unit"], many["limit"]), ("hits", "", 5))

        # No more hits: each ends, and the one of a field has no value any more.
        self.rig.scale[0] = 1
        self.wait_active([])
        self.daemon.wait_said("peak_db of bursts: no event")
        self.assertIsNone(self.listed()[("loud", 1)]["value"])
        held = self.listed()[("energetic", 1)]
        self.assertGreater(held["ended_realtime_ns"] - held["since_realtime_ns"], 1.4e9)

        # The stream falls silent: whether there are hits is unknown, and what is active stays so.
        self.rig.scale[0] = 30
        self.wait_active(bursts)
        self.rig.silent = True
        time.sleep(2.5)
        self.wait_active(bursts)
        self.rig.scale[0] = 1
        self.rig.silent = False
        self.wait_active([])

        # An interval says what it measures each time.
        self.rig.scale[1] = 0.01
        self.wait_active([("faint", 2)])
        self.rig.scale[1] = 1
        self.wait_active([])

        self.rig.lose = RATE // 200  # packets: half a second
        self.wait_active([("blind", None)])
        blind = self.listed()[("blind", None)]
        self.assertTrue(0.2 < blind["value"] < 0.8, blind)
        self.wait_active([])
        self.daemon.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
