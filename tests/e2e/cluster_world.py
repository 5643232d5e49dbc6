"""A gateway, workers and a real NATS server; and LOG held against RAW: each frame once, in order, with the
samples that an undisturbed daemon computes."""
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

import numpy as np

import convolvd as c
import machine
import nats_servers

RATE, CHANNELS, TAPS, HOP = 20000, 2, 301, 256
EPOCH_END = 4  # of a record's flags
KINDS = {1: "take", 2: "data", 3: "change", 4: "beat", 5: "end", 6: "release", 7: "analysis"}
HEADER_BYTES = 200
HEADER = "<IBBHIIQQQQQQQQQQddqqq4B5IIIIIHBBIHHHHII"

GATEWAY = """[cluster]
servers = {urls}
identity = gateway
[stream rig]
source = generator
rate = {rate} Hz
channels = {channels}
waveform = noise
block = {hop}
filter = through
[filter through]
type = identity
[sink raw]
type = nats
stream = rig
partition = rig
record = input
"""

# The same for a rig that sends RTP to {port}.
GATEWAY_RTP = GATEWAY.replace("source = generator", "source = rtp\naddress = 127.0.0.1:{port}\nformat = f32") \
    .replace("waveform = noise\n", "")

WORKER = """[cluster]
servers = {urls}
identity = {name}
[stream rig]
source = nats
partition = rig
rate = {rate} Hz
channels = {channels}
format = {format}
block = {hop}
filter = f
[filter f]
type = file
path = {folder}/f.npy
[sink log]
type = nats
stream = rig
partition = rig
"""


class Record:
    """A record as its bytes say; samples are the last of them."""

    def __init__(self, sequence, data):
        (_, _, kind, self.channels, self.flags, _, self.term, self.owner, self.epoch, _, self.first_missing,
         self.first, self.next, *_rest) = struct.unpack_from(HEADER, data)
        self.sequence, self.kind = sequence, KINDS[kind]
        fields = struct.unpack_from(HEADER, data)
        self.capture_ns, self.appended_ns, self.sample_bytes = fields[18], fields[20], fields[22]
        self.type = ">f4" if fields[24] & 1 else "<f4"
        self.chain_before, self.chain, self.ssrc, self.timestamp = fields[30:34]
        self.frames = self.next - self.first if self.kind == "data" else 0
        header = HEADER_BYTES if data[4] == 1 else HEADER_BYTES + 16
        self.ranges = [struct.unpack_from("<QQBB6x", data, header + 24 * i) for i in range(fields[-1])]
        self.checkpoint, analysis = struct.unpack_from("<QI", data, HEADER_BYTES) if data[4] == 2 else (0, 0)
        self.analysis = data[len(data) - analysis:] if analysis else b""
        size = self.frames * self.channels * self.sample_bytes
        self.samples = data[len(data) - size:] if size else b""


def wait_value(get, what, seconds=c.PATIENCE_S):
    """What `get` returns once it is something."""
    until = time.monotonic() + seconds
    while True:
        got = get()
        if got:
            return got
        assert time.monotonic() < until, f"waited in vain for {what}"
        time.sleep(0.02)


class Cluster(unittest.TestCase):
    """A server, daemons, and what LOG is held against."""
    partition_name = "rig"

    def setUp(self):
        self.watch = machine.Watch()
        self.addCleanup(self.watch.end)
        self.folder = c.temporary()
        self.addCleanup(self.folder.cleanup)
        self.taps = c.random_taps(7, TAPS)
        np.save(f"{self.folder.name}/f.npy", self.taps)
        self.daemons = {}
        self.addCleanup(self.kill_all)

    def kill_all(self):
        for daemon in self.daemons.values():
            if daemon.process.poll() is None:
                daemon.process.send_signal(signal.SIGCONT)
                daemon.kill()

    def server(self, count=1, **more):
        servers = nats_servers.Servers(count, **more)
        servers.__enter__()
        self.addCleanup(servers.__exit__)
        self.servers = servers
        return servers

    def start(self, name, text, sample_format="f32le", port=0, before=None):
        if c.SANITIZED and "\nlease = " not in text:  # a server that a slow owner has not reached in time is right to give up on it
            text = text.replace("[cluster]\n", "[cluster]\nlease = 3 s\n")
        folder = f"{self.folder.name}/{name}"
        os.makedirs(folder, exist_ok=True)
        self.daemons[name] = c.Daemon(folder, text.format(urls=self.servers.urls, rate=RATE, channels=CHANNELS, hop=HOP,
                                                          name=name, folder=self.folder.name, format=sample_format, port=port),
                                      before=before)
        return self.daemons[name]

    def ctl(self, name, *words):
        """convolvctl at the daemon of this name."""
        return subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--socket", os.path.join(self.folder.name, name, "control.sock"),
                               *map(str, words)], capture_output=True, text=True, timeout=30, check=False)

    def client(self):
        """Of the first server that runs."""
        running = next(server for server in self.servers.all if server.process.poll() is None)
        return nats_servers.Client(running.port, host=running.host)

    def records(self, kind, first=1):
        with self.client() as client:
            stream = f"convolvd:{self.partition_name}:{kind}"
            # A server that was leader until a moment ago still answers, and has not all of it.
            last = wait_value(lambda: client.state(stream), f"the state of {stream}")["last_seq"]
            return [Record(n, wait_value(lambda n=n: client.message(stream, n), f"message {n} of {stream}"))
                    for n in range(first, last + 1)]

    def newest(self, kind="log"):
        with self.client() as client:
            state = client.state(f"convolvd:{self.partition_name}:{kind}")
            if not state or not state["last_seq"]:
                return None
            data = client.message(f"convolvd:{self.partition_name}:{kind}", state["last_seq"])
            return Record(state["last_seq"], data) if data else None  # no leader answers

    def server_forgets(self, seconds):
        """The one server comes back with what it had so long before; returns how far LOG had got meanwhile."""
        store = f"{self.servers.folder}/s0"
        self.servers[0].signal(signal.SIGTERM)
        shutil.copytree(store, f"{store}.before")
        self.servers[0].start()
        self.wait_frames(0, more=seconds * RATE)
        ahead = self.newest().next
        self.event_ns = time.time_ns()
        self.servers[0].kill()
        shutil.rmtree(store)
        os.rename(f"{store}.before", store)
        self.servers[0].start()
        return ahead

    def wait_frames(self, frames, more=0, epoch=None):
        """Until LOG has got so far; returns the newest record."""
        want = frames if more == 0 else wait_value(self.newest, "the newest record of LOG").next + more

        def there():
            newest = self.newest()
            return newest if newest and newest.next >= want and newest.kind != "take" else None
        return wait_value(there, f"frame {want} of LOG")

    def owner(self):
        """The worker that owns LOG now, by what the workers' logs say last."""
        def now():
            for name, daemon in self.daemons.items():
                said = [line for line in daemon.output().splitlines() if "the log of partition rig" in line]
                if daemon.process.poll() is None and said and "from term" in said[-1]:
                    return name
            return None
        return wait_value(now, "an owner")

    def signal_of(self, records):
        """[epoch] → the samples of RAW."""
        epochs = {}
        for record in records:
            if record.kind != "data":
                continue
            parts = epochs.setdefault(record.epoch, [])
            self.assertEqual(record.first_missing, sum(len(part) for part in parts), "RAW has a hole")
            absent = record.first - record.first_missing
            self.assertEqual(absent, sum(until - start for start, until, _, absent in record.ranges if absent & 1),
                             "frames are missing that no range declares")
            parts.append(np.zeros((absent, record.channels)))
            parts.append(np.frombuffer(record.samples, record.type).reshape(-1, record.channels))
        return {epoch: np.concatenate(parts).astype(float) for epoch, parts in epochs.items()}

    def hold(self):
        """Lost, doubled and wrong frames of LOG, against the definition; they are none. Returns its records."""
        log = self.records("log")
        raw = self.signal_of(self.records("raw"))
        at, parts, owner, chain = (0, 0), {}, None, 0
        for record in log:
            self.assertEqual(record.chain_before, chain, f"record {record.sequence}: another chain")
            chain = record.chain
            if record.kind == "take":
                owner = (record.term, record.owner)
            self.assertEqual((record.term, record.owner), owner, f"record {record.sequence} of another term")
            if record.kind == "data":
                if record.epoch != at[0]:
                    at = (record.epoch, 0)
                self.assertEqual(record.first_missing, at[1], f"record {record.sequence}: not behind the one before")
                self.assertEqual(record.first, record.first_missing, f"record {record.sequence}: frames are lost")
                at = (record.epoch, record.next)
                parts.setdefault(record.epoch, []).append(np.frombuffer(record.samples, "<f4").reshape(-1, CHANNELS))
        for epoch, pieces in parts.items():
            got, x = np.concatenate(pieces), raw[epoch]
            x = np.vstack([x, np.zeros((max(0, len(got) - len(x)), CHANNELS))])[:len(got)]
            c.assert_within(got, c.convolve(x, self.taps)[:len(got)], x, self.taps, what=f"epoch {epoch}")
        return log

    def compare_with_an_undisturbed_run(self, log, text=WORKER):
        """One worker computes LOG anew from the same RAW: the same bytes."""
        workers = [self.daemons.pop(name) for name in list(self.daemons) if name != "gateway"]
        # Whoever follows goes first: it would take the partition from one that is stopped.
        for follows in (True, False):
            for worker in [worker for worker in workers if worker.process.poll() is None]:
                if (worker.stream("rig")["sinks"][0]["partition"]["state"] == "follows") == follows:
                    worker.stop()
        with self.client() as client:
            client.api("STREAM.DELETE.convolvd:rig:log", {})
        self.start("alone", text)
        end = log[-1].next
        self.wait_frames(end)

        def samples(records):
            return b"".join(record.samples for record in records)[:end * CHANNELS * 4]
        self.assertEqual(samples(self.records("log")), samples(log), "not to the bit")

    def end_of_input(self):
        """Stops the gateway: RAW tells that its epoch has ended, and LOG gets the last frames, tail included. Returns
        LOG's records."""
        gateway = self.daemons.pop("gateway")
        gateway.stop()
        raw = [record for record in self.records("raw") if record.kind == "data"][-1]

        def ended():
            newest = self.newest()
            return newest.epoch == raw.epoch and newest.next == raw.next + TAPS - 1
        wait_value(ended, f"the tail of epoch {raw.epoch}, behind frame {raw.next}")
        log = self.hold()
        last = [record for record in log if record.kind == "data"][-1]
        self.assertTrue(last.flags & EPOCH_END)
        return log

    def standstills(self, log):
        """The times between two records of data with a take between them."""
        times, last, taken = [], None, False
        for record in log:
            taken = taken or record.kind == "take"
            if record.kind == "data":
                if taken and last is not None:
                    times.append((record.appended_ns - last) / 1e9)
                last, taken = record.appended_ns, False
        return times

    def standstill(self, log):
        return max(self.standstills(log), default=0)

    def hold_bar(self, still, bar):
        """A standstill is at most `bar` seconds, without what the machine took from every program meanwhile. A sanitized build is
        so much slower that the bar is four times as long, as its patience is."""
        took = self.watch.most(still)
        self.assertLess(still - took, 4 * bar if c.SANITIZED else bar, f"without {took:.2f} s that the machine took")

    def still_since(self, log, event_ns, what, bar, forgot=False):
        """The longest time between two records of which the later one came after the event: prints and bounds it.
        `forgot`: the log lacks what it had until the event."""
        times = [record.appended_ns for record in log if record.kind == "data"]
        if forgot:
            times = [event_ns] + [at for at in times if at > event_ns]
        still = max((after - before for before, after in zip(times, times[1:]) if after > event_ns), default=0) / 1e9
        c.note(f"{os.path.basename(sys.argv[0]).removesuffix('.py')}: {what}: standstill {still:.2f} s")
        self.hold_bar(still, bar)
        return still

    def begin(self, workers=("a", "b"), text=WORKER, gateway=GATEWAY):
        self.server()
        self.start("gateway", gateway)
        for name in workers:
            self.start(name, text)
        self.wait_frames(RATE // 2)

    def kill_owners(self, times):
        for _ in range(times):
            name = self.owner()
            self.daemons[name].process.kill()
            self.daemons[name].process.wait()
            self.wait_frames(0, more=RATE // 2)
            self.start(name, WORKER)
