#!/usr/bin/python3
# parallel: yes
# takes: 5 s CPU in 4 s
# sanitizers: yes
"""The daemon's life: it ends by itself, drains on SIGTERM, leaves on a second signal, shows its
table, and says why it cannot start. Chains end with their last tail."""
import fcntl
import os
import signal
import subprocess
import tempfile
import time
import unittest

import numpy as np

import convolvd as c

TAPS_1 = np.hanning(31) / np.hanning(31).sum()
TAPS_2 = np.array([0.5, -0.25, 1.0, 0.125, 0.75])


def generator(name, extra, filter_name="smooth"):
    return f"[stream {name}]\nsource = generator\nrate = 100 kHz\nchannels = 2\nformat = f32le\n" \
           f"waveform = noise\namplitude = 0.25\nblock = 256\nfilter = {filter_name}\n{extra}\n"


def filters(folder):
    np.save(os.path.join(folder, "one.npy"), TAPS_1)
    np.save(os.path.join(folder, "two.npy"), TAPS_2)
    return f"[filter smooth]\ntype = file\npath = {folder}/one.npy\n" \
           f"[filter rough]\ntype = file\npath = {folder}/two.npy\ndelay = 2 frames\n"


def recording(name, stream, folder):
    return f"[sink {name}]\ntype = recording\nstream = {stream}\npath = {folder}/{name}.wav\n"


def run(*arguments):
    """convolvd to its end: exit status, log."""
    result = subprocess.run([os.path.join(c.BUILD, "convolvd"), *arguments], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=c.PATIENCE_S, check=False)
    return result.returncode, result.stderr


def stream_of(status, name):
    return next(stream for stream in status["streams"] if stream["name"] == name)


def sink_of(status, name):
    return next(sink for stream in status["streams"] for sink in stream["sinks"] if sink["name"] == name)


class Lifecycle(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def test_a_finite_source_ends_the_run(self):
        config = generator("s", "pace = fast\nduration = 100000 frames") + filters(self.folder) \
            + recording("rec", "s", self.folder)
        with c.Daemon(self.folder, config, wait=False) as daemon:
            self.assertEqual(daemon.wait(), 0, daemon.output())
            status = c.check_ledgers(c.load_json(daemon.status_path))
            stream = stream_of(status, "s")
            self.assertEqual(stream["frames_in"]["received"], 100000)
            # The whole linear convolution: S - 1 tail frames follow.
            self.assertEqual(stream["frames_out"]["out"], 100000 + len(TAPS_1) - 1)
            self.assertEqual(sink_of(status, "rec")["delivered"], 100000 + len(TAPS_1) - 1)
            self.assertEqual(sum(sink_of(status, "rec")["dropped"].values()), 0)
            self.assertEqual(stream["invalid"]["settling"], len(TAPS_1) - 1)
            self.assertEqual(stream["invalid"]["tail"], len(TAPS_1) - 1)
            self.assertEqual(status["state"], "stopping")
            self.assertIn("stream s: 2 channels at 100000 Hz", daemon.output())
            self.assertIn("frames out    100030 = out 100030\n", daemon.output())
            self.assertEqual(len(c.read_recording(f"{self.folder}/rec.wav")), 100030)

    def test_a_slow_writer_holds_a_source_that_waits(self):
        # 16 MiB of results through a queue of 64 KiB: nothing is dropped, everything waits.
        config = generator("s", "pace = fast\nduration = 2000000 frames") + filters(self.folder) \
            + recording("rec", "s", self.folder) + "queue = 64 KiB\n"
        with c.Daemon(self.folder, config, wait=False) as daemon:
            self.assertEqual(daemon.wait(), 0, daemon.output())
            status = c.check_ledgers(c.load_json(daemon.status_path))
            self.assertEqual(sink_of(status, "rec")["delivered"], 2000000 + len(TAPS_1) - 1)
            self.assertEqual(sum(stream_of(status, "s")["frames_out"]["shed"].values()), 0)

    def test_sigterm_drains_and_flushes_the_tail(self):
        config = generator("s", "pace = realtime") + filters(self.folder) + recording("rec", "s", self.folder)
        with c.Daemon(self.folder, config) as daemon:
            c.wait_for(lambda: stream_of(daemon.status(), "s")["frames_out"]["out"] > 20000, "a fifth of a second")
            running = daemon.status()
            self.assertEqual(running["state"], "running")
            self.assertIn("convolvd 0.1.0: running", daemon.output())
            started = time.monotonic()
            status = daemon.stop()
            self.assertLess(time.monotonic() - started, 5)
            stream = stream_of(status, "s")
            self.assertEqual(stream["frames_out"]["out"], stream["frames_in"]["received"] + len(TAPS_1) - 1)
            self.assertEqual(stream["frames_out"]["waiting"] + stream["frames_out"]["submitted"], 0)
            self.assertEqual(sink_of(status, "rec")["delivered"], stream["frames_out"]["out"])
            # A real clock drives the generator: its measured rate is the nominal one.
            self.assertLess(abs(stream.get("rate_ppm", 0)), 5000)
            for stage in ("accumulate", "ingest", "wait", "device", "egress", "total"):
                histogram = stream["latency_ns"][stage]
                self.assertGreater(histogram["count"], 0)
                values = [histogram[name] for name in ("p50", "p90", "p99", "p99.9", "max")]
                self.assertEqual(values, sorted(values))

    def test_a_second_signal_leaves_at_once(self):
        config = generator("s", "pace = realtime") + filters(self.folder)
        with c.Daemon(self.folder, config) as daemon:
            # Held still, so that both signals are waiting when it looks.
            daemon.signal(signal.SIGSTOP)
            daemon.signal(signal.SIGTERM)
            daemon.signal(signal.SIGINT)
            started = time.monotonic()
            daemon.signal(signal.SIGCONT)
            self.assertIn(daemon.wait(), (128 + signal.SIGTERM, 128 + signal.SIGINT))
            self.assertLess(time.monotonic() - started, 2)
            self.assertIn("leaving at once", daemon.output())

    def backlog(self, timeout):
        """Work for minutes: a ring full of frames before a filter far too long for its block."""
        np.save(os.path.join(self.folder, "long.npy"), np.random.default_rng(1).normal(size=1 << 17))
        config = f"[daemon]\ndrain timeout = {timeout}\n" \
            + generator("s", "pace = fast\nbuffer = 4000000 frames\nbatch blocks = 1", "long") \
            .replace("block = 256", "block = 64") \
            + f"[filter long]\ntype = file\npath = {self.folder}/long.npy\ndelay = 0 frames\n"
        daemon = c.Daemon(self.folder, config)
        self.addCleanup(daemon.kill)
        c.wait_for(lambda: stream_of(daemon.status(), "s")["frames_out"]["waiting"] > 3000000, "a backlog")
        return daemon

    def test_a_drain_that_cannot_end_is_bounded(self):
        daemon = self.backlog("200 ms")
        started = time.monotonic()
        status = daemon.stop(code=3)
        self.assertLess(time.monotonic() - started, 5)
        self.assertGreater(stream_of(status, "s")["frames_out"]["waiting"], 0)
        self.assertIn("raise `drain timeout`", daemon.output())

    def test_a_second_sigterm_ends_the_drain(self):
        daemon = self.backlog("600 s")
        daemon.signal(signal.SIGTERM)
        daemon.wait_said("stopping")
        time.sleep(0.3)
        self.assertIsNone(daemon.process.poll(), "it drains")
        started = time.monotonic()
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), 128 + signal.SIGTERM)
        self.assertLess(time.monotonic() - started, 2)

    def test_sigterm_while_preparing(self):
        config = generator("s", "pace = realtime") + filters(self.folder)
        with c.Daemon(self.folder, config, wait=False) as daemon:
            time.sleep(0.05)
            # Before its handlers stand, the signal ends it by default.
            daemon.signal(signal.SIGTERM)
            self.assertIn(daemon.wait(), (0, -signal.SIGTERM))

    def test_sdp_files_of_a_killed_daemon(self):
        """They stay, but unlocked; the next start, with other sinks, removes or replaces them and leaves others' alone."""
        def config(run, *sinks):
            return (f"[daemon]\nruntime directory = {run}\n[filter short]\ntype = identity\n"
                    "[stream s]\nsource = generator\nwaveform = noise\namplitude = 0.1\nrate = 48 kHz\nchannels = 1\nfilter = short\n"
                    + "".join(c.rtp_sink(name, "s", c.free_port()) for name in sinks))

        def held(path):
            with open(path, "rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return False
                except BlockingIOError:
                    return True

        def text(path):
            with open(path, encoding="ascii") as file:
                return file.read()

        with c.temporary() as folder:
            run = os.path.join(folder, "run")
            one, two, foreign = (os.path.join(run, f"{name}.sdp") for name in ("one", "two", "foreign"))
            os.mkdir(run)
            with open(foreign, "w", encoding="ascii") as file:
                file.write("v=0\r\ns=convolvd\r\n")
            with c.Daemon(folder, config(run, "one", "two")) as daemon:
                before = text(one)
                self.assertTrue(held(one) and held(two))
                daemon.kill()
            self.assertFalse(held(one) or held(two))
            with c.Daemon(folder, config(run, "one")) as daemon:
                self.assertFalse(os.path.exists(two))
                daemon.wait_said("two.sdp, which a daemon that was killed has left")
                self.assertNotEqual(text(one), before)
                self.assertTrue(held(one))
                # Another daemon beside it leaves its file alone.
                other = os.path.join(folder, "other")
                os.mkdir(other)
                with c.Daemon(other, config(run, "three")) as beside:
                    self.assertTrue(held(one))
                    beside.stop()
                daemon.stop()
            self.assertEqual(os.listdir(run), ["foreign.sdp"])

    def test_a_chain_adds_up(self):
        config = generator("a", "pace = fast\nduration = 20000 frames") \
            + "[stream b]\nsource = stream a\nblock = 100\nfilter = rough\n" + filters(self.folder) \
            + recording("ra", "a", self.folder) + recording("rb", "b", self.folder)
        with c.Daemon(self.folder, config, wait=False) as daemon:
            self.assertEqual(daemon.wait(), 0, daemon.output())
            status = c.check_ledgers(c.load_json(daemon.status_path))
            a, b = stream_of(status, "a"), stream_of(status, "b")
            self.assertEqual(a["frames_out"]["out"], 20000 + 30)
            self.assertEqual(b["frames_in"]["received"], 20000 + 30)
            self.assertEqual(b["frames_out"]["out"], 20000 + 30 + 4)
            self.assertEqual((a["delay_frames"], b["delay_frames"]), (15, 17))
            # Settling and tail of the first reach S - 1 further in the second.
            self.assertEqual(b["invalid"]["settling"], 30 + 4)
            self.assertEqual(b["invalid"]["tail"], 30 + 4)
            got_a, got_b = (c.read_recording(f"{self.folder}/r{name}.wav").astype(np.float64) for name in "ab")
            c.assert_within(got_b, c.convolve(got_a, TAPS_2), got_a, TAPS_2)

    def test_what_keeps_it_from_starting_is_said(self):
        config = generator("s", "pace = fast") + filters(self.folder)
        path = os.path.join(self.folder, "bad.conf")
        # 1: it may be there later, so systemd tries again; 78: it does not.
        for text, says, status in (
                (config + "[device]\ndevice = no such device\n", "no such device", 1),
                (config + "[device]\ndevice = cpu\n[stream t]\nsource = generator\nrate = 1 MHz\nfilter = gone\n",
                 "bad.conf:23: error: ", 78),
        ):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            code, log = run("--config", path)
            self.assertEqual(code, status, log)
            self.assertIn(says, log)
        code, log = run("--config", os.path.join(self.folder, "none.conf"))
        self.assertEqual(code, 78)
        self.assertIn("none.conf", log)


if __name__ == "__main__":
    unittest.main(verbosity=2)
