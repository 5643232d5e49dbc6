#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 9 s
"""Values of another stream in events, matched by capture time: two live streams with their own rates and
packets; a stream that falls silent; and two recordings, whose events do not depend on batches and on
which of them is read faster."""
import json
import os
import signal
import socket
import time
import unittest

import numpy as np

import convolvd as c

RATE, SLOW = 100000, 1000
STEP_S = 1e-3


class OtherStream(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.root = folder.name
        self.addCleanup(folder.cleanup)
        self.runs = self.reloaded = 0

    def config(self, bursts, loads, more="", batch=4):
        self.folder = os.path.join(self.root, str(self.runs))
        self.runs += 1
        os.mkdir(self.folder)
        return (f"[device]\ndevice = {c.DEVICE}\n"
                f"[stream ae]\n{bursts}block = 256 frames\nbatch blocks = {batch}\nidle flush = 20 ms\nfilter = f\n"
                f"[stream press]\n{loads}block = 16 frames\nbatch blocks = {batch}\nidle flush = 20 ms\nfilter = f\n"
                f"[filter f]\ntype = identity\n[analysis hits]\ntype = hits\nstream = ae\nthreshold = 0.1 V\nhdt = 500 us\n"
                f"parameters = load 2 of press, own 1\n{more}"
                f"[sink lines]\ntype = jsonl\nanalysis = hits\npath = {self.folder}/hits.jsonl\n")

    def hits(self):
        with open(f"{self.folder}/hits.jsonl", encoding="utf-8") as file:
            return [line for line in map(json.loads, file) if "frame" in line]

    def live(self, seconds, silent_from, more="", reloads=()):
        """A burst every 50 ms; the load is the time since its stream began, in s."""
        ports = c.free_port(), c.free_port()
        text = self.config(f"source = udp\naddress = 127.0.0.1:{ports[0]}\nrate = {RATE} Hz\nchannels = 1\nformat = f32le\nunit = V\n",
                           f"source = udp\naddress = 127.0.0.1:{ports[1]}\nrate = {SLOW} Hz\nchannels = 2\nformat = f32le\nunit = V\n", more)
        burst = np.zeros(5000, "<f4")
        burst[2000:2100] = 0.5 * np.sin(np.arange(100))
        reloads = list(reloads)
        with c.Daemon(self.folder, text) as daemon, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            start, sent = time.monotonic(), [0, 0]
            while (now := time.monotonic() - start) < seconds:
                while sent[0] < now * RATE:
                    at = sent[0] % len(burst)
                    sock.sendto(burst[at:at + 200].tobytes(), ("127.0.0.1", ports[0]))
                    sent[0] += 200
                while sent[1] < now * SLOW:
                    frames = np.arange(sent[1], sent[1] + 10)
                    if now < silent_from:
                        sock.sendto(np.column_stack((0 * frames, frames / SLOW)).astype("<f4").tobytes(), ("127.0.0.1", ports[1]))
                    sent[1] += 10
                if reloads and now > reloads[0][0]:
                    text = text.replace(*reloads.pop(0)[1:])
                    with open(daemon.path, "w", encoding="utf-8") as file:
                        file.write(text)
                    daemon.signal(signal.SIGHUP)
                time.sleep(0.002)
            status = daemon.stop()
        analysis = status["streams"][0]["analyses"][0]
        self.assertEqual(daemon.output().count("reloaded:"), self.reloaded, daemon.output())
        return self.hits(), analysis

    def test_two_live_streams(self):
        hits, analysis = self.live(2.0, 9)
        self.assertEqual(analysis["dropped"]["queue"], 0)
        known = [hit for hit in hits if hit["parameters"]["load"] is not None]
        self.assertGreater(len(known), 30)
        self.assertEqual(list(known[0]["parameters"]), ["load", "own", "load_age_us", "load_error_us"])
        first = known[0]
        for hit in known:
            parameters = hit["parameters"]
            self.assertGreaterEqual(parameters["load_age_us"], 0)
            self.assertLess(parameters["load_age_us"], 50000)
            self.assertGreater(parameters["load_error_us"], 0)
            self.assertNotIn("no-parameter", hit["flags"])
            # The load rises by 1 a second of capture time: value + age is the time of the hit.
            want = (hit["arrival_ns"] - first["arrival_ns"]) / 1e9
            got = parameters["load"] + parameters["load_age_us"] / 1e6 - first["parameters"]["load"] - first["parameters"]["load_age_us"] / 1e6
            self.assertAlmostEqual(got, want, delta=0.03)

    def test_reloads_of_either_stream(self):
        """The other stream is made anew, the analysis is, and the other stream goes: values come until then."""
        self.reloaded = 3
        hits, analysis = self.live(3.2, 9, reloads=(
            (0.6, f"rate = {SLOW} Hz\n", f"rate = {SLOW} Hz\nreceive buffer = 8 MiB\n"), (1.2, "threshold = 0.1 V", "threshold = 0.11 V"),
            (2.0, "parameters = load 2 of press, own 1", "parameters = own 1")))
        self.assertEqual(analysis["dropped"]["queue"], 0)
        start = hits[0]["arrival_ns"]
        def known(since, until):
            return [hit["parameters"].get("load") is not None for hit in hits if since < (hit["arrival_ns"] - start) / 1e9 < until]
        self.assertTrue(all(known(0.3, 0.5)))
        self.assertGreater(sum(known(0.7, 1.2)), 2)  # the next analysis writes a file of its own

    def test_a_stream_that_falls_silent(self):
        hits, analysis = self.live(2.0, 0.8, "parameter age = 200 ms\n")
        self.assertEqual(analysis["dropped"]["queue"], 0)
        self.assertGreater(len(hits), 30)
        for hit in hits[-10:]:
            self.assertIsNone(hit["parameters"]["load"])
            self.assertIn("no-parameter", hit["flags"])
            self.assertGreater(hit["parameters"]["load_age_us"], 200000)
            self.assertIsNotNone(hit["parameters"]["own"])

    def recording(self, name, codes, rate):
        path = os.path.join(self.root, name)
        c.write_wav16(path, rate, codes)
        return f"source = file\npath = {path}\npace = fast\nunit = V\n"

    def test_recordings_give_the_same_events_each_time(self):
        seconds, seed = 3, int.from_bytes(os.urandom(4), "little")
        random = np.random.default_rng(seed)
        x = random.standard_normal((seconds * RATE, 1)) * 300
        for at in range(1500, len(x) - 1000, 3777):
            x[at:at + 80, 0] += 16000 * np.sin(np.arange(80))
        loads = np.column_stack((np.zeros(seconds * SLOW), np.arange(seconds * SLOW)))
        sources = self.recording("x.wav", np.rint(x), RATE), self.recording("loads.wav", loads, SLOW)
        told = []
        for batch in (1, 3, 16):
            with c.Daemon(self.folder_of(sources, batch), self.text, wait=False) as daemon:
                self.assertEqual(daemon.wait(), 0, daemon.output())
            told.append([(hit["frame"], hit["parameters"], hit["flags"]) for hit in self.hits()])
        self.assertGreater(len(told[0]), 70)
        for frame, parameters, _ in told[0]:
            self.assertAlmostEqual(parameters["load"], frame // (RATE // SLOW) / 32768, delta=1e-6)
            self.assertAlmostEqual(parameters["load_age_us"], frame % (RATE // SLOW) * 1e6 / RATE, delta=0.01)
        for other in told[1:]:
            self.assertEqual(told[0], other, f"seed {seed}")

    def folder_of(self, sources, batch):
        self.text = self.config(*sources, batch=batch)
        return self.folder


if __name__ == "__main__":
    unittest.main()
