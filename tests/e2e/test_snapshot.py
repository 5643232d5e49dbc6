#!/usr/bin/python3
# parallel: yes
# kernels: plain, snapshots are tested
# takes: 4 s CPU in 7 s
"""`convolvctl snapshot`: frame n of its files is frame n of what was sent, and of what the RTP sink sends, by the numbers
of the sidecar alone; gaps and short epochs; what it refuses."""
import json
import os
import subprocess
import unittest

import numpy as np

import convolvd as c

RATE, CHANNELS, VOLT = 48000, 3, 2.0


class Snapshot(unittest.TestCase):
    def setUp(self):
        self.enterContext(folder := c.temporary())
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def ctl(self, *words, code=0):
        """With the role observe alone."""
        command = [os.path.join(c.BUILD, "convolvctl"), "--socket", self.path("observe.sock"), *map(str, words)]
        done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=c.PATIENCE_S, check=False)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout if code == 0 else done.stderr

    def take(self, *words):
        """(sidecar, input, output) of a snapshot NAME.npy."""
        sidecar = json.loads(self.ctl("snapshot", *words, "--json"))
        name = sidecar["input"]["file"].removesuffix("-input.npy")
        self.assertEqual(c.load_json(self.path(f"{name}.json")), sidecar)
        arrays = [np.load(self.path(sidecar[side]["file"])) for side in ("input", "output")]
        for side, array in zip(("input", "output"), arrays):
            self.assertEqual(array.dtype, np.dtype("<f4"))
            self.assertEqual(array.shape, (sidecar[side]["frames"], len(sidecar[side]["channels"])))
        return sidecar, *arrays

    def stream(self, name, keys):
        return f"[stream {name}]\nblock = 256 frames\nfilter = h\nfull scale = {VOLT} V\n{keys}\n"

    def rtp(self, name, port, keys=""):
        return self.stream(name, f"source = rtp\naddress = 127.0.0.1:{port}\nrate = {RATE} Hz\nchannels = {CHANNELS}\n{keys}")

    def recording(self, frames):
        """Writes x.wav; returns its samples in V."""
        codes = c.noise_codes(5, frames, CHANNELS)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        return codes / 32768 * VOLT

    def test_a_recording(self):
        x, h, n = self.recording(10 * RATE), c.random_taps(3, 151), 4800
        ports = {"s": c.free_port(), "d": c.free_port()}
        source = f"source = file\npath = {self.path('x.wav')}\npace = realtime"
        text = c.taps_file(self.folder, "h", h, "75 frames") + self.stream("s", source)
        text += self.stream("d", f"{source}\ndecimate = 4")
        text += "".join(c.rtp_sink(f"to-{name}", name, port, "format = f32be") for name, port in ports.items())
        with c.Tap(self.folder, ports["s"], "--format", "f32be", channels=CHANNELS, name="s") as tap, \
                c.Tap(self.folder, ports["d"], "--format", "f32be", channels=CHANNELS, rate=RATE // 4, name="d") as thin, \
                c.Daemon(self.folder, text) as daemon:
            sidecar, before, after = self.take("s", "--frames", n, "--channels", "3,1", "--out", "a.npy")
            thinned = self.take("d", "--frames", 480)
            said = self.ctl("snapshot", "s", "--frames", n, "--out", "b.wav")
            wav = c.load_json(self.path("b.json"))
            daemon.stop()
            for receiver in (tap, thin):
                receiver.finish(number=15, code=None)
            results, thin_results = tap.frames(), thin.frames()
        # Channels in the order asked for.
        first = sidecar["input"]["first_frame"]
        self.assertEqual((sidecar["stream"], sidecar["epoch"], sidecar["output"]["first_frame"]), ("s", 0, first))
        self.assertEqual((sidecar["delay_frames"], sidecar["output"]["rate_hz"]), (75, RATE))
        self.assertEqual(sidecar["input"]["channels"], [{"channel": 3, "unit": "V"}, {"channel": 1, "unit": "V"}])
        self.assertEqual(sidecar["input"]["invalid"], [])
        self.assertGreater(sidecar["input"]["capture_time_ns"], 0)
        self.assertTrue((before == x[first:first + n, [2, 0]]).all())
        self.assertTrue((after == results[first:first + n, [2, 0]]).all())
        past = x[:first + n, [2, 0]]
        want = c.convolve(past, h)[first:first + n]
        c.assert_within(after.astype(np.float64), want, past[max(0, first - len(h)):], h)
        # The result of a stream that decimates begins with its first frame that is not before the input's.
        thin_sidecar, before, after = thinned
        first, thin_first = (thin_sidecar[side]["first_frame"] for side in ("input", "output"))
        self.assertEqual((thin_first, thin_sidecar["decimation"]), (-(-first // 4), 4))
        self.assertTrue((before == x[first:first + 480]).all())
        self.assertTrue((after == thin_results[thin_first:thin_first + 480]).all())
        # WAV, all channels.
        first = wav["input"]["first_frame"]
        self.assertIn(f"b-input.wav: frames {first} to {first + n - 1}, 3 channels", said)
        self.assertTrue((c.read_recording(self.path("b-input.wav")) == x[first:first + n].astype(np.float32)).all())
        self.assertTrue((c.read_recording(self.path("b-output.wav")) == results[first:first + n]).all())

    def test_lost_packets(self):
        """Frames that never came are NaN, and flagged; nothing else is."""
        rx, n = c.free_port(), 24000
        text = c.taps_file(self.folder, "h", c.random_taps(3, 15)) \
            + self.rtp("s", rx, "reorder = 5 ms")
        with c.Daemon(self.folder, text), \
                c.Process("convolv-rig", ["--to", f"127.0.0.1:{rx}", "--signal", "noise", "--amplitude", 0.1, "--rate", RATE,
                                          "--channels", CHANNELS, "--seconds", 60, "--full-scale", VOLT, "--loss", "5 %",
                                          "--clean", 4800, "--write", self.path("x.npy"), "--ledger", self.path("rig.json")]) as rig:
            sidecar, before, after = self.take("s", "--frames", n, "--out", "a.npy")
            rig.signal(15)
            rig.wait()
        first = sidecar["input"]["first_frame"]
        x = np.load(self.path("x.npy"))[first:first + n]
        lost = np.zeros(first + n, bool)
        for begin, end in c.load_json(self.path("rig.json"))["rigs"][0]["missing"]:
            lost[begin:end] = True
        lost = lost[first:]
        self.assertGreater(lost.sum(), 0)
        self.assertEqual([(r["from"] - first, r["until"] - first, r["cause"]) for r in sidecar["input"]["invalid"]],
                         [(*run, "absent") for run in c.runs(lost)])
        self.assertTrue((np.isnan(before) == lost[:, None]).all())
        self.assertTrue((before[~lost] == x[~lost].astype(np.float32)).all())
        self.assertTrue(np.isfinite(after).all())
        self.assertIn("network", {r["cause"] for r in sidecar["output"]["invalid"]})

    def test_records(self):
        """A record is taken from its first frame on; more frames than it has never come in a row."""
        rx, length = c.free_port(), 2400
        x = self.recording(200 * length)
        text = c.taps_file(self.folder, "h", c.random_taps(3, 15)) \
            + self.rtp("s", rx, "mode = record")
        with c.Daemon(self.folder, text), \
                c.Process("convolv-rig", ["--to", f"127.0.0.1:{rx}", "--file", self.path("x.wav"), "--record", length, "--pause", "20 ms"]):
            sidecar, before, _ = self.take("s", "--frames", length)
            error = self.ctl("snapshot", "s", "--frames", length + 1, "--out", "longer.npy", code=1)
        self.assertEqual(sidecar["input"]["first_frame"], 0)
        self.assertTrue((before == x[sidecar["record"] * length:][:length]).all())
        self.assertIn(f"in 8 attempts at most {length} of {length + 1} frames came in a row", error)

    def test_the_daemon_is_short_of_time(self):
        """Blocks of 5.3 ms take 0.8 ms to show, and viewers get 0.21 ms of them (SHOW_US: tests/seams/show.c)."""
        frames, folder = 4800, self.folder
        text = c.taps_file(folder, "h", c.random_taps(3, 15)) + self.stream(
            "s", f"source = generator\nwaveform = noise\namplitude = 0.1 V\npace = realtime\nrate = {RATE} Hz\nchannels = 2")
        with c.Daemon(folder, text, program="convolvd-test", environment={"CONVOLVD_TEST_SHOW_US": "400"}):
            sidecar, before, _ = self.take("s", "--frames", frames)
        self.assertEqual((sidecar["input"]["frames"], sidecar["output"]["frames"], len(before)), (frames, frames, frames))
        self.assertEqual(sidecar["input"]["invalid"], [])

    def test_refused(self):
        text = c.taps_file(self.folder, "h", c.random_taps(3, 15)) + self.rtp("s", c.free_port())
        for name, rate, channels in (("many", 1000, 20), ("fast", 1000000, 16), ("odd", 1000.5, 1)):
            text += f"[stream {name}]\nsource = rtp\naddress = 127.0.0.1:{c.free_port()}\nrate = {rate} Hz\nchannels = {channels}\n" \
                    "filter = h\n"
        for name in ("there-input.npy", "aside.json"):
            with open(self.path(name), "w", encoding="utf-8") as file:
                file.write("mine")
        with c.Daemon(self.folder, text) as daemon:
            for words, says in (
                    ((), "snapshot STREAM --frames N"), (("s",), "snapshot STREAM --frames N"), (("--frames", "9"), "snapshot STREAM"),
                    (("s", "t", "--frames", "9"), "one word too many"), (("s", "--frames"), "its value is missing"),
                    (("s", "--speed", "9"), "no such option"),
                    *((("s", "--frames", bad), "a number from 1 on") for bad in ("0", "-5", "1e3", "9 frames", "", "0x10", "9" * 30)),
                    *((("s", "--frames", "9", "--channels", bad), "numbers from 1 on") for bad in ("0", "", "1,,2", "1,1", "2049", "1;2", "-1")),
                    (("s", "--frames", "9", "--channels", ",".join(map(str, range(1, 18)))), "at most 16 channels"),
                    (("s", "--frames", "9", "--channels", "4"), "has 3 input channels"),
                    (("s", "--frames", "9", "--outputs", "4"), "has 3 output channels"),
                    (("t", "--frames", "9"), "there is no stream t"), (("t" * 64, "--frames", "9"), "write the name of a stream"),
                    (("many", "--frames", "9"), "has 20 input channels and a snapshot at most 16"),
                    (("s", "--frames", str(2**40)), "ask for at most 11184810 frames"),
                    (("fast", "--frames", "400000"), "128 MB/s and the daemon shows 32 MB/s: ask for at most 75000 frames of these, or for 4 channels"),
                    (("odd", "--frames", "9", "--out", "x.wav"), "whole rates"),
                    *((("s", "--frames", "9", "--out", bad), "NAME.npy or NAME.wav") for bad in ("x", "x.flac", ".npy", "a/.wav", "")),
                    (("s", "--frames", "9", "--out", "x" * 5000 + ".npy"), "too long"),
                    (("a/b", "--frames", "9"), "is no file's"),
                    (("s", "--frames", "9", "--out", "there.npy"), "there-input.npy exists"),
                    (("s", "--frames", "9", "--out", "aside.wav"), "aside.json exists")):
                self.assertIn(says, self.ctl("snapshot", *words, code=1), words)
            # A stream without frames: it waits, and says when the daemon goes.
            with c.Process("convolvctl", ["--socket", self.path("observe.sock"), "snapshot", "s", "--frames", "9", "--out", self.path("x.npy")]) as ctl:
                c.wait_for(lambda: self.rings(daemon) == 1, "a viewer")
                daemon.stop()
                self.assertEqual(ctl.wait(), 1)
                self.assertIn("the daemon has gone", ctl.output())
        left = {name for name in os.listdir(self.folder) if name.endswith((".npy", ".wav", ".json"))}
        self.assertEqual(left, {"h.npy", "there-input.npy", "aside.json", "status.json"})

    def rings(self, daemon):
        with open(f"/proc/{daemon.process.pid}/maps", encoding="utf-8", errors="replace") as file:
            return file.read().count("convolvd watch")


if __name__ == "__main__":
    unittest.main(verbosity=2)
