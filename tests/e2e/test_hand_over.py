#!/usr/bin/python3
# parallel: yes
# threads: yes
# takes: 2 s CPU in 6 s
"""A restart goes on in the middle of the epoch: SIGUSR2 makes the daemon hand its streams over through the
service manager's descriptor store, and the next one continues them, without settling. The manager here is
the test's own; test_systemd.py has the real one."""
import array
import fcntl
import os
import signal
import socket
import struct
import tempfile
import threading
import time
import unittest

import numpy as np

import convolvd as c
import machine

RATE = 48000
TAPS = 129
PACKET = 100


# Passes descriptors as systemd does, from 3 on, with their names.
START = """#!/usr/bin/python3
import fcntl, os, sys
kept = {kept}
high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 100) for _, fd in kept]
for _, fd in kept:
    os.close(fd)
for number, fd in enumerate(high):
    os.dup2(fd, 3 + number)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=str(len(kept)), LISTEN_FDNAMES=":".join(name for name, _ in kept))
os.execv("{program}", ["{program}", *sys.argv[1:]])
"""


class Manager:
    """A service manager with a descriptor store: [(name, descriptor)]. `reads`: whether it takes messages."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(0.05)
        self.store = []
        self.said = []
        self.reads = threading.Event()
        self.reads.set()
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        while self.reads.wait():
            try:
                text, control, _, _ = self.socket.recvmsg(65536, socket.CMSG_SPACE(4))
            except TimeoutError:
                continue
            except OSError:
                return
            lines = dict(line.split("=", 1) for line in text.decode().splitlines())
            for level, kind, data in control:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS) and lines.get("FDSTORE") == "1":
                    self.store.append((lines["FDNAME"], array.array("i", data[:4])[0]))
            if lines.get("FDSTOREREMOVE") == "1":
                self.forget(lines["FDNAME"])
            self.said.append(lines)

    def deaf(self):
        """Reads no more, and fills its own queue."""
        self.reads.clear()
        time.sleep(0.1)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.connect(self.path)
            try:
                while True:
                    sender.send(b"X=1")
            except BlockingIOError:
                pass

    def close(self):
        self.reads.set()
        self.socket.close()
        self.forget()

    def forget(self, name=None):
        for kept, fd in self.store:
            if name in (None, kept):
                os.close(fd)
        self.store = [(kept, fd) for kept, fd in self.store if name not in (None, kept)]

    def state(self):
        return next((fd for name, fd in self.store if name == "convolvd-state"), None)


def start(folder, config, manager, more=None, program="convolvd"):
    """A daemon with what the manager's store holds, if anything. `more`: of its environment."""
    environment, kept = {"NOTIFY_SOCKET": manager.path, **(more or {})}, list(manager.store)
    if not kept:
        return c.Daemon(folder, config, environment=environment, program=program)
    program = f"{folder}/start.py"
    with open(program, "w", encoding="utf-8") as file:
        file.write(START.format(kept=kept, program=f"{c.BUILD}/convolvd"))
    os.chmod(program, 0o755)
    daemon = c.Daemon(folder, config, program=program, environment=environment, descriptors=[fd for _, fd in kept])
    c.wait_for(lambda: not manager.store, "an empty store")
    return daemon


class HandOver(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.state = f"{self.folder}/state"
        os.mkdir(self.state)
        self.ports = {name: c.free_port() for name in ("in", "out", "chain")}
        self.sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(self.sender.close)
        self.manager = Manager(self.folder)
        self.addCleanup(self.manager.close)
        self.taps = c.random_taps(1, TAPS)
        np.save(f"{self.folder}/f.npy", self.taps)
        self.codes = c.noise_codes(9, 200 * PACKET, 1)
        self.sent = self.skipped = 0

    def config(self, extra="", gain=1, host="127.0.0.1"):
        return f"[daemon]\nstate directory = {self.state}\n[device]\ndevice = {c.DEVICE}\n" \
               f"[stream a]\nsource = rtp\naddress = {host}:{self.ports['in']}\nrate = {RATE} Hz\nchannels = 1\n" \
               f"format = s16be\nfull scale = {gain}\nblock = 256\nfilter = f\n{extra}" \
               f"[stream b]\nsource = stream a\nblock = 64\ndecimate = 3\nfilter = f\n" \
               + c.file_filter("f", f"{self.folder}/f.npy") + c.rtp_sink("out", "a", self.ports["out"]) \
               + c.rtp_sink("chain", "b", self.ports["chain"])

    def send(self, packets):
        for _ in range(packets):
            codes = self.codes[self.sent * PACKET:(self.sent + 1) * PACKET]
            number = self.sent + self.skipped
            self.sender.sendto(struct.pack(">BBHII", 0x80, 96, (65500 + number) % 65536, 7 + number * PACKET, 0xC0FFEE)
                               + codes.astype(">i2").tobytes(), ("127.0.0.1", self.ports["in"]))
            self.sent += 1

    def daemon(self, config, more=None, program="convolvd"):
        return start(self.folder, config, self.manager, more, program)

    def taken(self, daemon):
        c.wait_for(lambda: daemon.stream("a")["frames_in"]["received"] >= self.sent * PACKET, "the packets")

    def hand_over(self, daemon):
        status = daemon.stop(signal.SIGUSR2)
        c.wait_for(lambda: self.manager.state() is not None, "the state")
        self.assertIn("2 streams handed over", daemon.output())
        return status

    def results(self, packets, frames):
        """Samples and flags of one epoch, each frame once."""
        self.assertEqual({p[3] for p in packets}, {0})
        self.assertEqual(len({p[2] for p in packets}), 1)
        got, flagged, seen = np.full(frames, np.nan), np.zeros(frames, int), np.zeros(frames, int)
        for before, after in zip(packets, packets[1:]):
            self.assertEqual((before[0] + 1) % 65536, after[0])
            self.assertEqual((after[1] - before[1]) % 2**32, before[5])
        for _, _, _, _, first, count, causes, (start, until), payload in packets:
            got[first:first + count] = np.frombuffer(payload, ">f4")
            seen[first:first + count] += 1
            flagged[first + start:first + until] |= causes
        self.assertTrue((seen == 1).all(), "a frame is missing, or came twice")
        return got, flagged

    def test_restarts_do_not_settle(self):
        out, chain = c.Results(self.ports["out"]), c.Results(self.ports["chain"])
        for packets in (61, 1, 50, 88):  # inside blocks, and one between two whole blocks
            with self.daemon(self.config()) as daemon:
                self.send(packets)
                self.taken(daemon)
                if self.sent < 200:
                    self.hand_over(daemon)
                    continue
                status = daemon.stop()
        frames = 200 * PACKET
        got, flagged = self.results(out.finish(), frames + TAPS - 1)
        x = self.codes / 32768
        c.assert_within(got[:, None], c.convolve(x, self.taps), x, self.taps)
        self.assertEqual([(i.start, i.stop) for i in self.spans(flagged)], [(0, TAPS - 1), (frames, frames + TAPS - 1)])
        twice = -(-(frames + 2 * (TAPS - 1)) // 3)
        _, flagged = self.results(chain.finish(), twice)
        self.assertEqual(sum(flagged[(2 * TAPS) // 3 + 1:frames // 3] != 0), 0)
        a = status["streams"][0]
        self.assertEqual(a["epochs"], 1)
        self.assertEqual(a["datagrams"]["read"], 200)
        self.assertEqual(a["frames_in"]["received"], frames)
        self.assertEqual(a["frames_out"]["out"], frames + TAPS - 1)

    @staticmethod
    def spans(flagged):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], flagged != 0, [0]))))
        return [slice(a, b) for a, b in zip(edges[::2], edges[1::2])]

    def test_what_differs_begins_a_new_epoch(self):
        """Another calibration, another filter, no state, a damaged one: the next epoch, and the log says why."""
        def damaged(number):
            data = bytearray(os.pread(self.manager.state(), 1 << 20, 0))
            data[number] ^= 1
            self.manager.forget()
            self.manager.store = [("convolvd-state", os.memfd_create("convolvd-state", os.MFD_ALLOW_SEALING))]
            os.write(self.manager.state(), data)
            sealed = 0x1 | 0x2 | 0x4 | 0x8  # F_SEAL_SEAL, SHRINK, GROW, WRITE
            if number >= 0:
                fcntl.fcntl(self.manager.state(), 1033, sealed)
        cases = [("its filters, gains or calibration differ", lambda: {"gain": 2}),
                 ("it is damaged", lambda: damaged(900) or {}),
                 ("is version 1", lambda: damaged(4) or {}),
                 ("no memory file", lambda: damaged(-1) or {}),
                 ("its filters, gains or calibration differ", lambda: {"extra": "decimate = 2\n"})]
        for number, (why, change) in enumerate(cases):
            with self.subTest(why):
                self.sent = 0
                with self.daemon(self.config()) as daemon:
                    self.send(30)
                    self.taken(daemon)
                    before = daemon.stream("a")["epochs"]
                    self.hand_over(daemon)
                with self.daemon(self.config(**change())) as daemon:
                    self.assertTrue(daemon.said(why), daemon.output())
                    self.assertTrue(daemon.said("new epoch"), daemon.output())
                    self.send(30)
                    c.wait_for(lambda: daemon.stream("a")["frames_in"]["received"] >= 29 * PACKET, "the packets")
                    self.assertEqual(daemon.stream("a")["epochs"], before + 1)
                    daemon.stop()
                self.manager.forget()

    def test_a_reload_goes_on_where_the_filter_stays(self):
        out = c.Results(self.ports["out"])
        with c.Daemon(self.folder, self.config()) as daemon:
            for number, extra in enumerate(("idle flush = 10 s\n", "idle flush = 20 s\n", "")):
                self.send(37)
                self.taken(daemon)
                with open(daemon.path, "w", encoding="utf-8") as file:
                    file.write(self.config(extra))
                daemon.signal(signal.SIGHUP)
                self.send(12)  # while it reloads
                c.wait_for(lambda: daemon.output().count("reloaded: ") > number, "the reload")
            self.send(200 - self.sent)
            self.taken(daemon)
            status = daemon.stop()
        self.assertNotIn("new epoch:", daemon.output())
        frames = 200 * PACKET
        got, flagged = self.results(out.finish(), frames + TAPS - 1)
        x = self.codes / 32768
        c.assert_within(got[:, None], c.convolve(x, self.taps), x, self.taps)
        self.assertEqual([(i.start, i.stop) for i in self.spans(flagged)], [(0, TAPS - 1), (frames, frames + TAPS - 1)])
        self.assertEqual(status["streams"][0]["frames_in"]["received"], frames)

    HOSTS = ("127.0.0.1", "*", "127.0.0.1", "0.0.0.0", "*")  # each overlaps the one before

    def test_a_reload_to_an_address_that_overlaps(self):
        with c.Daemon(self.folder, self.config(host=self.HOSTS[0])) as daemon:
            for number, host in enumerate(self.HOSTS[1:]):
                self.send(20)
                self.taken(daemon)
                with open(daemon.path, "w", encoding="utf-8") as file:
                    file.write(self.config(host=host))
                daemon.signal(signal.SIGHUP)
                self.send(20)  # while it reloads
                c.wait_for(lambda: daemon.output().count("reloaded: ") > number, "the reload")
            self.send(10)
            self.taken(daemon)
            status = daemon.stop()
        self.assertEqual(status["streams"][0]["frames_in"]["gap"].get("network", 0), 0)
        self.assertEqual(status["streams"][0]["frames_in"]["received"], self.sent * PACKET)

    def test_a_restart_at_an_address_that_overlaps(self):
        for number, host in enumerate(self.HOSTS):
            with self.daemon(self.config(host=host)) as daemon:
                self.send(20)
                c.wait_for(lambda: daemon.stream("a")["datagrams"]["read"] >= 20 * (number + 1), "the packets")
                self.hand_over(daemon)

    def test_a_reload_to_an_address_of_another_program(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as foreign, \
                c.Daemon(self.folder, self.config()) as daemon:
            foreign.bind(("127.0.0.3", self.ports["in"]))
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(self.config(host="*"))
            daemon.signal(signal.SIGHUP)
            c.wait_for(lambda: daemon.said("in use by another program"), "the refusal")
            self.send(20)
            self.taken(daemon)
            self.assertEqual(daemon.stop()["streams"][0]["epochs"], 1)

    def test_a_stop_while_a_reload_hands_over(self):
        """The old stream still computes, the new one has nothing yet: what is stored is the further of both, and no
        epoch, frame or packet number is used again."""
        for number, filters in ((signal.SIGTERM, 1), (signal.SIGUSR2, 1), (signal.SIGUSR2, 2)):
            with self.subTest(number=number, filters=filters):
                self.stop_within_a_reload(number, filters)

    def stop_within_a_reload(self, number, filters):
        self.sent = self.skipped = 0
        np.save(f"{self.folder}/f.npy", self.taps)
        self.ports["out"], self.ports["chain"] = c.free_port(), c.free_port()
        self.state = tempfile.mkdtemp(dir=self.folder)
        config = self.config()
        out, chain = c.Results(self.ports["out"]), c.Results(self.ports["chain"])
        with self.daemon(config, program="convolvd-test") as daemon:
            for epoch in range(3):
                self.skipped = 10000 * epoch  # the next packet begins an epoch
                self.send(30)
            c.wait_for(lambda: daemon.stream("a")["epochs"] == 3, "three epochs")
            daemon.signal(c.WEDGES["state"])
            np.save(f"{self.folder}/f.npy", c.random_taps(filters, TAPS))
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(config.replace("block = 256", "block = 256\ndeadline = 60 ms"))
            daemon.signal(signal.SIGHUP)
            c.wait_for(lambda: daemon.stream("a")["frames_in"]["received"] == 0, "the new stream in the status")
            daemon.signal(number)
            c.wait_for(lambda: daemon.said("stopping"), "the stop")
            daemon.signal(c.UNWEDGE)
            self.assertEqual(daemon.wait(), 0, daemon.output())
            first = daemon.output()
        self.assertEqual(c.load_json(f"{self.state}/streams.json")["streams"][0]["next epoch"], 3)
        with self.daemon(config) as daemon:
            self.send(30)
            c.wait_for(lambda: daemon.stream("a")["frames_in"]["received"] > 0, "the packets")
            daemon.stop()
        out, chain = out.finish(), chain.finish()
        late = "its state cannot be carried over" in first  # where the machine stood still meanwhile
        if number == signal.SIGUSR2 and filters == 1 and not late:
            self.assertEqual(out[-1][3], 2, "the epoch did not go on")
        for packets in (out, chain):
            frames = [(p[3], p[4] + n) for p in packets for n in range(p[5])]
            self.assertEqual(len(frames), len(set(frames)), "frames were used twice")
            self.assertEqual(frames, sorted(frames))
            for before, after in zip(packets, packets[1:]):
                self.assertEqual((before[0] + 1) % 65536, after[0])
                self.assertEqual(before[2], after[2])
                self.assertLess((after[1] - before[1]) % 2**32, 2**31)

    def test_a_stop_while_a_reload_prepares(self):
        """SIGUSR2 hands over what runs, whatever a reload is preparing."""
        with self.daemon(self.config(), program="convolvd-test") as daemon:
            self.send(30)
            self.taken(daemon)
            daemon.signal(c.WEDGES["plan"])
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(self.config("deadline = 60 ms\n"))
            daemon.signal(signal.SIGHUP)
            c.wait_for(lambda: daemon.said("again"), "the reload")
            daemon.signal(signal.SIGUSR2)
            c.wait_for(lambda: self.manager.state() is not None, "the state")
            daemon.signal(c.UNWEDGE)
            daemon.wait()
            self.assertTrue(daemon.said("2 streams handed over"), daemon.output())
        with self.daemon(self.config()) as daemon:
            self.send(30)
            self.taken(daemon)
            self.assertEqual(daemon.stop()["streams"][0]["epochs"], 1)

    def test_a_recording_whose_disk_hangs(self):
        """The next daemon's recording names the frames that were not written in time."""
        record = f"[sink rec]\ntype = recording\nstream = a\npath = {self.folder}/o.wav\nmin free = 0\n"
        config = self.config().replace("[daemon]\n", "[daemon]\ndrain timeout = 2 s\n") + record
        with self.daemon(config, program="convolvd-test") as daemon:
            self.send(30)
            self.taken(daemon)
            c.wait_for(lambda: os.path.exists(f"{self.folder}/o.wav.json") and
                       c.load_json(f"{self.folder}/o.wav.json")["frames"] >= 11 * 256, "a file")
            daemon.signal(c.WEDGES["writer"])
            self.send(40)
            self.taken(daemon)
            c.wait_for(lambda: self.sink(daemon, "rec")["pending"] >= 15 * 256, "frames that wait")
            daemon.signal(signal.SIGUSR2)
            daemon.wait()
            self.assertTrue(daemon.said("frames were not delivered in time"), daemon.output())
        with self.daemon(config) as daemon:
            self.assertTrue(daemon.said("goes on where the daemon before stopped"), daemon.output())
            self.send(30)
            self.taken(daemon)
            status = daemon.stop()
        rec = next(s for s in status["streams"][0]["sinks"] if s["name"] == "rec")
        held = np.zeros(rec["frames"], int)
        for name in sorted(os.listdir(self.folder)):
            if not name.endswith(".wav.json"):
                continue
            sidecar = c.load_json(f"{self.folder}/{name}")
            held[sidecar["first_frame"]:sidecar["first_frame"] + sidecar["frames"]] += 1
            for lost in sidecar["missing_before"]:
                held[lost["from"]:lost["until"]] += 1
        self.assertEqual(set(held), {1}, f"{c.runs(held != 1)} of {len(held)} frames are in no file and not named")
        self.assertEqual(rec["dropped"]["stopped"] + rec["delivered"], rec["frames"])
        self.assertGreaterEqual(rec["dropped"]["stopped"], 15 * 256)

    @staticmethod
    def sink(daemon, name):
        return next(s for s in daemon.stream("a")["sinks"] if s["name"] == name)

    def test_datagrams_wait_between_two_daemons(self):
        """The sockets are handed over too: what comes while no daemon runs is read by the next one, and what does
        not fit is counted, also where no sequence number tells."""
        port = c.free_port()
        plain = f"[stream u]\nsource = udp\naddress = 127.0.0.1:{port}\nrate = {RATE} Hz\nchannels = 1\nformat = s16le\n" \
                "receive buffer = 16 KiB\nblock = 64\nfilter = f\n"

        def plainly(datagrams):
            for _ in range(datagrams):
                self.sender.sendto(bytes(2 * PACKET), ("127.0.0.1", port))
        with self.daemon(self.config(plain)) as daemon:
            self.send(30)
            plainly(20)
            self.taken(daemon)
            c.wait_for(lambda: daemon.stream("u")["frames_in"]["received"] == 20 * PACKET, "the datagrams")
            daemon.stop(signal.SIGUSR2)
            c.wait_for(lambda: len(self.manager.store) == 3, "the state and two sockets")
        self.send(40)
        plainly(300)
        with self.daemon(self.config(plain)) as daemon:
            self.assertTrue(daemon.said("goes on where the daemon before stopped"), daemon.output())
            self.send(10)
            self.taken(daemon)
            status = daemon.stop()
        a, u = status["streams"][0], next(s for s in status["streams"] if s["name"] == "u")
        self.assertEqual((a["epochs"], a["frames_in"]["received"]), (1, 80 * PACKET))
        self.assertEqual(u["datagrams"]["read"] + u["datagrams"]["kernel_drops"], 320, u)
        self.assertGreater(u["datagrams"]["kernel_drops"], 0)

    def test_a_socket_that_nobody_reads_is_closed(self):
        with self.daemon(self.config()) as daemon:
            self.hand_over(daemon)
            c.wait_for(lambda: len(self.manager.store) == 2, "the state and the socket")
        old, self.ports["in"] = self.ports["in"], c.free_port()
        with self.daemon(self.config()) as daemon:
            self.assertTrue(daemon.said(f"the socket 127.0.0.1:{old} of the daemon before is closed"), daemon.output())
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
                free.bind(("127.0.0.1", old))
            daemon.stop()

    def test_a_manager_that_reads_late_or_never(self):
        """The loop does not wait for it, and after half of `drain timeout` the epochs end."""
        config = self.config().replace("[daemon]\n", "[daemon]\ndrain timeout = 4 s\n")
        for reads in (True, False):
            with self.subTest(reads=reads), self.daemon(config) as daemon:
                self.sent = 0
                self.send(30)
                self.taken(daemon)
                self.manager.deaf()
                began, watch = time.monotonic(), machine.Watch()
                daemon.signal(signal.SIGUSR2)
                self.assertEqual(daemon.stream("a")["frames_in"]["received"], 30 * PACKET)  # it answers
                if reads:
                    time.sleep(0.5)
                    self.manager.reads.set()
                self.assertEqual(daemon.wait(), 0, daemon.output())
                ended = time.monotonic()
                watch.end()
                if reads:
                    self.assertIn("2 streams handed over", daemon.output())
                else:
                    self.assertIn("systemd does not read what the streams hand over", daemon.output())
                    took = ended - began
                    self.assertLess(took - watch.most(took), 4)
                    self.assertEqual(c.load_json(daemon.status_path)["streams"][0]["frames_out"]["out"],
                                     30 * PACKET + TAPS - 1)
                self.manager.reads.set()
                time.sleep(0.2)
                self.manager.forget()

    def test_without_a_manager_it_stops(self):
        with c.Daemon(self.folder, self.config(), environment={"NOTIFY_SOCKET": ""}) as daemon:
            self.send(30)
            self.taken(daemon)
            self.assertEqual(daemon.stop(signal.SIGUSR2)["streams"][0]["frames_out"]["out"], 30 * PACKET + TAPS - 1)


if __name__ == "__main__":
    unittest.main()
