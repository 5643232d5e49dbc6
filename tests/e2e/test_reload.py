#!/usr/bin/python3
# parallel: yes
# threads: yes
# takes: 1 s CPU in 16 s
# sanitizers: yes
"""SIGHUP: what has not changed runs on without missing a block, what has changed is swapped in without
losing a datagram, what is wrong is refused with its reason. `convolvd --status` and the socket behind it."""
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import numpy as np

import convolvd as c

RATE = 48000


def stream(name, port, filter_name, extra=""):
    return f"[stream {name}]\nsource = rtp\naddress = 127.0.0.1:{port}\nrate = {RATE} Hz\nchannels = 1\n" \
           f"format = s16be\nfull scale = 1\nblock = 128\nfilter = {filter_name}\n{extra}\n"


def sink(name, of, port):
    return f"[sink {name}]\ntype = rtp\nstream = {of}\naddress = 127.0.0.1:{port}\nformat = f32be\n"


def file_filter(name, path):
    return f"[filter {name}]\ntype = file\npath = {path}\n"


def ask(path, text, lines=1):
    """Sends text to the control socket; the answers, parsed."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.settimeout(c.PATIENCE_S)
        try:
            s.sendall(text)
        except BrokenPipeError:
            pass
        got = b""
        while got.count(b"\n") < lines:
            try:
                piece = s.recv(65536)
            except ConnectionResetError:
                break
            if not piece:
                break
            got += piece
    return [json.loads(line) for line in got.splitlines()]


class Reload(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.taps = c.random_taps(3, 33)
        np.save(f"{self.folder}/a.npy", self.taps)
        np.save(f"{self.folder}/b.npy", c.random_taps(4, 21))
        self.ports = {name: c.free_port() for name in ("a", "b", "out a", "out b", "c", "out c")}

    def config(self, a="", b="", more=""):
        p = self.ports
        return "[device]\ndevice = " + c.DEVICE + "\n" + stream("a", p["a"], "fa", a) + stream("b", p["b"], "fb", b) \
            + file_filter("fa", f"{self.folder}/a.npy") + file_filter("fb", f"{self.folder}/b.npy") \
            + sink("sa", "a", p["out a"]) + sink("sb", "b", p["out b"]) + more

    def rewrite(self, daemon, text):
        with open(daemon.path, "w", encoding="utf-8") as file:
            file.write(text)

    def reload(self, daemon, says):
        before = len(daemon.lines)
        daemon.signal(signal.SIGHUP)
        try:
            c.wait_for(lambda: any(says in line for line in daemon.lines[before:]), f"'{says}'")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{daemon.output()}") from None
        return "\n".join(daemon.lines[before:])

    def rig(self, name, seconds, codes_path):
        return subprocess.Popen([os.path.join(c.BUILD, "convolv-rig"), "--to", f"127.0.0.1:{self.ports[name]}",
                                 "--file", codes_path, "--ledger", f"{self.folder}/rig-{name}.json"],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def test_an_unchanged_stream_misses_no_block(self):
        codes = c.noise_codes(11, 3 * RATE, 1)
        c.write_wav16(f"{self.folder}/in.wav", RATE, codes)
        x = codes / 32768.0
        with c.Daemon(self.folder, self.config()) as daemon, \
                c.Tap(self.folder, self.ports["out a"], channels=1, rate=RATE, name="tap-a") as tap:
            rigs = [self.rig("a", 3, f"{self.folder}/in.wav"), self.rig("b", 3, f"{self.folder}/in.wav")]
            time.sleep(0.7)
            # Only b's block changes; a third stream comes.
            p = self.ports
            self.rewrite(daemon, self.config(b="idle flush = 50 ms",
                                             more=stream("c", p["c"], "fa") + sink("sc", "c", p["out c"])))
            self.assertIn("1 stream unchanged, 2 changed or new, 0 removed", self.reload(daemon, "reloaded: "))
            time.sleep(0.5)
            # The file of b's filter changes in place.
            np.save(f"{self.folder}/b.npy", c.random_taps(5, 17))
            self.assertIn("2 streams unchanged, 1 changed or new, 0 removed", self.reload(daemon, "reloaded: "))
            self.assertIn("3 streams unchanged, 0 changed or new, 0 removed", self.reload(daemon, "reloaded: "))
            self.rewrite(daemon, self.config(b="idle flush = 50 ms"))
            self.assertIn("2 streams unchanged, 0 changed or new, 1 removed", self.reload(daemon, "reloaded: "))
            for rig in rigs:
                self.assertEqual(rig.wait(c.PATIENCE_S), 0)
                rig.stdout.close()
            status = daemon.stop()
            ledger = tap.finish(number=signal.SIGTERM)
        streams = {s["name"]: s for s in status["streams"]}
        self.assertEqual(sorted(streams), ["a", "b"])
        self.assertEqual(streams["a"]["frames_in"]["received"], 3 * RATE)
        self.assertEqual(streams["a"]["epochs"], 1)
        self.assertEqual(sum(streams["a"]["frames_in"]["gap"].values()), 0)
        self.assertEqual(sum(ledger["rejected"].values()), 0)
        want = c.convolve(x, self.taps)
        c.assert_within(tap.frames(), want, x, self.taps)
        # b was swapped twice; what its last life did not receive, the two before it did: every datagram was read.
        sent = c.load_json(f"{self.folder}/rig-b.json")["rigs"][0]["datagrams_gone"]
        self.assertEqual(streams["b"]["datagrams"]["kernel_drops"], 0)
        self.assertEqual(sum(streams["b"]["frames_in"]["gap"].values()), 0)
        self.assertLess(streams["b"]["datagrams"]["read"], sent)

    def test_a_source_that_cannot_start_costs_no_stream(self):
        """The system refuses the new source its thread: the reload is refused, and the old source runs on."""
        def config(amplitude):
            return self.config() + "[stream g]\nsource = generator\nwaveform = noise\nrate = 48 kHz\nblock = 128\n" \
                f"format = s16le\nchannels = 1\namplitude = {amplitude}\nfilter = fa\n" + sink("sg", "g", self.ports["out c"])

        with c.Daemon(self.folder, config(0.1), program="convolvd-test") as daemon:
            def out():
                return next(s for s in daemon.status()["streams"] if s["name"] == "g")["frames_out"]["out"]
            c.wait_for(lambda: out() > 0, "results")
            daemon.signal(c.NO_THREADS)
            self.rewrite(daemon, config(0.2))
            says = self.reload(daemon, "the configuration in use stays")
            self.assertIn("no thread for its source", says)
            before = out()
            c.wait_for(lambda: out() > before + RATE // 2, "the old source to run on")
            daemon.signal(c.NO_THREADS)
            self.assertIn("2 streams unchanged, 1 changed or new", self.reload(daemon, "reloaded: "))
            before = out()
            c.wait_for(lambda: out() > before, "the new source")
            daemon.stop()

    def test_some_options_change_while_a_stream_runs(self):
        """`min free` and `datagrams per wake` reach what runs; the stream is not made anew for them."""
        codes = c.noise_codes(19, 4 * RATE, 1)
        c.write_wav16(f"{self.folder}/in.wav", RATE, codes)
        record = f"[sink rec]\ntype = recording\nstream = a\npath = {self.folder}/out.wav\n"
        with c.Daemon(self.folder, self.config(more=record + "min free = 0\n")) as daemon:
            rig = self.rig("a", 4, f"{self.folder}/in.wav")
            time.sleep(0.5)
            more = record + "min free = 1024 TiB\n"
            self.rewrite(daemon, self.config(a="datagrams per wake = 7", more=more))
            self.assertIn("2 streams unchanged, 0 changed or new, 0 removed", self.reload(daemon, "reloaded: "))
            c.wait_for(lambda: "recording paused" in daemon.output(), "the pause")
            self.rewrite(daemon, self.config(more=record + "min free = 0\n"))
            self.assertIn("2 streams unchanged", self.reload(daemon, "reloaded: "))
            c.wait_for(lambda: "recording continues" in daemon.output(), "the recording")
            self.assertEqual(rig.wait(c.PATIENCE_S), 0)
            rig.stdout.close()
            status = daemon.stop()
        stream_a = next(s for s in status["streams"] if s["name"] == "a")
        self.assertEqual(stream_a["epochs"], 1)
        dropped = next(s for s in stream_a["sinks"] if s["name"] == "rec")["dropped"]
        self.assertGreater(dropped["paused"], 0)

    def test_a_swapped_stream_loses_no_datagram(self):
        codes = c.noise_codes(12, 60 * RATE, 1)
        c.write_wav16(f"{self.folder}/in.wav", RATE, codes)
        x = codes / 32768.0
        recording = f"[sink raw]\ntype = recording\nstream = a\nrecord = input\npath = {self.folder}/raw.wav\n"
        with c.Daemon(self.folder, self.config(more=recording)) as daemon:
            rig = self.rig("a", 60, f"{self.folder}/in.wav")
            for i in range(3):
                received = daemon.stream("a")["frames_in"]["received"]
                c.wait_for(lambda: daemon.stream("a")["frames_in"]["received"] > received + RATE // 4, "frames of this life")
                np.save(f"{self.folder}/a.npy", c.random_taps(20 + i, 33))
                self.assertIn("1 stream unchanged, 1 changed or new", self.reload(daemon, "reloaded: "))
            time.sleep(0.4)
            rig.send_signal(signal.SIGTERM)
            self.assertEqual(rig.wait(c.PATIENCE_S), 0)
            rig.stdout.close()
            daemon.stop()
        frames = c.load_json(f"{self.folder}/rig-a.json")["rigs"][0]["frames"]
        # Each life recorded the input it read; end to end they are what was sent, frame for frame.
        names = sorted((n for n in os.listdir(self.folder) if n.startswith("raw") and n.endswith(".wav")),
                       key=lambda n: os.stat(f"{self.folder}/{n}").st_mtime)
        self.assertEqual(len(names), 4)
        got = np.concatenate([c.read_recording(f"{self.folder}/{n}") for n in names])
        self.assertEqual(len(got), frames)
        np.testing.assert_array_equal(got, x[:frames].astype(np.float32) if got.dtype.kind == "f" else codes[:frames])

    def test_what_is_wrong_is_refused(self):
        with c.Daemon(self.folder, self.config()) as daemon:
            for text, says in (
                    (self.config(a="no such key = 1"), "no such key"),
                    (self.config(more="[sink sx]\ntype = rtp\nstream = nobody\naddress = 127.0.0.1:6000\n"), "nobody"),
                    (self.config().replace("device = " + c.DEVICE, "device = " + c.DEVICE + "\nbatches = 5"),
                     "only a restart"),
                    (self.config(more=stream("c", self.ports["c"], "fc") + file_filter("fc", f"{self.folder}/gone.npy")),
                     "gone.npy"),
            ):
                self.rewrite(daemon, text)
                log = self.reload(daemon, "reload refused: ")
                self.assertIn(says, log)
                self.assertIn("the configuration in use stays", log)
            c.rig(self.folder, self.ports["a"], "--rate", RATE, "--channels", 1, "--seconds", 0.2)
            status = daemon.stop()
            self.assertEqual([s["name"] for s in status["streams"]], ["a", "b"])
            self.assertEqual(status["streams"][0]["frames_in"]["received"], RATE // 5)

    def test_many_at_once_and_a_stop_among_them(self):
        for i in range(4):
            with c.Daemon(self.folder, self.config()) as daemon:
                for k in range(6):
                    np.save(f"{self.folder}/a.npy", c.random_taps(30 + 6 * i + k, 33 + k))
                    daemon.signal(signal.SIGHUP)
                    time.sleep(0.01 * i)
                if i % 2 == 1: # else the stop comes while it prepares
                    c.wait_for(lambda: daemon.said("reloaded: "), "a reload")
                status = daemon.stop()
                self.assertEqual([s["name"] for s in status["streams"]], ["a", "b"])
                reloads = len(re.findall(r"reading \S+ again", daemon.output()))
                self.assertGreaterEqual(reloads, 1)
                told = re.findall("reloaded: |reload refused: |reload cut off: the daemon stops", daemon.output())
                self.assertEqual(reloads, len(told), daemon.output())

    def test_a_chain_is_swapped_with_what_it_reads(self):
        chain = "[stream d]\nsource = stream a\nblock = 128\nfilter = fb\n"
        again = "takeover = 1 ms\n"  # one rig after the other
        with c.Daemon(self.folder, self.config(a=again, more=chain)) as daemon:
            c.rig(self.folder, self.ports["a"], "--rate", RATE, "--channels", 1, "--seconds", 0.2)
            # The chain alone: what it reads runs on.
            self.rewrite(daemon, self.config(a=again, more=chain + "tail = no\n"))
            self.assertIn("2 streams unchanged, 1 changed or new", self.reload(daemon, "reloaded: "))
            c.rig(self.folder, self.ports["a"], "--rate", RATE, "--channels", 1, "--seconds", 0.2)
            self.assertEqual(daemon.stream("a")["frames_in"]["received"], 2 * (RATE // 5))
            # What it reads: both.
            self.rewrite(daemon, self.config(a=again + "idle flush = 20 ms", more=chain + "tail = no\n"))
            self.assertIn("1 stream unchanged, 2 changed or new", self.reload(daemon, "reloaded: "))
            c.rig(self.folder, self.ports["a"], "--rate", RATE, "--channels", 1, "--seconds", 0.2)
            status = daemon.stop()
            streams = {s["name"]: s for s in status["streams"]}
            # Its filter is the same: its epoch and its counters went on, as did those of the chain.
            self.assertEqual(streams["a"]["frames_in"]["received"], 3 * (RATE // 5))
            # The chain's own epoch began when it alone was swapped.
            self.assertEqual(streams["d"]["frames_in"]["received"], streams["a"]["frames_out"]["out"] - RATE // 5)


class Status(unittest.TestCase):
    def test_status_over_the_socket(self):
        folder = tempfile.mkdtemp()
        np.save(f"{folder}/a.npy", c.random_taps(3, 33))
        port, out = c.free_port(), c.free_port()
        path = f"{folder}/observe.sock"
        config = stream("a", port, "fa") + file_filter("fa", f"{folder}/a.npy") + sink("sa", "a", out)
        with c.Daemon(folder, config) as daemon:
            c.rig(folder, port, "--rate", RATE, "--channels", 1, "--seconds", 0.2)
            shown = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--status", "--socket", path],
                                   capture_output=True, text=True, timeout=c.PATIENCE_S, check=False)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn("stream a: 1 channel at 48000 Hz", shown.stdout)
            self.assertIn("frames in     9600 = received 9600", shown.stdout)
            watch = subprocess.Popen([os.path.join(c.BUILD, "convolvd"), "--status", "--watch"],
                                     env={**os.environ, "RUNTIME_DIRECTORY": folder}, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True)
            time.sleep(2.5)
            status, = ask(path, b'{"command": "status", "format": "json"}\n')
            c.check_ledgers(status["status"])
            # Hostile lines: answered, or closed, and the daemon goes on.
            answers = ask(path, b'nonsense\n{"command": 3}\n{"command": "none such"}\n[]\n' +
                          b"[" * 4000 + b"\n", 5)
            self.assertEqual([a["ok"] for a in answers], [False] * 5)
            self.assertEqual(ask(path, b"x" * 100000), [])
            crowd = []
            for _ in range(60):
                s = socket.socket(socket.AF_UNIX)
                s.connect(path)
                s.send(b'{"command": "st')
                crowd.append(s)
            status, = ask(path, b'{"command": "status", "format": "json"}\n')
            self.assertEqual(status["status"]["streams"][0]["frames_in"]["received"], 9600)
            for s in crowd:
                s.close()
            daemon.stop()
            text, _ = watch.communicate(timeout=c.PATIENCE_S)
            self.assertGreaterEqual(text.count("stream a: 1 channel"), 2)
            self.assertIn("gone", text)
            self.assertFalse(os.path.exists(path))
            nobody = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--status", "--socket", path],
                                    capture_output=True, text=True, timeout=c.PATIENCE_S, check=False)
            self.assertEqual(nobody.returncode, 1)
            self.assertIn("no daemon answers", nobody.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
