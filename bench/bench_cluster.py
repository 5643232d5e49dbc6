#!/usr/bin/python3
"""A worker between its two logs on a real NATS server, beside a bare reader and publisher between two such logs
(bench/echo_nats.c: the same messages, nothing computed), in turns on the same server.

    bench/bench_cluster.py [--build build/gcc] [--rounds 5] [--seconds 4] [--quick] [--csv FILE]

Rate: a gateway fills RAW (R1 in memory, records of 64 KiB); then worker and peer in turns copy all of it, as fast as
they can, into an empty log. Delay: a gateway appends 32 MB/s, and a worker and then the peer follow it; from when
the server stored a record of RAW until it stored the one that the last of its frames is in. All times are the
server's own. Prints a line a round, then medians with their bars: the rate at least 0.6 of the peer's, the median
delay at most 1 ms above the peer's. Results are held against numpy in double; that log has every frame, in order. Ends with 1 when a bar is not
met or a result is wrong. --csv appends the medians for bench/check.py.
"""
import argparse
import datetime
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "e2e"))

import convolvd as c
import nats_servers
from cluster_world import Record
from rows import append

RATE_BAR, DELAY_BAR_MS = 0.6, 1.0
TAPS, BLOCK = 301, 2048
RATE_HZ = 1_000_000
FAST, PACED = 32, 8  # channels of float32: 128 and 32 MB/s
RAW, LOG, COPY, RAW_SUBJECT = "convolvd:rig:raw", "convolvd:rig:log", "copy", "convolvd.convolvd.rig.raw"
SAMPLES = 400  # records whose delay is looked up

BOTH = """[cluster]
servers = {url}
identity = {name}
[stream rig]
rate = 1 MHz
channels = {channels}
block = {block} frames
"""
KEEP = "type = nats\nstream = rig\npartition = rig\nstorage = memory\nwindow = 3600 s\n"
GATEWAY = BOTH + "source = generator\nwaveform = sine\nfrequency = 50 kHz\nchannel phase = 5 deg\nfilter = through\n" \
    "[filter through]\ntype = identity\n[sink raw]\n" + KEEP + "record = input\n"
WORKER = BOTH + "source = nats\npartition = rig\nformat = f32le\nfilter = f\n" \
    "[filter f]\ntype = file\npath = {folder}/f.npy\n[sink log]\n" + KEEP


def stored_ns(message):
    """When the server stored a message, as STREAM.MSG.GET says."""
    whole, fraction = re.fullmatch(r"(.*?)(?:\.(\d+))?Z", message["time"]).groups()
    seconds = datetime.datetime.fromisoformat(whole + "+00:00").timestamp()
    return int(seconds) * 10**9 + int((fraction or "0").ljust(9, "0"))


class Bench:
    def __init__(self, folder, server, arguments):
        self.folder, self.server, self.arguments = folder, server, arguments
        self.client = nats_servers.Client(server.port)
        self.taps = c.random_taps(7, TAPS)
        np.save(f"{folder}/f.npy", self.taps)
        self.wrong = False

    def start(self, name, text, channels):
        path = f"{self.folder}/{name}-{time.monotonic_ns()}"
        os.mkdir(path)
        return c.Daemon(path, text.format(url=self.server.url, name=name, channels=channels, block=BLOCK, folder=self.folder))

    def echo(self):
        program = subprocess.Popen([os.path.join(self.arguments.build, "bench", "echo_nats"), self.server.url,
                                    RAW_SUBJECT, "bench.copy"], stdout=subprocess.PIPE)
        if program.stdout.readline() != b"ready\n":
            raise RuntimeError("echo_nats did not start")
        return program

    def state(self, stream):
        return self.client.state(stream) or {"messages": 0, "last_seq": 0}

    def message(self, stream, sequence):
        return self.client.api(f"STREAM.MSG.GET.{stream}", {"seq": sequence})["message"]

    def record(self, stream, sequence):
        return Record(sequence, self.client.message(stream, sequence))

    def delete(self, *streams):
        for stream in streams:
            self.client.api(f"STREAM.DELETE.{stream}", {})

    def wait(self, condition, what, seconds=30):
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                raise RuntimeError(f"waited in vain for {what() if callable(what) else what}")
            time.sleep(0.05)

    def newest(self, stream):
        last = self.state(stream)["last_seq"]
        return self.record(stream, last) if last else None

    def data(self, stream, backwards=False):
        """The first record of samples, or the last."""
        last = self.state(stream)["last_seq"]
        return next(record for record in (self.record(stream, n) for n in (range(last, 0, -1) if backwards else range(1, last + 1)))
                    if record.frames > 0)

    # ---- rate ---------------------------------------------------------------------------------

    def fill(self):
        gateway = self.start("gateway", GATEWAY, FAST)
        time.sleep(self.arguments.seconds)
        gateway.stop()
        return self.state(RAW)["last_seq"], self.data(RAW, backwards=True).next

    def rate(self, stream, first, last, size):
        seconds = (stored_ns(self.message(stream, last)) - stored_ns(self.message(stream, first))) / 1e9
        return size / seconds / 1e6

    def of_worker(self, frames):
        """MB/s of results; the log is whole and right."""
        worker = self.start("worker", WORKER, FAST)
        end = frames + TAPS - 1
        self.wait(lambda: (newest := self.newest(LOG)) is not None and newest.next == end,
                  lambda: f"frame {end} of {self.newest(LOG).next}: {worker.output()}")
        worker.stop()
        first, last = self.data(LOG), self.data(LOG, backwards=True)
        got = np.frombuffer(first.samples, "<f4").reshape(-1, FAST)
        x = np.frombuffer(b"".join(record.samples for record in map(lambda n: self.record(RAW, n), range(1, 20)) if record.frames), "<f4")
        x = x.reshape(-1, FAST).astype(float)
        want = c.convolve(x[:len(got)], self.taps)[:len(got)]
        error = float(np.linalg.norm(got - want) / np.linalg.norm(want))
        self.wrong |= first.first != 0 or error > 1e-6 or (last.chain != getattr(self, "chain", last.chain))
        self.chain, self.error = last.chain, error
        rate = self.rate(LOG, first.sequence, last.sequence, (last.next - first.next) * FAST * 4)
        self.delete(LOG)
        return rate

    def of_peer(self, count, frames):
        self.client.create(COPY, "bench.copy")
        echo = self.echo()
        self.wait(lambda: self.state(COPY)["last_seq"] == count, "echo_nats")
        echo.terminate()
        echo.wait(10)
        rate = self.rate(COPY, 1, count, frames * FAST * 4)
        self.delete(COPY)
        return rate

    def rates(self):
        count, frames = self.fill()
        print(f"RAW: {count} records, {frames * FAST * 4 / 1e6:.0f} MB", flush=True)
        ours, peers = [], []
        for _ in range(self.arguments.rounds):
            ours.append(self.of_worker(frames))
            peers.append(self.of_peer(count, frames))
            print(f"  worker {ours[-1]:.0f} MB/s, bare reader and publisher {peers[-1]:.0f} MB/s: {ours[-1] / peers[-1]:.2f}", flush=True)
        self.delete(RAW)
        return ours, peers

    # ---- delay --------------------------------------------------------------------------------

    def delays_ms(self, stream):
        """Of records of RAW until the record of `stream` that has their last frame was stored."""
        last, found = self.state(stream)["last_seq"], []
        raw_last, at = self.state(RAW)["last_seq"], 1
        raw = None
        for n in range(last // 2, last, max(1, last // 2 // SAMPLES)):  # the start compiles, and catches up
            message = self.message(stream, n)
            record = Record(n, nats_servers.base64.b64decode(message["data"]))
            if record.frames == 0:
                continue
            at = max(at, n // 2)
            while raw is None or (raw[1] < record.next and at < raw_last):
                fetched = self.message(RAW, at)
                raw = fetched, Record(at, nats_servers.base64.b64decode(fetched["data"])).next
                at += raw[1] < record.next
            found.append((stored_ns(message) - stored_ns(raw[0])) / 1e6)
        return found

    def delays(self):
        """[(p50, p99)] of worker and peer."""
        found = []
        for stream in (LOG, COPY):
            self.client.api(f"STREAM.CREATE.{RAW}", {"name": RAW, "subjects": [RAW_SUBJECT], "storage": "memory", "num_replicas": 1,
                                                     "retention": "limits", "discard": "old", "max_age": 3600 * 10**9})
            if stream == LOG:
                program = self.start("worker", WORKER, PACED)
            else:
                self.client.create(COPY, "bench.copy")
                program = self.echo()
            gateway = self.start("gateway", GATEWAY, PACED)
            time.sleep(2 * self.arguments.seconds)
            gateway.stop()
            if stream == LOG:
                program.stop()
            else:
                program.send_signal(signal.SIGTERM)
                program.wait(10)
            times = self.delays_ms(stream)
            found.append((float(np.percentile(times, 50)), float(np.percentile(times, 99))))
            self.delete(RAW, stream)
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.environ.get("CONVOLVD_BUILD", "build/gcc"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--csv")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.rounds, arguments.seconds = 2, 2
    with tempfile.TemporaryDirectory() as folder, nats_servers.Servers(memory="8G") as servers:
        bench = Bench(folder, servers[0], arguments)
        ours, peers = bench.rates()
        pairs = [bench.delays() for _ in range(max(1, arguments.rounds // 2))]
    ratios = sorted(a / b for a, b in zip(ours, peers))
    ratio, size = statistics.median(ratios), f"{FAST} ch f32 R1 memory"
    worker, peer = (tuple(statistics.median(pair[i][k] for pair in pairs) for k in (0, 1)) for i in (0, 1))
    added = worker[0] - peer[0]
    print(f"rate: worker {statistics.median(ours):.0f} MB/s, peer {statistics.median(peers):.0f} MB/s: {ratio:.2f} (bar {RATE_BAR})")
    print(f"delay at 32 MB/s: worker p50 {worker[0]:.2f} ms, p99 {worker[1]:.2f} ms; peer p50 {peer[0]:.2f} ms, p99 {peer[1]:.2f} ms; "
          f"added p50 {added:.2f} ms (bar {DELAY_BAR_MS})")
    if bench.wrong:
        print("WRONG: the log is not what it has to be")
    if arguments.csv:
        spread = f"{ratios[0]:.3f}-{ratios[-1]:.3f}"
        command = "BENCH_ONLY=cluster make bench"
        append(arguments.csv, [
            {"what": "cluster rate", "shape": size, "ours": f"{statistics.median(ours):.1f}", "peer": f"{statistics.median(peers):.1f}",
             "ratio": f"{ratio:.4g}", "bar": RATE_BAR, "unit": "MB/s", "median": f"{statistics.median(ours):.1f}", "spread": spread,
             "error": 1 if bench.wrong else f"{bench.error:.3g}", "command": command},
            {"what": "cluster added p50", "shape": f"{PACED} ch f32 32 MB/s R1 memory",
             "ours": f"{worker[0]:.4g}", "peer": f"{peer[0]:.4g}",
             "ratio": f"{added:.4g}", "bar": DELAY_BAR_MS, "unit": "ms", "median": f"{added:.4g}", "spread": "", "error": 0,
             "command": command}])
    return 0 if ratio >= RATE_BAR and added <= DELAY_BAR_MS and not bench.wrong else 1


if __name__ == "__main__":
    sys.exit(main())
