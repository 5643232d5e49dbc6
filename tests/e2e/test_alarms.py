#!/usr/bin/python3
# parallel: yes
# takes: 3 s CPU in 25 s
"""Alarms of the running daemon: what a rig does wrong raises each, once, and its end is told; a live channel, a gap
and a channel marked unused raise none. Real sockets; a rig of three channels that this test plays."""
import os
import re
import signal
import socket
import struct
import subprocess
import threading
import time
import unittest

import numpy as np

import convolvd as c
from osc_client import Client
from test_control import Link
from web_client import Web, new_token

RATE, FRAMES, CHANNELS = 20000, 100, 3  # packets of 5 ms
NOISE = 3277 // 10  # codes: 0.1 V of 10 V full scale
TIMED = ("silent", "slow")


class Rig(threading.Thread):
    """Sends noise on all channels in real time; each attribute breaks something of it."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.flat = {}           # channel: the code it sends instead
        self.scale = np.ones(CHANNELS)
        self.silent = False
        self.lose = 0            # packets to leave out
        self.speed = 1.0         # of the rate
        self.running = True
        self.port = port
        self.random = np.random.default_rng(7)

    def packet(self):
        codes = self.random.normal(0, NOISE, (FRAMES, CHANNELS)) * self.scale
        codes = np.clip(np.round(codes), -32768, 32767).astype(">i2")
        for channel, code in self.flat.items():
            codes[:, channel - 1] = code
        return codes.tobytes()

    def run(self):
        number, stamp, at = 0, 0, time.monotonic()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            while self.running:
                if self.silent:
                    at = time.monotonic()
                    time.sleep(0.01)
                    continue
                if self.lose > 0:
                    self.lose -= 1
                else:
                    header = struct.pack(">BBHII", 0x80, 96, number & 0xFFFF, stamp & 0xFFFFFFFF, 1)
                    sender.sendto(header + self.packet(), ("127.0.0.1", self.port))
                number, stamp = number + 1, stamp + FRAMES
                at += FRAMES / RATE / self.speed
                time.sleep(max(0, at - time.monotonic()))

    def stop(self):
        self.running = False
        self.join()


def config(port, state=""):
    return (f"[stream a]\nsource = rtp\naddress = 127.0.0.1:{port}\nrate = {RATE} Hz\nchannels = {CHANNELS}\n"
            "format = L16\nfull scale = 10 V\nblock = 200 frames\nfilter = f\nunused = 3\nnoise floor = 100 mV\n"
            "[filter f]\ntype = lowpass\ncutoff = 5 kHz\n") + state + """
[alarm loud]
stream = a
quantity = level
channel = 2
above = 500 mV
within = 0.5 s
hysteresis = 20 %
[alarm silent]
stream = a
quantity = silence
above = 0.5 s
hold = 2 s
[alarm lossy]
stream = a
quantity = losses
above = 0
within = 1 s
exec = yes
[alarm clipped]
stream = a
quantity = overloads
above = 10
within = 0.5 s
[alarm slow]
stream = a
quantity = rate
below = 15 kHz
within = 1 s
[alarm drifting]
stream = a
quantity = ppm
above = 900000
[alarm late]
stream = a
quantity = latency
above = 5 s
within = 0.5 s
[alarm missed]
stream = a
quantity = deadline misses
above = 1000000
[alarm elsewhere]
stream = a
quantity = device
"""


class Alarms(unittest.TestCase):
    def start(self, more="", **arguments):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.state = os.path.join(self.folder, "state")
        os.mkdir(self.state)
        port = c.free_port()
        self.daemon = c.Daemon(self.folder, f"[daemon]\nstate directory = {self.state}\n" + config(port, more), **arguments)
        self.addCleanup(self.daemon.kill)
        self.rig = Rig(port)
        self.rig.start()
        self.addCleanup(self.rig.stop)
        c.wait_for(lambda: self.daemon.stream()["frames_in"]["received"] > RATE, "a second of frames")

    def listed(self):
        """{(name, channel): alarm} of the status."""
        return {(alarm["name"], alarm["channel"]): alarm for alarm in self.daemon.status()["alarms"]}

    def active(self, timed=False):
        """Without those of silence and rate, unless `timed`: a busy machine may stop this rig for as long."""
        return sorted((name, channel) for (name, channel), alarm in self.listed().items()
                      if alarm["state"] == "active" and (timed or name not in TIMED))

    def wait_active(self, want, timed=False):
        try:
            c.wait_for(lambda: self.active(timed) == want, f"the alarms {want}", None, 0.1)
        except AssertionError as error:
            raise AssertionError(f"{error}, not {self.active(True)}\n{self.daemon.output()}") from None

    def count(self, text):
        return sum(text in line for line in self.daemon.lines)

    def test_each_of_them(self):
        self.start()
        time.sleep(1.5)
        self.assertEqual(self.active(), [], self.daemon.output())

        # A sensor dies, with an offset; the one marked unused does, too.
        self.rig.flat = {1: 512, 3: 0}
        self.wait_active([("flat-line", 1), ("noise-floor", 1)])
        alarm = self.listed()[("flat-line", 1)]
        self.assertGreater(alarm["value"], 1)
        self.assertEqual((alarm["stream"], alarm["limit"], alarm["unit"], alarm["raised"], alarm["acknowledged"]),
                         ("a", 1.0, "s", 1, False))
        noise = self.listed()[("noise-floor", 1)]
        self.assertEqual((noise["unit"], noise["limit"]), ("V", 0.05))
        self.assertLess(noise["value"], 0.05)
        self.assertAlmostEqual(alarm["since_realtime_ns"] / 1e9, time.time(), delta=30)
        self.daemon.wait_said("stream a: channel 1: alarm flat-line: all codes are equal for more than 1.00 s")
        self.rig.flat = {3: 0}
        self.wait_active([])
        ended = {key: alarm for key, alarm in self.listed().items() if key[0] not in TIMED}
        self.assertEqual(sorted(ended), [("flat-line", 1), ("noise-floor", 1)])
        self.assertTrue(all(a["state"] == "ended" and a["ended_realtime_ns"] for a in ended.values()))
        self.daemon.wait_said("stream a: channel 1: alarm flat-line ended after")

        # Louder than the limit; back by the hysteresis only.
        self.rig.scale[1] = 8
        self.wait_active([("loud", 2)])
        c.wait_for(lambda: abs(self.listed()[("loud", 2)]["value"] - 0.8) < 0.05, "the level of a whole window")
        self.rig.scale[1] = 4.5
        time.sleep(1.5)
        self.assertEqual(self.active(), [("loud", 2)])
        self.rig.scale[1] = 1
        self.wait_active([])

        # Full scale on one channel.
        self.rig.flat[2] = 32767
        self.wait_active([("clipped", 2), ("flat-line", 2), ("noise-floor", 2)])
        del self.rig.flat[2]
        self.wait_active([])

        # Packets are lost: told once, and left as a file.
        self.rig.lose = 5
        self.wait_active([("lossy", None)])
        self.wait_active([])
        self.assertEqual(self.count("stream a: alarm lossy: losses "), 1, self.daemon.output())
        self.events()

        # Half the rate, then nothing at all: `hold` keeps that alarm when frames arrive again.
        self.rig.speed = 0.5
        self.wait_active([("slow", None)], timed=True)
        self.rig.speed = 1.0
        self.wait_active([], timed=True)
        self.rig.silent = True
        self.wait_active([("silent", None), ("slow", None)], timed=True)
        self.rig.silent = False
        self.wait_active([], timed=True)
        alarm = self.listed()[("silent", None)]
        self.assertGreater(alarm["ended_realtime_ns"] - alarm["since_realtime_ns"], 1.9e9)

        # Nothing else was raised, and what was is in the log once.
        for name in ("drifting", "late", "missed", "elsewhere"):
            self.assertEqual(self.count(f"alarm {name}"), 0, self.daemon.output())
        self.assertEqual(self.count("channel 3"), 0, self.daemon.output())
        self.assertEqual(self.count("stream a: alarm silent: silence"), self.listed()[("silent", None)]["raised"])
        self.daemon.stop()
        self.assertTrue(self.daemon.said("  lossy: stream a: losses 0; ended, not acknowledged"), self.daemon.output())

    def events(self):
        """The files of `exec = yes`: values as data, for the group alone."""
        folder = os.path.join(self.state, "alarms", "lossy")
        c.wait_for(lambda: os.path.isdir(folder) and len(os.listdir(folder)) == 2, "two files")
        self.assertEqual(os.stat(folder).st_mode & 0o777, 0o770)
        events = [c.load_json(os.path.join(folder, name)) for name in sorted(os.listdir(folder))]
        self.assertEqual([e["state"] for e in events], ["raised", "ended"])
        raised = events[0]
        self.assertEqual((raised["alarm"], raised["stream"], raised["channels"], raised["quantity"], raised["value"],
                          raised["limit"], raised["unit"]), ("lossy", "a", [], "losses", 500, 0, ""))
        self.assertLess(raised["realtime_ns"], events[1]["realtime_ns"])

    def test_who_is_told_and_who_acknowledges(self):
        """Followers of events and subscribers over OSC; an observer may not acknowledge."""
        port = c.free_port()
        self.start(f"[osc]\naddress = 127.0.0.1:{port}\n")
        observer, control = Link(self.folder, "observe"), Link(self.folder, "control")
        self.addCleanup(observer.close)
        self.addCleanup(control.close)
        self.assertTrue(observer.ask("events", since=0)["ok"])
        subscriber = Client(port)
        self.addCleanup(subscriber.close)
        subscriber.send("/convolvd/a/subscribe", "s", "alarms")
        c.wait_for(lambda: self.daemon.status()["osc"]["subscriptions"] == 1, "the subscription")
        self.rig.flat = {1: 5}

        def of_channels(get, text):
            """The next two alarms that are not about silence or losses, which a pause of the machine raises too."""
            return [next(got for got in iter(get, None) if not text(got).startswith(tuple(TIMED))) for _ in range(2)]
        first, second = of_channels(lambda: observer.event("alarm", stream="a"), lambda event: event["text"].removeprefix("alarm "))
        self.assertEqual((first["severity"], first["text"][:24]), ("warning", "channel 1: alarm noise-f"))
        self.assertEqual(second["text"], "channel 1: alarm flat-line: all codes are equal for more than 1.00 s")
        told = of_channels(lambda: subscriber.await_("/convolvd/a/alarm")[2], lambda values: values[0])
        self.assertEqual(sorted(t[:3] for t in told), [["flat-line", "raised", 1], ["noise-floor", "raised", 1]])
        self.assertIn("all codes are equal", next(t for t in told if t[0] == "flat-line")[4])

        refused = Link(self.folder, "observe")
        self.addCleanup(refused.close)
        self.assertEqual(refused.ask("acknowledge", alarm="flat-line")["code"], "role")
        unknown = control.ask("acknowledge", alarm="flat_line")
        self.assertEqual(unknown["code"], "argument")
        self.assertTrue(unknown["error"].startswith("there is no alarm flat_line; there are flat-line, noise-floor"), unknown)
        self.assertEqual(control.ask("acknowledge", alarm="flat-line", stream="other")["acknowledged"], 0)
        self.assertEqual(control.ask("acknowledge", alarm="flat-line", stream="a", channel=1)["acknowledged"], 1)
        self.assertEqual(control.ask("acknowledge", alarm="flat-line")["acknowledged"], 0)
        self.assertTrue(self.listed()[("flat-line", 1)]["acknowledged"])
        self.assertIn("uid", observer.event("alarm-end")["who"])
        self.rig.flat = {}
        self.wait_active([])
        # What was acknowledged leaves the list with its end, the other one when it is acknowledged.
        self.assertEqual([key for key in self.listed() if key[0] not in TIMED], [("noise-floor", 1)])
        self.assertEqual(control.ask("acknowledge", alarm="noise-floor")["acknowledged"], 1)
        self.assertEqual([key for key in self.listed() if key[0] not in TIMED], [])

        # A noise floor that was measured takes the place of the configuration's.
        self.rig.scale[1] = 3
        time.sleep(0.5)
        answer = control.ask("noise-floor", stream="a")
        self.assertTrue(answer["ok"], answer)
        for level, want in zip(answer["noise_floor"], (0.1, 0.3, 0.1), strict=True):
            self.assertAlmostEqual(level, want, delta=0.02)
        self.assertEqual(control.ask("noise-floor", stream="b")["code"], "stream")
        self.rig.scale[1] = 1
        self.wait_active([("noise-floor", 2)])
        self.assertAlmostEqual(self.listed()[("noise-floor", 2)]["limit"], 0.15, delta=0.02)
        self.daemon.stop()

    def test_a_reload_keeps_what_is_active(self):
        self.start()
        self.rig.flat = {1: 0}
        self.wait_active([("flat-line", 1), ("noise-floor", 1)])
        since = self.listed()[("flat-line", 1)]["since_realtime_ns"]
        with open(self.daemon.path, encoding="utf-8") as file:
            text = file.read()
        with open(self.daemon.path, "w", encoding="utf-8") as file:
            file.write(text.replace("noise floor = 100 mV\n", "") + "[alarm new]\nstream = a\nquantity = rate\nabove = 1 kHz\n")
        self.daemon.signal(signal.SIGHUP)
        self.daemon.wait_said("reloaded: 1 stream unchanged")
        self.wait_active([("flat-line", 1), ("new", None)])
        self.assertEqual(self.listed()[("flat-line", 1)]["since_realtime_ns"], since)
        self.assertEqual(self.count("alarm flat-line:"), 1)
        self.daemon.wait_said("stream a: alarm noise-floor ended: it is not in the configuration any more")
        self.daemon.stop()

    def test_a_gap_is_no_flat_line(self):
        """Zeros that fill a gap are not codes that were received: frames that are lost in turn with equal ones of
        less than a second each raise nothing."""
        self.start()
        self.rig.lose = 400  # 2 s
        time.sleep(3)
        self.assertEqual([a for a in self.listed() if a[0] == "flat-line"], [], self.daemon.output())
        self.daemon.stop()


class Unknown(unittest.TestCase):
    """Whoever acknowledges an alarm that there is not is told which there are, in each way to ask."""

    def answers(self, folder, port):
        """{way: what it says to `acknowledge` of an alarm that there is not}; each is an error."""
        control = Link(folder, "control")
        self.addCleanup(control.close)
        self.assertEqual(control.ask("acknowledge", alarm="an-alarm-with-a-rather-long-name-34")["acknowledged"], 0)
        answer = control.ask("acknowledge", alarm="flat_line")
        self.assertEqual((answer["ok"], answer["code"]), (False, "argument"))
        osc = Client(port)
        self.addCleanup(osc.close)
        osc.send("/convolvd/acknowledge", "s", "flat_line")
        told = osc.await_("/convolvd/error")[2]
        self.assertEqual(told[0], "/convolvd/acknowledge")
        done = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "acknowledge", "flat_line"], capture_output=True, text=True,
                              env={**os.environ, "RUNTIME_DIRECTORY": folder}, timeout=c.PATIENCE_S, check=False)
        self.assertNotEqual(done.returncode, 0)
        token, line = new_token("anna", "control")
        path = os.path.join(folder, "web.tokens")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
            file.write(line + "\n")
        web = Web(folder, "--tokens", path, "--allow-control")
        self.addCleanup(web.kill)
        web.wait_up()
        status, got = web.post("/api/v1/acknowledge", {"alarm": "flat_line"}, Authorization=f"Bearer {token}")
        self.assertEqual((status, got["ok"], got["code"]), (400, False, "argument"), got)
        return {"socket": answer["error"], "osc": told[1], "convolvctl": done.stderr, "http": got["error"]}

    def test_each_way_to_ask(self):
        """Of 25 names of 35 bytes the first 9 fit."""
        names = [f"an-alarm-with-a-rather-long-name-{i}" for i in range(10, 35)]
        port = c.free_port()
        sections = "".join(f"[alarm {name}]\nstream = a\nquantity = losses\nabove = 1000\n" for name in names)
        with c.temporary() as folder, \
             c.Daemon(folder, f"[osc]\naddress = 127.0.0.1:{port}\n[stream a]\nsource = generator\nrate = {RATE} Hz\nfilter = f\n"
                              f"block = 200\n[filter f]\ntype = lowpass\ncutoff = 5 kHz\n{sections}") as daemon:
            said = self.answers(folder, port)
            for way, text in said.items():
                with self.subTest(way=way):
                    told, more = re.search("there is no alarm flat_line; there are flat-line, noise-floor, (.*) and ([0-9]+) more", text).groups()
                    self.assertEqual(told.split(", "), names[:len(names) - int(more)], text)
                    self.assertEqual(int(more), 16)
            daemon.stop()


class Page(unittest.TestCase):
    def test_every_section_and_command_line(self):
        """Of docs/alarms.md; those of systemd run in test_systemd."""
        with open(os.path.join(c.ROOT, "docs", "alarms.md"), encoding="utf-8") as file:
            page = file.read()
        sections = re.findall(r"^    (\[.*\]\n(?:    .+\n)+)", page, re.M)
        commands = re.findall(r"^    (convolvctl .*)$", page, re.M) + re.findall(r"`(convolvctl [^`]+|convolv-alarm --help)`", page)
        self.assertEqual((len(sections), len(commands)), (5, 5))
        with c.temporary() as folder:
            os.mkdir(os.path.join(folder, "convolvd.conf.d"))
            with open(os.path.join(folder, "convolvd.conf.d", "page.conf"), "w", encoding="utf-8") as file:
                file.write("\n".join(section.replace("\n    ", "\n") for section in sections))
            base = (f"[stream vessel]\nsource = generator\nrate = {RATE} Hz\nwaveform = noise\namplitude = 100 mV\n"
                    "full scale = 10 V\nblock = 200 frames\nfilter = f\n[filter f]\ntype = lowpass\ncutoff = 5 kHz\n"
                    "[analysis vessel]\ntype = hits\nstream = vessel\nthreshold = 1 V\nhdt = 1 ms\npdt = 1 ms\n"
                    "[analysis thickness]\ntype = ascan\nstream = vessel\nperiod = 400 frames\nrange = 15 ms\n"
                    "sound velocity = 5920 m/s\nthickness = surface, back\n"
                    "gate = surface: start 1 ms, width 2 ms, level 0.2 V, peak\n"
                    "gate = back: after surface, start 1 ms, width 5 ms, level 0.1 V, peak\n")
            with c.Daemon(folder, base) as daemon:
                checked = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", daemon.path], capture_output=True, text=True, check=False)
                self.assertEqual(checked.returncode, 0, checked.stderr)
                for alarm in ("clipping", "silent", "noise-floor"):
                    self.assertIn(alarm, checked.stdout)
                self.assertRegex(checked.stdout, r"noise-floor .* on 14 channels")  # 15 and 16 are unused
                for command in commands:
                    done = subprocess.run(["bash", "-c", command], env={**os.environ, "RUNTIME_DIRECTORY": folder, "PATH": f"{c.BUILD}:{os.environ['PATH']}"},
                                          capture_output=True, text=True, timeout=c.PATIENCE_S, check=False)
                    self.assertEqual(done.returncode, 0, f"{command}\n{done.stderr}")
                daemon.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
