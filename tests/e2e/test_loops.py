#!/usr/bin/python3
# parallel: yes
# threads: yes
# takes: 4 s CPU in 12 s
# long: also, the other tests of streams with several loops
"""`loops` in [device]: streams on event loops of their own. Results, losses, commands and reloads are those of one
loop, by frame number; a stream that shares something with others stays on the main loop, and says so."""
import os
import subprocess
import sys
import time
import unittest

import numpy as np

import convolvd as c

RATE, STREAMS, LOOPS = 48000, 5, 3
LONG = os.environ.get("CONVOLVD_TEST_LONG") == "1"


def text(folder, ports, names, extra=""):
    """Streams s0, s1 … of those names, each filtered by taps of its own; s1 feeds the chain."""
    parts = [f"[device]\ndevice = cpu\nloops = {LOOPS}\n{extra}\n"]
    for i in names:
        parts.append(f"[stream s{i}]\nsource = rtp\naddress = 127.0.0.1:{ports[i][0]}\nrate = {RATE} Hz\nformat = f32be\n"
                     f"block = 256 frames\nfilter = h{i}\n{c.taps_file(folder, f'h{i}', taps(i))}"
                     f"{c.rtp_sink(f'o{i}', f's{i}', ports[i][1])}")
    return "\n".join(parts)


def taps(i):
    return c.random_taps(10 + i, 200 + 30 * i)


def loop_threads(pid):
    """The processor time of each loop's thread but the main one [ticks]."""
    ticks = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as file:
            name, rest = file.read().rsplit(")", 1)
        if name.endswith("(convolvd-loop"):
            ticks.append(sum(map(int, rest.split()[11:13])))
    return ticks


class Loops(unittest.TestCase):
    def setUp(self):
        self.enterContext(folder := c.temporary())
        self.folder = folder.name
        self.ports = [(c.free_port(), c.free_port()) for _ in range(STREAMS)]

    def send(self, i, frames, seed=1):
        path = os.path.join(self.folder, f"x{i}-{seed}.npy")
        c.rig(self.folder, self.ports[i][0], "--signal", "noise", "--amplitude", 0.2, "--rate", RATE, "--format", "f32be",
              "--frames", frames, "--seed", seed, "--packet", 240, "--write", path)
        return np.load(path)

    def received(self, daemon, i, frames):
        c.wait_for(lambda: daemon.stream(f"s{i}")["frames_in"]["received"] >= frames, f"{frames} frames of s{i}")

    def test_results_do_not_depend_on_the_loop(self):
        """Five streams on three loops, each exact; every loop has work, and the status names it."""
        frames = 24000
        with c.Daemon(self.folder, text(self.folder, self.ports, range(STREAMS))) as daemon:
            heard = [c.Tap(self.folder, self.ports[i][1], name=f"tap{i}") for i in range(STREAMS)]
            x = [self.send(i, frames, seed=i + 1) for i in range(STREAMS)]
            for i in range(STREAMS):
                self.received(daemon, i, frames)
            self.assertEqual(len(loop_threads(daemon.process.pid)), LOOPS)
            status = daemon.stop()
            got = [tap.finish(number=2) for tap in heard]
        self.assertEqual([s["loop"] for s in status["streams"]], [1, 2, 3, 1, 2])
        self.assertEqual([(d["index"], d["loop"]) for d in status["devices"]], [(0, 1), (0, 2), (0, 3)])
        for i, tap in enumerate(heard):
            self.assertEqual(len(got[i]["epochs"]), 1)
            y = tap.frames(0)
            self.assertGreaterEqual(len(y), frames)
            c.assert_within(y[:frames], c.convolve(x[i], taps(i))[:frames], x[i], taps(i), what=f"stream {i}")

    def test_an_idle_loop_sleeps(self):
        """A loop without events, and one without streams, takes no processor time."""
        with c.Daemon(self.folder, text(self.folder, self.ports, [0])) as daemon:
            time.sleep(0.5)
            before = loop_threads(daemon.process.pid)
            time.sleep(1)
            after = loop_threads(daemon.process.pid)
            daemon.stop()
        self.assertEqual(len(after), LOOPS)
        self.assertLessEqual(sum(after) - sum(before), 5)

    def test_a_reload_and_commands_reach_every_loop(self):
        """A stream comes, one goes, one mutes, while another runs on without a gap."""
        config = text(self.folder, self.ports, [0, 1, 2])
        with c.Daemon(self.folder, config) as daemon, c.Tap(self.folder, self.ports[0][1]) as tap:
            first = self.send(0, 12000)
            subprocess.run([os.path.join(c.BUILD, "convolvctl"), "mute", "s1"], check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "RUNTIME_DIRECTORY": self.folder})
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(text(self.folder, self.ports, [0, 1, 3]))
            daemon.signal(1)
            daemon.wait_said("reloaded: 2 streams unchanged, 1 changed or new, 1 removed")
            self.send(3, 4800)
            self.received(daemon, 3, 4800)
            status = daemon.stop()
            tap.finish(number=2)
        self.assertEqual([s["name"] for s in status["streams"]], ["s0", "s1", "s3"])
        self.assertEqual([s["loop"] for s in status["streams"]][:2], [1, 2])
        self.assertEqual(status["streams"][1]["gains"]["muted"], [True])
        y = tap.frames(0)
        self.assertGreaterEqual(len(y), 12000)
        c.assert_within(y[:12000], c.convolve(first, taps(0))[:12000], first, taps(0), what="s0")

    def test_check_names_what_stays(self):
        """A stream with an OSC sink, and its chain, stay on the main loop."""
        config = text(self.folder, self.ports, [0, 1]) \
            + "[osc]\naddress = 127.0.0.1:9000\n[sink osc]\ntype = osc\nstream = s1\n"
        path = os.path.join(self.folder, "check.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(config)
        got = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", path], capture_output=True, text=True, check=False)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertIn("loops: 3 run streams, beside the main one\n  stream s1        stays on the main loop: it, or its "
                      "chain, uses the OSC server\n\n", got.stdout)

    @unittest.skipUnless(LONG, "long: in make check-long")
    def test_the_tests_of_streams_hold(self):
        here = os.path.dirname(os.path.abspath(__file__))
        for script in "test_streams.py", "test_results.py", "test_losses.py", "test_network.py", "test_stop.py":
            got = subprocess.run([sys.executable, os.path.join(here, script)], capture_output=True, text=True, check=False,
                                 env={**os.environ, "CONVOLVD_TEST_LOOPS": str(LOOPS)})
            self.assertEqual(got.returncode, 0, f"{script}:\n{got.stdout}{got.stderr}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
