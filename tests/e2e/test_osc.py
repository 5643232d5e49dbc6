#!/usr/bin/python3
# parallel: yes
# takes: 4 s CPU in 18 s
"""OSC in and out of the running daemon: blocks in every form that patches send, results against
numpy frame by frame, questions and changes while running, hostile packets, slow clients; with packets
made byte by byte (osc_client.py), and with liblo's own programs (oscsend, oscdump) and its Python binding.
"""
import os
import re
import socket
import struct
import subprocess
import time
import unittest

import numpy as np

import convolvd as c
from osc_client import Client, Tcp, blocks, bundle, gather, message, parse, text

try:
    import liblo  # Debian 12
except ImportError:
    try:
        import pyliblo3 as liblo  # Debian 13, in a package of the same name
    except ImportError:
        liblo = None

RATE = 100000
BLOCK = 256
FRAMES = 4096
TAPS = c.random_taps(11, 31)
TAPS2 = c.random_taps(12, 45)
LONG = c.random_taps(13, 3000)
ANALYTIC = c.random_taps(14, 63, True)
ANALYTIC2 = c.random_taps(16, 51, True)
MALFORMED = bytes.fromhex("2f63682f310000002c69620000000007")


def signal(seed, frames=FRAMES, channels=2):
    return np.random.default_rng(seed).normal(0, 0.25, (frames, channels)).astype(np.float32)


def fade_weights(frames, at, fade):
    return (0.5 - 0.5 * np.cos(np.pi * np.clip((np.arange(frames) - at + 0.5) / fade, 0, 1)))[:, None]


FORMS = [("hh", "f32be"), ("iiii", "f32be"), ("ii", "f32be"), ("b", "f32be"), ("f", "f32be"), ("hh", "s16be")]


class Osc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = c.temporary()
        np.save(os.path.join(cls.folder.name, "one.npy"), TAPS)
        np.save(os.path.join(cls.folder.name, "two.npy"), TAPS2)
        np.save(os.path.join(cls.folder.name, "long.npy"), LONG)
        np.save(os.path.join(cls.folder.name, "analytic.npy"), ANALYTIC)
        np.save(os.path.join(cls.folder.name, "analytic2.npy"), ANALYTIC2)
        cls.port, cls.tcp = c.free_port(), c.free_port()
        names = [f"form{i}" for i in range(len(FORMS))] + ["tcp0", "tcp1", "lost", "change", "sets", "levels", "python", "fast",
                                                              "fade", "envelope", "clear", "long", "default", "topics", "proof"]
        streams = "".join(
            f"[stream {n}]\nsource = osc\nrate = {RATE} Hz\nchannels = 2\nblock = {BLOCK}\n"
            f"filter = {'two' if n == 'change' else 'analytic' if n == 'envelope' else 'one'}\n"
            f"{'output = envelope' if n == 'envelope' else ''}\n"
            f"format = {FORMS[int(n[4:])][1] if n.startswith('form') else 'f32be'}\nbuffer = 2 s\n"
            f"[sink {n}]\ntype = osc\nstream = {n}\n" for n in names)
        filters = "".join(f"[filter {n}]\ntype = file\npath = {n}.npy\ndelay = 0\n" for n in ("one", "two", "long", "analytic", "analytic2"))
        cls.daemon = c.Daemon(cls.folder.name, f"[osc]\naddress = *:{cls.port}\ntcp address = *:{cls.tcp}\n"
                              f"tcp timeout = 3 s\nallow = any\n{streams}{filters}")

    @classmethod
    def tearDownClass(cls):
        try:
            cls.daemon.stop()
        finally:
            cls.daemon.kill()
            cls.folder.cleanup()

    def client(self, *arguments):
        client = Client(self.port, *arguments)
        self.addCleanup(client.close)
        return client

    def answered(self):
        """It still answers, at once."""
        client = self.client()
        client.send("/convolvd/list")
        self.assertIn("lost", client.await_("/convolvd/list")[2])

    def play(self, stream, packets, frames=FRAMES, narrow=False):
        client = self.client()
        if narrow:
            client.send("/convolvd/narrow", "i", 1)
        client.send(f"/convolvd/{stream}/subscribe", "s", "results")
        for packet in packets:
            client.raw(packet)
        return gather(client.receive, frames, narrow=narrow)

    def test_forms(self):
        for i, (how, form) in enumerate(FORMS):
            with self.subTest(how=how, form=form):
                x = signal(i)
                codes = np.rint(x * 32768).clip(-32768, 32767)
                sent, seen = (codes, codes / 32768) if form == "s16be" else (x, x)
                y, _, latencies = self.play(f"form{i}", blocks(f"form{i}", sent, how, dtype=">i2" if form == "s16be" else ">f4"),
                                            narrow=how == "iiii")
                c.assert_within(y, c.convolve(seen, TAPS)[:FRAMES], seen, TAPS, what=f"{how} {form}")
                self.assertTrue(all(0 < latency < 60e6 for latency in latencies))
                client = self.client()
                client.send(f"/convolvd/form{i}/info")
                info = client.await_(f"/convolvd/form{i}/info")[2]
                self.assertEqual(info[:6], [f"form{i}", RATE, 2, 2, BLOCK, form])
                self.assertEqual(info[-2:], ["undetectable" if how in ("b", "f") else "detectable", RATE])

    def test_bundles(self):
        """Several blocks in a bundle, bundles in a bundle, dated 2036 or not: all at once, in order."""
        x = signal(20)
        packets = list(blocks("sets", x))
        sets = []
        for n in range(0, len(packets), 4):
            inner = bundle(*packets[n + 2:n + 4], tag=0xFD8C1F00 << 32)
            sets.append(bundle(*packets[n:n + 2], inner, tag=0xFD8C1F00 << 32))
        y, _, _ = self.play("sets", sets)
        c.assert_within(y, c.convolve(x, TAPS)[:FRAMES], x, TAPS, what="bundles")

    def test_tcp(self):
        for slip in (False, True):
            with self.subTest(slip=slip):
                stream = f"tcp{int(slip)}"
                x = signal(30 + slip)
                client = Tcp(self.tcp, slip)
                self.addCleanup(client.close)
                client.send(message(f"/convolvd/{stream}/subscribe", "s", "results"))
                for packet in blocks(stream, x):
                    client.send(packet)
                y, _, _ = gather(client.receive, FRAMES)
                c.assert_within(y, c.convolve(x, TAPS)[:FRAMES], x, TAPS, what="TCP")

    def test_loss(self):
        """A block that never came is a gap in its place, flagged as far as the filter reaches."""
        x = signal(40)
        packets = list(blocks("lost", x))
        del packets[20]
        y, flags, _ = self.play("lost", packets)
        x[20 * 64:21 * 64] = 0
        c.assert_within(y, c.convolve(x, TAPS)[:FRAMES], x, TAPS, what="gap")
        invalid = (flags & 4) != 0
        self.assertTrue(invalid[20 * 64:21 * 64 + len(TAPS) - 1].all())
        self.assertTrue((flags[20 * 64:21 * 64] >> 16 & 1 << 2).all(), "no cause: network")
        self.assertFalse(invalid[22 * 64 + len(TAPS) + 400:].any())
        self.assertEqual(self.daemon.stream("lost")["frames_in"]["gap"]["network"], 64)

    def test_changes(self):
        """Gain, mute and filter, each from exactly the frame that the answer names."""
        client, results = self.client(), self.client()
        results.send("/convolvd/change/subscribe", "s", "results")
        x = signal(50)
        packets = list(blocks("change", x))
        segments = [(0, TAPS2, 1.0)]
        steps = {1024: ("filter", "shs", "one", 1500, "hard"), 2048: ("gain", "ff", 6.0, 0.0), 3072: ("mute", "i", 1)}
        taps, gain = TAPS2, 1.0
        for n, packet in enumerate(packets):
            if n * 64 in steps:
                c.wait_for(lambda n=n: self.daemon.stream("change")["frames_out"]["out"] >= n * 64 - BLOCK, "results")
                what, *arguments = steps[n * 64]
                client.send(f"/convolvd/change/{what}", *arguments)
                got = client.receive()
                self.assertEqual(got[0], "/convolvd/change/changed", got)
                self.assertEqual(got[2][0], what)
                if what == "filter":
                    self.assertEqual(got[2][1], 1500)
                    taps = TAPS
                gain = {"filter": 1.0, "gain": 10 ** (6 / 20), "mute": 0.0}[what]
                segments.append((got[2][1], taps, gain))
            client.raw(packet)
        y, flags, _ = gather(results.receive, FRAMES)
        want = np.zeros_like(y)
        for first, h, factor in segments:
            want[first:] = factor * c.convolve(x, h)[first:FRAMES]
        c.assert_within(y, want, x * 2, TAPS2, what="changes")
        for first, _, _ in segments[1:]:
            self.assertTrue(flags[first] & 4, f"frame {first} is not flagged")
        client.send("/convolvd/change/filter", "s", "three")
        self.assertIn("no filter three", client.await_("/convolvd/error")[2][1])
        client.send("/convolvd/change/filter", "sh", "one", 10)
        self.assertIn("computed already", client.await_("/convolvd/error")[2][1])
        client.send("/convolvd/change/gain", "fi", 0, 3)
        self.assertIn("2 outputs", client.await_("/convolvd/error")[2][1])
        client.send("/convolvd/change/filter", "ss", "one", "slowly")
        self.assertIn("one of: fade hard clear", client.await_("/convolvd/error")[2][1])

    def exchange(self, stream, x, arguments, at, before=1024):
        """Sends x, asks for the change when `before` frames are out; the results, and where they are invalid."""
        client, results = self.client(), self.client()
        results.send(f"/convolvd/{stream}/subscribe", "s", "results")
        for n, packet in enumerate(blocks(stream, x)):
            if n * 64 == before:
                c.wait_for(lambda: self.daemon.stream(stream)["frames_out"]["out"] >= before - BLOCK, "results")
                client.send(f"/convolvd/{stream}/filter", *arguments)
                got = client.receive()
                self.assertEqual((got[0], got[2]), (f"/convolvd/{stream}/changed", ["filter", at]))
            client.raw(packet)
        y, flags, _ = gather(results.receive, len(x))
        return y, (flags & 4) != 0

    def test_fade(self):
        """The default: a raised cosine of 10 ms from the named frame on, over several blocks."""
        x, at, fade = signal(51), 1500, RATE // 100
        y, invalid = self.exchange("fade", x, ("sh", "two", at), at)
        w = fade_weights(FRAMES, at, fade)
        want = (1 - w) * c.convolve(x, TAPS)[:FRAMES] + w * c.convolve(x, TAPS2)[:FRAMES]
        c.assert_within(y, want, x, TAPS2, what="cross-fade")
        self.assertTrue(invalid[at:at + fade].all())
        self.assertFalse(invalid[at + fade + 512:].any())
        self.assertEqual(self.daemon.stream("fade")["invalid"]["filter change"], fade)

    def test_fade_envelope(self):
        """The envelope is taken after the cross-fade, here of 5 ms."""
        x, at, fade = signal(52), 1333, RATE // 200
        y, _ = self.exchange("envelope", x, ("shsf", "analytic2", at, "fade", 5.0), at)
        w = fade_weights(FRAMES, at, fade)
        want = abs((1 - w) * c.convolve(x, ANALYTIC)[:FRAMES] + w * c.convolve(x, ANALYTIC2)[:FRAMES])
        c.assert_within(y, want, x, ANALYTIC2, what="envelope of a cross-fade")

    def test_clear(self):
        """The new filter begins in silence at the named frame, and settles."""
        x, at = signal(53), 1700
        y, invalid = self.exchange("clear", x, ("shs", "two", at, "clear"), at)
        want = c.convolve(x, TAPS)[:FRAMES]
        want[at:] = c.convolve(x[at:], TAPS2)[:FRAMES - at]
        c.assert_within(y, want, x, TAPS2, what="cleared history")
        self.assertEqual(self.daemon.stream("clear")["invalid"]["filter change"], len(TAPS2) - 1)
        self.assertTrue(invalid[at:at + len(TAPS2) - 1].all())

    def test_longer_filter(self):
        """A filter far longer than the one the stream was started with, with all its history."""
        x, at = signal(54, 8192), 4000
        y, invalid = self.exchange("long", x, ("shs", "long", at, "hard"), at, 3072)
        want = c.convolve(x, TAPS)[:len(x)]
        want[at:] = c.convolve(x, LONG)[at:len(x)]
        c.assert_within(y, want, x, LONG, what="a longer filter")
        self.assertEqual(self.daemon.stream("long")["invalid"]["filter change"], 1)

    def test_levels(self):
        client = self.client()
        client.send("/convolvd/levels/subscribe", "sf", "levels", 100.0)
        x = np.tile(np.float32([[0.5, 1.0]]), (FRAMES, 1))
        for packet in blocks("levels", x):
            client.raw(packet)
            time.sleep(0.001)
        frames = clips = 0
        while frames < FRAMES:
            _, types, values = client.await_("/convolvd/levels/levels")
            self.assertEqual(types, "hiffiffi")
            self.assertEqual(values[0], frames)
            frames += values[1]
            clips += values[7]
        self.assertAlmostEqual(values[2], 0.5 * abs(TAPS.sum()), delta=1)
        self.assertEqual(clips, FRAMES)
        client.send("/convolvd/levels/unsubscribe")
        self.assertTrue(client.silent())

    def test_default_subscription(self):
        """Without a topic: levels and the decimated envelope, ten times a second at most, every frame in one of them."""
        client = self.client()
        client.send("/convolvd/default/subscribe")
        x, begun = signal(91, 2 * RATE), time.monotonic()
        for n, packet in enumerate(blocks("default", x, size=500)):
            client.raw(packet)
            time.sleep(max(0, begun + n * 0.005 - time.monotonic()))
        frames, messages = {"levels": 0, "envelope": 0}, {"levels": 0, "envelope": 0}
        y = abs(c.convolve(x, TAPS)[:len(x)])
        while min(frames.values()) < len(x):
            address, types, values = client.receive()
            topic = address.rsplit("/", 1)[1]
            self.assertEqual(types, {"levels": "hiffiffi", "envelope": "hiff"}[topic])
            self.assertEqual(values[0], frames[topic])
            until = values[0] + values[1]
            if topic == "envelope":
                for channel in (0, 1):
                    self.assertAlmostEqual(values[2 + channel], y[values[0]:until, channel].max(), delta=1e-4)
            frames[topic] = until
            messages[topic] += 1
        took = time.monotonic() - begun
        for count in messages.values():
            self.assertTrue(2 <= count <= 10 * took + 2, f"{count} messages in {took:.1f} s")

    def test_topics_side_by_side(self):
        """Each topic has a lease and a rate of its own; clips count from the lease on."""
        client = self.client()
        for packet in blocks("topics", np.ones((FRAMES, 2), np.float32), how="b"):
            client.raw(packet)
            time.sleep(0.001)
        c.wait_for(lambda: self.daemon.stream("topics")["frames_in"]["received"] == FRAMES, "the loud frames")
        rates = {"levels": 20, "latency": 5, "envelope": 10, "results": 15}
        for topic, rate in rates.items():
            client.send("/convolvd/topics/subscribe", "sf", topic, float(rate))
        counts, clips, begun = dict.fromkeys(rates, 0), 0, time.monotonic()
        for n, packet in enumerate(blocks("topics", signal(92, 2 * RATE) * 0.1, how="b", size=500)):
            client.raw(packet)
            time.sleep(max(0, begun + n * 0.005 - time.monotonic()))
        client.send("/convolvd/topics/unsubscribe")
        took = time.monotonic() - begun
        try:
            while True:
                address, _, values = client.receive(0.5)
                topic = address.rsplit("/", 1)[1].replace("result", "results")
                counts[topic] += 1
                clips += values[4] + values[7] if topic == "levels" else 0
        except socket.timeout:
            pass
        self.assertEqual(clips, 0)
        for topic, rate in rates.items():
            self.assertTrue(2 <= counts[topic] <= rate * took + 3, f"{counts} in {took:.1f} s")

    def test_questions(self):
        client = self.client()
        client.send("/convolvd/form*/info")
        self.assertEqual({client.await_(f"/convolvd/form{i}/info")[2][0] for i in range(len(FORMS))},
                         {f"form{i}" for i in range(len(FORMS))})
        for address, words in (("/convolvd/nope/info", "no such stream"), ("/convolvd/bogus", "no such address"),
                               ("/convolvd/lost/blo?k", "whole name")):
            client.send(address, "i", client.socket.getsockname()[1])
            got = client.await_("/convolvd/error")
            self.assertEqual(got[2][0], address)
            self.assertIn(words, got[2][1])

    def test_hostile(self):
        """Nothing comes of them but a count."""
        client = self.client()
        before = self.counters()
        deep = b""
        for _ in range(2000):
            deep = bundle(deep) if deep else bundle()
        for packet in (MALFORMED, message("/*a*a*a*a*b"), deep, b"", b"\0" * 65500, bundle(MALFORMED, message("/convolvd/list")),
                       message("/convolvd/lost/block", "b", b"123"), message("/convolvd/lost/block", "s", "x"),
                       text("/x") + text("x") + b"", text("/x") + b"i\0\0\0" + bytes(4),
                       text("/convolvd/lost/block") + text(",s") + b"a\0\0b", b"#bundle\0" + bytes(8) + b"\0\0\0\4",
                       message("/convolvd/nobody/block", "b", b"1234"), bundle(bundle(message("/convolvd/lost/block", "i", 1)), tag=9)):
            client.raw(packet)
        self.assertTrue(client.silent())
        self.answered()
        after = self.counters()
        grown = {name: after[name] - before[name] for name in after}
        for name, count in dict(arguments=2, pattern=1, depth=1, size=1, address=1, untagged=2, bundle=1).items():
            self.assertEqual(grown[f"rejected_{name}"], count, name)
        self.assertEqual(grown["tolerated_padding"], 1)
        self.assertEqual(grown["unclaimed"], 1)
        self.assertEqual(grown["bundles_dated"], 1)
        self.assertGreaterEqual(after["bundle_depth"], 2)

    def counters(self):
        return self.daemon.status()["osc"]

    def test_dated_flood(self):
        """Bundles dated 2036 queue nothing."""
        def resident():
            with open(f"/proc/{self.daemon.process.pid}/status", encoding="ascii") as status:
                return int(next(line for line in status if line.startswith("VmRSS")).split()[1])
        client = self.client()
        flood = bundle(message("/convolvd/nothing", "b", b"x" * 1000), tag=0xFD8C1F00 << 32)
        for _ in range(500):
            client.raw(flood)
        self.answered()
        before = resident()
        for n in range(20000):
            client.raw(flood)
            if n % 500 == 499:
                self.answered()
        grown = resident() - before
        self.assertLess(grown, 2048 if not c.SANITIZED else 65536, f"{grown} KiB more after 20 MB of dated bundles")

    def test_slow_client(self):
        """A byte a second delays nobody, and ends with the time-out; so does what is no OSC."""
        slow = socket.create_connection(("127.0.0.1", self.tcp))
        self.addCleanup(slow.close)
        begun = time.monotonic()
        slow.settimeout(0.5)
        worst, drip = 0, iter(struct.pack(">I", 64) + b"/" * 64)
        while time.monotonic() - begun < 8:
            try:
                slow.send(bytes([next(drip)]))
                if slow.recv(1) == b"":
                    break
            except socket.timeout:
                pass
            except ConnectionError:
                break
            asked = time.monotonic()
            self.answered()
            worst = max(worst, time.monotonic() - asked)
        else:
            self.fail("the slow client was not closed")
        self.assertGreater(time.monotonic() - begun, 2)
        self.assertEqual(self.counters()["closed_slow"], 1)
        self.assertLess(worst, 0.5 if not c.SANITIZED else 5)
        for junk in (b"GET / HTTP/1.0\r\n\r\n", b"\0\1\0\1junk"):
            other = socket.create_connection(("127.0.0.1", self.tcp), c.PATIENCE_S)
            other.sendall(junk)
            self.assertEqual(other.recv(1), b"")
            other.close()

    def allowed_client(self):
        """One that is only allowed: loopback is trusted."""
        probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            probe.connect(("192.0.2.1", 9))
            return self.client(probe.getsockname()[0])
        except OSError:
            self.skipTest("no address but loopback here")
        finally:
            probe.close()

    def test_blocks_of_unproven_addresses(self):
        """Blocks over UDP count from an address only once it has returned a challenge."""
        client = self.allowed_client()
        before = self.counters()
        x = signal(77)
        forged = list(blocks("proof", x + 1, first=0))[:8]
        for packet in forged:
            client.raw(packet)
        address, types, (token,) = client.receive()
        self.assertEqual((address, types), ("/prove", "i"))
        self.assertTrue(client.silent(), "more than one challenge for a burst of blocks")
        counted = self.counters()
        self.assertEqual(counted["blocks_unproven"] - before.get("blocks_unproven", 0), len(forged))
        stream = next(s for s in self.daemon.status()["streams"] if s["name"] == "proof")
        self.assertEqual(stream["datagrams"]["read"], 0)
        client.send("/convolvd/prove", "i", token)
        client.send("/convolvd/proof/subscribe", "s", "results")
        for packet in blocks("proof", x):
            client.raw(packet)
        y, _, _ = gather(client.receive, FRAMES)
        c.assert_within(y, c.convolve(x, TAPS)[:FRAMES], x, TAPS, what="proof")

    def test_challenge(self):
        """An address that may be forged gets a challenge no larger than its question, and nothing more."""
        before = self.counters()
        client = self.allowed_client()
        question = message("/convolvd/*")
        client.raw(message("/x"))
        client.raw(message("/convolvd/lost/filter", "s", "two"))
        client.socket.settimeout(c.PATIENCE_S)
        answer = client.socket.recv(65536)
        self.assertLessEqual(len(answer), len(question))
        address, types, (token,) = parse(answer)
        self.assertEqual((address, types), ("/prove", "i"))
        self.assertTrue(client.silent(), "more than a challenge came")
        client.send("/convolvd/prove", "i", token ^ 1)
        client.send("/convolvd/list")
        self.assertEqual(client.receive()[0], "/prove")
        self.assertTrue(client.silent(), "a question was answered without the proof")
        client.send("/convolvd/prove", "i", token)
        client.send("/convolvd/list")
        self.assertEqual(client.receive()[0], "/convolvd/list")
        counted = self.counters()
        self.assertEqual((counted["proven"] - before["proven"], counted["challenged"] - before["challenged"]), (1, 2))

    def test_errors_go_where_answers_go(self):
        """To the port that the question names, whatever is wrong with the rest of it."""
        caller, listener = self.client(), self.client()
        port = listener.socket.getsockname()[1]
        for question in (("/convolvd/nobody/info", "i", port),
                         ("/convolvd/nobody/subscribe", "sfi", "levels", 5.0, port),
                         ("/convolvd/python/subscribe", "sfi", "nonsense", 5.0, port)):
            caller.send(*question)
            address, _, (what, _) = listener.receive()
            self.assertEqual((address, what), ("/convolvd/error", question[0]))
        self.assertTrue(caller.silent(), "the error came to the socket that asked, too")
        # A number that is no port, or of a message that takes none, says nothing about where.
        for question in (("/convolvd/list", "i", 70000), ("/convolvd/python/gain", "fi", 1e6, port)):
            caller.send(*question)
            self.assertEqual(caller.receive()[0], "/convolvd/error")
        self.assertTrue(listener.silent())

    def test_liblo_programs(self):
        port = c.free_port()
        dump = subprocess.Popen(["stdbuf", "-oL", "oscdump", str(port)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(dump.stdout.close)
        self.addCleanup(dump.wait)
        self.addCleanup(dump.kill)
        time.sleep(0.5)
        for arguments in (["/convolvd/list", "i", port], ["/convolvd/python/info", "i", port],
                          ["/convolvd/python/subscribe", "sfi", "envelope", "5", port]):
            subprocess.run(["oscsend", "127.0.0.1", str(self.port), *map(str, arguments)], check=True)
        self.assertIn('"lost"', dump.stdout.readline())
        self.assertIn('/convolvd/python/info sfiiisffffhhsf "python" 100000.0', dump.stdout.readline())

    @unittest.skipIf(liblo is None, "python3-liblo is not installed")
    def test_liblo_python(self):
        x = signal(60)
        results = self.client()
        results.send("/convolvd/python/subscribe", "s", "results")
        target = liblo.Address("127.0.0.1", self.port)
        for n in range(0, FRAMES, 64):
            liblo.send(target, "/convolvd/python/block", ("h", n // 64), ("h", n), ("b", x[n:n + 64].astype(">f4").tobytes()))
        y, _, _ = gather(results.receive, FRAMES)
        c.assert_within(y, c.convolve(x, TAPS)[:FRAMES], x, TAPS, what="python3-liblo")

    def test_rate(self):
        """A figure: blocks a second through the walker and the ring."""
        client = Tcp(self.tcp)
        self.addCleanup(client.close)
        count = 2000 if c.SANITIZED else 20000
        data = b"".join(struct.pack(">I", len(p)) + p for p in blocks("fast", signal(70, count * 8), size=8))
        begun = time.monotonic()
        client.socket.sendall(data)
        c.wait_for(lambda: self.daemon.stream("fast")["datagrams"]["read"] == count, "all blocks")
        c.note(f"OSC over TCP: {count / (time.monotonic() - begun):.0f} blocks of 8 frames a second")

    def test_gains_leave_a_trace(self):
        """Packets, sidecars and status say from which frame on gains and mutes differ from the configuration,
        and since when they no longer do."""
        with c.temporary() as folder:
            np.save(os.path.join(folder, "one.npy"), TAPS)
            port, tx = c.free_port(), c.free_port()
            text = (f"[osc]\naddress = *:{port}\n[stream s]\nsource = osc\nrate = {RATE} Hz\nchannels = 2\n"
                    f"block = {BLOCK}\nfilter = one\nformat = f32be\n[sink s]\ntype = osc\nstream = s\n"
                    + c.file_filter("one", "one.npy") + c.rtp_sink("out", "s", tx)
                    + f"[sink rec]\ntype = recording\nstream = s\npath = {folder}/rec.wav\n")
            with c.Daemon(folder, text) as daemon, c.Tap(folder, tx, channels=2, rate=RATE) as tap:
                client = Client(port)
                self.addCleanup(client.close)
                results = Client(port)
                self.addCleanup(results.close)
                results.send("/convolvd/s/subscribe", "s", "results")
                self.assertEqual(daemon.stream()["gains"], {"changes": 0, "as_configured": True, "gain_db": [0, 0],
                                                            "muted": [False, False]})
                steps = {1024: [("gain", "fi", -6.0, 1)], 2048: [("mute", "ii", 1, 2)],
                         3072: [("gain", "fi", 0.0, 1), ("mute", "ii", 0, 2)]}
                changes, seen = [], []
                for n, packet in enumerate(blocks("s", signal(60))):
                    for what, *arguments in steps.get(n * 64, ()):
                        c.wait_for(lambda n=n: daemon.stream()["frames_out"]["out"] >= n * 64 - BLOCK, "results")
                        client.send(f"/convolvd/s/{what}", *arguments)
                        got = client.await_("/convolvd/s/changed")
                        changes.append(got[2][1])
                        seen.append(daemon.stream()["gains"])
                    client.raw(packet)
                _, flags, _ = gather(results.receive, FRAMES)
                daemon.stop()
                got = tap.finish(number=2)
            side = c.load_json(os.path.join(folder, "rec.wav.json"))
            differs = np.zeros(FRAMES, dtype=bool)
            differs[changes[0]:changes[3]] = True
            self.assertTrue((flags & 16 != 0)[differs].all())
            self.assertFalse((flags[:changes[0] - BLOCK] & 16).any() or (flags[changes[3] + BLOCK:] & 16).any())
            # Two changes may take effect at one frame; the packets then show the second one alone.
            want = [(frame, number + 1) for number, frame in enumerate(changes) if frame not in changes[number + 1:]]
            self.assertEqual([(g["from"], g["changes"]) for g in got["gains"]], want)
            self.assertEqual([g["differs"] for g in got["gains"]], [g[1] < 4 for g in want])
            self.assertEqual([(g["first_frame"], g["changes"]) for g in side["gains"]], want)
            self.assertAlmostEqual(side["gains"][0]["gain_db"][0], -6, places=4)
            self.assertEqual(side["gains"][1]["muted"], [False, True])
            who = "OSC 127.0.0.1:%d" % client.socket.getsockname()[1]
            self.assertEqual({g["who"] for g in side["gains"]} | {g["who"] for g in seen}, {who})
            for number, (status, frame) in enumerate(zip(seen, changes)):
                self.assertEqual([status["changes"], status["since_frame"], status["since_epoch"]], [number + 1, frame, 0])
                self.assertEqual(status["as_configured"], number == 3)
            self.assertEqual(seen[1]["muted"], [False, True])
            self.assertAlmostEqual(seen[1]["gain_db"][0], -6, places=4)

    def test_page(self):
        """docs/osc.md holds the table that dispatches."""
        table = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--help-osc"], capture_output=True, text=True, check=True).stdout
        with open(os.path.join(c.ROOT, "docs", "osc.md"), encoding="utf-8") as page:
            text_of_page = page.read()
        self.assertIn(table.strip(), text_of_page)
        shown = text_of_page.split("one frame:\n\n```\n")[1].split("```")[0]
        data = bytes.fromhex("".join(line[:48].split("  ")[0] for line in shown.splitlines()))
        self.assertEqual(data, message("/convolvd/rig/block", "hhb", 1, 64, struct.pack(">2f", 0.5, -0.5)))


class Page(unittest.TestCase):
    def test_commands(self):
        """The configuration and every command line of docs/osc.md."""
        with open(os.path.join(c.ROOT, "docs", "osc.md"), encoding="utf-8") as page:
            shown = page.read()
        ports = {"9000": str(c.free_port()), "9001": str(c.free_port())}
        for written, free in ports.items():
            shown = re.sub(rf"\b{written}\b", free, shown)
        config = re.search(r"```ini\n(.*?)```", shown, re.S).group(1)
        commands = [line for block in re.findall(r"```\w*\n(.*?)```", shown, re.S) for line in block.splitlines() if line.startswith("osc")]
        self.assertGreaterEqual(len(commands), 9)
        with c.temporary() as folder, c.Daemon(folder, config) as daemon:
            dump = subprocess.Popen(["stdbuf", "-oL", *commands[0].rstrip(" &").split()], stdout=subprocess.PIPE, text=True)
            try:
                time.sleep(0.5)
                for command in commands[1:]:
                    subprocess.run(command.split(), check=True)
                said = ""
                for wanted in ('/convolvd/list s "rig"', "/convolvd/rig/info sfiiisffffhhs", '/convolvd/streams iis 1 1 "{"ok":true',
                               "/convolvd/status iis 1 ", '/convolvd/rig/changed sh "gain"', "/convolvd/rig/reset-counters iis 1 1",
                               "/convolvd/rig/levels hiffiffi"):
                    while wanted not in said:
                        line = dump.stdout.readline()
                        self.assertTrue(line, said)
                        said += line
                # The stream stands still: a fade goes on when there is something to fade.
                c.wait_for(lambda: daemon.output().count("(asked by OSC 127.0.0.1:") >= 3, "the changes")
            finally:
                dump.kill()
                dump.wait()
                dump.stdout.close()
            daemon.stop()


class Recorded(unittest.TestCase):
    def test_sidecar(self):
        """A recording says which part of it is by which filter, and where it changed."""
        with c.temporary() as folder:
            np.save(os.path.join(folder, "one.npy"), TAPS)
            np.save(os.path.join(folder, "two.npy"), TAPS2)
            port = c.free_port()
            daemon = c.Daemon(folder, f"[osc]\naddress = 127.0.0.1:{port}\n"
                              f"[stream rec]\nsource = osc\nrate = {RATE} Hz\nchannels = 2\nblock = {BLOCK}\nfilter = one\n"
                              "[sink file]\ntype = recording\nstream = rec\npath = out.wav\nformat = f32\n"
                              "[filter one]\ntype = file\npath = one.npy\ndelay = 0\n"
                              "[filter two]\ntype = file\npath = two.npy\ndelay = 0\n")
            client, x = Client(port), signal(80)
            who = "OSC 127.0.0.1:%d" % client.socket.getsockname()[1]
            try:
                for n, packet in enumerate(blocks("rec", x)):
                    if n * 64 == 1024:
                        c.wait_for(lambda: daemon.stream("rec")["frames_out"]["out"] >= 768, "results")
                        client.send("/convolvd/rec/filter", "shs", "two", 1500, "hard")
                        self.assertEqual(client.receive()[2], ["filter", 1500])
                    client.raw(packet)
                c.wait_for(lambda: daemon.stream("rec")["frames_out"]["out"] >= FRAMES, "results")
            finally:
                client.close()
                daemon.stop()
                daemon.kill()
            side = c.load_json(os.path.join(folder, "out.wav.json"))
            one, two = side["filters"]
            self.assertEqual([(f["first_frame"], f["taps_longest"]) for f in side["filters"]], [(0, len(TAPS)), (1500, len(TAPS2))])
            self.assertNotEqual(one["taps_hash"], two["taps_hash"])
            self.assertEqual(side["taps_hash"], one["taps_hash"])
            self.assertEqual([f["who"] for f in side["filters"]], [None, who])
            self.assertIn({"from": 1500, "until": 1501, "cause": "filter change"}, side["invalid"])


class Load(unittest.TestCase):
    def test_too_heavy(self):
        """A filter too heavy for the device is refused with the figure, and everything stays as it was."""
        with c.temporary() as folder:
            np.save(os.path.join(folder, "one.npy"), TAPS)
            np.save(os.path.join(folder, "heavy.npy"), c.random_taps(18, 1 << 17))
            port = c.free_port()
            daemon = c.Daemon(folder, f"[osc]\naddress = 127.0.0.1:{port}\n"
                              "[stream fast]\nsource = osc\nrate = 2 MHz\nchannels = 8\nblock = 32\nfilter = one\n"
                              "[sink fast]\ntype = osc\nstream = fast\n"
                              "[filter one]\ntype = file\npath = one.npy\ndelay = 0\n"
                              "[filter heavy]\ntype = file\npath = heavy.npy\ndelay = 0\n")
            client = Client(port)
            try:
                client.send("/convolvd/fast/filter", "ss", "heavy", "hard")
                address, _, (asked, sentence) = client.await_("/convolvd/error", 5 * c.PATIENCE_S)
                self.assertEqual(asked, "/convolvd/fast/filter")
                figure = re.fullmatch(r"the load would be (\d+) %, more than 90 %; .*", sentence)
                self.assertIsNotNone(figure, sentence)
                self.assertGreater(int(figure.group(1)), 90)
                client.send("/convolvd/fast/gain", "f", 0.0) # goes on from what is in use
                self.assertEqual(client.receive()[::2], ("/convolvd/fast/changed", ["gain", 0]))
                client.send("/convolvd/fast/subscribe", "s", "results")
                x = signal(71, 640, 8)
                for packet in blocks("fast", x, size=32):
                    client.raw(packet)
                y, flags, _ = gather(client.receive, 640, 8)
                c.assert_within(y, c.convolve(x, TAPS)[:640], x, TAPS, what="the filter before")
                self.assertFalse((flags[2 * len(TAPS) + 20:] & 4).any())
                self.assertEqual(daemon.stream("fast")["plan"]["taps"], len(TAPS))
            finally:
                client.close()
                daemon.stop()
                daemon.kill()


if __name__ == "__main__":
    unittest.main()
