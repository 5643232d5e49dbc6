#!/usr/bin/python3
# parallel: yes
# takes: 0 s CPU in 2 s
"""Events of analyses where they are asked for: over OSC with addresses and types as documented, bounded, drops counted;
and in the stream of events of the control socket, whose other followers get none of them."""
import json
import math
import os
import subprocess
import unittest

import convolvd as c
from osc_client import Client
from test_control import Link

CONFIG = """
[osc]
address = 127.0.0.1:{osc}
[stream s]
source = generator
pace = realtime
rate = 20 kHz
channels = 2
waveform = tone-burst
frequency = 2 kHz
cycles = 5
period = 10 ms
amplitude = 1 V
full scale = 2 V
block = 200 frames
filter = f
[stream bare]
source = generator
pace = realtime
rate = 20 kHz
waveform = sine
frequency = 1 kHz
filter = f
[filter f]
type = identity
[analysis bursts]
type = hits
stream = s
threshold = 0.5 V
hdt = 1 ms
[analysis every]
type = intervals
stream = s
interval = 50 ms
"""


class Events(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder, self.port = folder.name, c.free_port()
        self.daemon = c.Daemon(folder.name, CONFIG.format(osc=self.port))
        self.addCleanup(self.daemon.kill)

    def client(self):
        client = Client(self.port)
        self.addCleanup(client.close)
        return client

    def subscribed(self, *arguments):
        """A client with the names of the values of each analysis."""
        client, fields = self.client(), {}
        client.send("/convolvd/s/subscribe", *arguments)
        for _ in range(2):
            _, types, values = client.await_("/convolvd/s/fields")
            self.assertEqual(types, "s" * len(values))
            fields[values[0]] = values[2:]
        return client, fields

    def kept(self):
        done = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--json", "--socket", os.path.join(self.folder, "observe.sock"),
                               "hits"], capture_output=True, text=True, check=True, timeout=c.PATIENCE_S)
        return {(e["analysis"], e["number"]): e for e in (json.loads(line).get("analysis_event", {"analysis": "", "number": 0})
                                                           for line in done.stdout.splitlines())}

    def test_osc(self):
        client, fields = self.subscribed("s", "events")
        self.assertEqual(set(fields), {"bursts", "every"})
        self.assertEqual(fields["bursts"][:3], ["amplitude", "peak_db", "rise_us"])
        # After a pause the events of one analysis come before those of the other, and fill more than the first 40.
        got, seen = [], set()
        while len(got) < 40 or len(seen) < 2 and len(got) < 4000:
            got.append(client.await_("/convolvd/s/event")[1:])
            seen.add(got[-1][1][1])
        self.assertEqual(seen, {"hit", "interval"})
        kept = self.kept()
        for types, (analysis, kind, number, channel, epoch, frame, arrival, flags, dropped, *values) in got:
            event = kept[analysis, number]
            self.assertTrue(types.startswith("sshihhhii"), types)
            self.assertEqual((kind, channel, epoch, frame, arrival, dropped),
                             (event["kind"], event["channel"], event["epoch"], event["frame"], event["arrival_ns"], 0))
            self.assertEqual(flags == 0, event["flags"] == [])
            self.assertEqual(len(values), len(fields[analysis]))
            for name, letter, value in zip(fields[analysis], types[9:], values):
                want = event["values"][name]
                if want is None:
                    self.assertTrue(math.isnan(value), name)
                elif letter == "f":
                    self.assertAlmostEqual(value, want, delta=abs(want) * 1e-6)
                else:
                    self.assertEqual(value, want)

        # 64 bits as two numbers, for who has said so.
        narrow = self.client()
        narrow.send("/convolvd/narrow", "i", 1)
        narrow.send("/convolvd/s/subscribe", "s", "events")
        self.assertTrue(narrow.await_("/convolvd/s/event")[1].startswith("ssiiiiiiiii"))

        # No more than asked for; what is dropped is told and counted.
        slow, _ = self.subscribed("sf", "events", 4)
        first = slow.await_("/convolvd/s/event")[2][8]
        second = slow.await_("/convolvd/s/event")[2][8]
        self.assertGreater(second, first + 10)
        self.assertGreaterEqual(self.daemon.status()["osc"]["events_dropped"], second)

        # Levels of the same stream bring none, and a stream without an analysis says so.
        other = self.client()
        other.send("/convolvd/s/subscribe", "s", "alarms")
        self.assertTrue(other.silent())
        other.send("/convolvd/bare/subscribe", "s", "events")
        self.assertIn("has no analysis", other.await_("/convolvd/error")[2][1])
        slow.send("/convolvd/s/unsubscribe")
        self.daemon.stop()

    def test_the_stream_of_events(self):
        def kinds(link, count):
            return [next(iter(link.read())) for _ in range(count)]
        both, plain = Link(self.folder, "observe"), Link(self.folder, "observe")
        self.addCleanup(both.close)
        self.addCleanup(plain.close)
        self.assertTrue(both.ask("events", analyses=True)["ok"])
        self.assertTrue(plain.ask("events")["ok"])
        self.assertEqual(set(kinds(both, 20)), {"analysis_event"})
        control = os.path.join(self.folder, "control.sock")
        subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--socket", control, "mark", "load step 2"], check=True,
                       capture_output=True, timeout=c.PATIENCE_S)
        c.wait_for(lambda: "event" in kinds(both, 1), "the mark among the hits", pause_s=0)
        self.assertEqual(kinds(plain, 1), ["event"])

        follow = subprocess.Popen([os.path.join(c.BUILD, "convolvctl"), "--socket", os.path.join(self.folder, "observe.sock"),
                                   "events", "-f", "--analyses", "on"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (follow.kill(), follow.wait(), follow.stdout.close()))
        self.assertRegex(follow.stdout.readline(), r" (bursts hit|every interval) \d+ channel [12] frame \d+ ")
        self.daemon.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
