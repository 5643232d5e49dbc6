#!/usr/bin/python3
"""Several event loops: what one daemon carries with `loops` = 1, 2, 4 …, in streams of 16 channels of L16 over
loopback UDP, each with a sender and a receiver of its own (bench/bench_loopback.c), beside one bare echo of GRO
batches (bench/echo_bare.c --trains) in the same run.

A rate is sustained when every stream loses less than 1e-4 of its frames, before the daemon or in it, and 90 % of its packets come within eight
blocks and 20 ms. Senders and receivers take two cores a stream beside the daemon's two a loop, so what a machine of C
cores shows ends where C is used up.

--carry: instead of the highest rate, whether the streams keep up at --rate, what the daemon's threads did meanwhile (their
share of a core, and for how long they waited for one), and what the daemon says of its slowest stream: where frames were
lost, how many blocks a batch held, and the latencies of its stages.
"""
import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

BUILD = os.environ.get("CONVOLVD_BUILD", "build/gcc")
CHANNELS, TAPS, BLOCK = 16, 4095, 4096
LOSS_LIMIT, BEHIND_BLOCKS, BEHIND_S, SENDER_SLACK = 1e-4, 8, 0.020, 1.02
STEP = 2 ** 0.25

CONFIG = """
[daemon]
status on exit = no

[device]
device = {device}
threads = {threads}
loops = {loops}
input memory = {memory} MiB

[filter bench]
type = file
path = {taps}
delay = 2047 frames
"""
STREAM = """
[stream s{i}]
source = rtp
address = 127.0.0.1:{port_in}
format = s16be
channels = {channels}
rate = {rate:.0f} Hz
block = 4096 frames
filter = bench
tail = no

[sink o{i}]
type = rtp
stream = s{i}
format = s16be
address = 127.0.0.1:{port_out}
"""


def ports(first, i):
    return first + 2 * i, first + 2 * i + 1


def wait_for(log, word, process):
    for _ in range(2400):
        with open(log, encoding="utf-8") as file:
            text = file.read()
        if word in text:
            return
        if process.poll() is not None:
            break
        time.sleep(0.025)
    raise RuntimeError(f"it did not start:\n{text}")


def threads_of(pid):
    """{thread: (name, seconds on a processor, seconds waiting for one)}"""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{task}/comm", encoding="utf-8") as name, \
                    open(f"/proc/{pid}/task/{task}/schedstat", encoding="utf-8") as times:
                ran, waited = map(int, times.read().split()[:2])
                found[task] = (name.read().strip(), ran * 1e-9, waited * 1e-9)
        except OSError:
            pass  # it has ended
    return found


def shares(before, after, seconds):
    """[(name, share of a core, share of the time it waited for one)], the busiest first."""
    rows = [(name, (ran - before.get(task, ("", 0, 0))[1]) / seconds, (waited - before.get(task, ("", 0, 0))[2]) / seconds)
            for task, (name, ran, waited) in after.items()]
    return sorted((row for row in rows if row[1] > 0.02), key=lambda row: -row[1])


class Bench:
    def __init__(self, folder, options):
        self.folder, self.options, self.first = folder, options, 20000
        self.taps, self.status = os.path.join(folder, "taps.npy"), os.path.join(folder, "status.json")
        n = np.arange(TAPS) - (TAPS - 1) / 2
        np.save(self.taps, np.sinc(n / 4) / 4 * np.hamming(TAPS))

    def start(self, loops, streams, rate):
        """The daemon; the echo when `loops` is 0."""
        self.first = 20000 + (self.first - 20000 + 2 * streams) % 8000
        log = os.path.join(self.folder, "log")
        with open(log, "w", encoding="utf-8") as out:
            if loops == 0:
                port_in, port_out = ports(self.first, 0)
                process = subprocess.Popen([f"{BUILD}/bench/echo_bare", str(port_in), str(port_out), "--trains"], stdout=out,
                                           stderr=out)
            else:
                path = os.path.join(self.folder, "bench.conf")
                with open(path, "w", encoding="utf-8") as file:
                    file.write(CONFIG.format(device=self.options.device, threads=self.options.threads, loops=loops, taps=self.taps,
                                             memory=max(4096 // loops, 512)))
                    for i in range(streams):
                        port_in, port_out = ports(self.first, i)
                        file.write(STREAM.format(i=i, port_in=port_in, port_out=port_out, rate=rate,
                                                 channels=self.options.channels))
                process = subprocess.Popen([f"{BUILD}/convolvd", path, "--status-json", self.status] + self.variant(), stdout=out, stderr=out,
                                           env=dict(os.environ, RUNTIME_DIRECTORY=self.folder, STATE_DIRECTORY=self.folder))
        wait_for(log, "ready", process)
        return process

    def variant(self):
        return ["--variant", self.options.variant] if self.options.variant else []

    def trial(self, loops, streams, rate):
        """Whether all streams keep up at `rate` each. What senders and threads say is kept."""
        frames = max(8, int(rate * self.options.seconds) // BLOCK) * BLOCK
        process = self.start(loops, streams, rate)
        try:
            senders, before, began = [], threads_of(process.pid), time.monotonic()
            for i in range(streams):
                port_in, port_out = ports(self.first, i)
                senders.append(subprocess.Popen(
                    [f"{BUILD}/bench/bench_loopback", "--to", str(port_in), "--listen", str(port_out), "--format", "L16",
                     "--channels", str(self.options.channels), "--rate", str(rate), "--frames", str(frames)], stdout=subprocess.PIPE))
            told = [json.loads(sender.communicate(timeout=120)[0]) for sender in senders]
            self.told, self.threads = told, shares(before, threads_of(process.pid), time.monotonic() - began)
            if process.poll() is not None:
                with open(os.path.join(self.folder, "log"), encoding="utf-8") as log:
                    raise RuntimeError(f"the program ended while it was measured, with {process.returncode}:\n{log.read()}")
        finally:
            process.terminate()
            process.wait(30)
        allowed_us = (BEHIND_BLOCKS * BLOCK / rate + BEHIND_S) * 1e6
        missing = [max(frames - t["received"], t["lost"]) for t in told]
        unread = unread_frames(self.status) if loops > 0 else [0] * streams
        self.lost = (sum(missing) + sum(unread)) / (streams * frames)
        return all(none + before < LOSS_LIMIT * frames and t["p90_us"] < allowed_us and
                   t["sent_s"] < t["asked_s"] * SENDER_SLACK + 0.02 for t, none, before in zip(told, missing, unread))

    def sustained(self, loops, streams, rate):
        """The highest rate of a stream, searched from `rate` on."""
        good = 0
        while rate < 64e6 and (self.trial(loops, streams, rate) or self.trial(loops, streams, rate)):
            good, rate = rate, rate * 2
        if good == 0:
            while rate > 1e4 and not self.trial(loops, streams, rate):
                rate /= 2
            good = rate
        while self.trial(loops, streams, good * STEP) or self.trial(loops, streams, good * STEP):
            good *= STEP
        return good


def unread_frames(path):
    """Frames of each stream that a daemon which has ended never had, and sent as zeros."""
    with open(path, encoding="utf-8") as file:
        return [sum(stream["frames_in"]["gap"].values()) for stream in json.load(file)["streams"]]


def account(path):
    """What a daemon that has ended says of its slowest stream."""
    with open(path, encoding="utf-8") as file:
        streams = json.load(file)["streams"]
    slowest = max(streams, key=lambda stream: (stream["frames_out"]["shed"]["overload"], stream["latency_ns"]["total"]["p99"]))
    gaps = {cause: frames for cause, frames in slowest["frames_in"]["gap"].items() if frames}
    stages = ", ".join(f"{stage} {times['p50'] / 1e6:.2f}/{times['p99'] / 1e6:.2f}"
                       for stage, times in slowest["latency_ns"].items())
    return (f"{slowest['name']} of {slowest['frames_in']['timeline']} frames: gaps {gaps}, shed "
            f"{slowest['frames_out']['shed']['overload']}, kernel drops {slowest['datagrams']['kernel_drops']}, "
            f"{slowest['blocks'] / max(1, slowest['batches']):.1f} blocks a batch; stages p50/p99 [ms]: {stages}")


def carry(bench, options):
    """One line for each count of loops: whether the streams keep up at the rate, and how."""
    total = options.channels * options.streams * options.rate / 1e6
    for loops in map(int, options.loops.split(",")):
        for _ in range(options.rounds):
            good = bench.trial(loops, options.streams, options.rate)
            p99 = max(t["p99_us"] for t in bench.told) / 1e3
            late = max(t["sent_s"] / t["asked_s"] for t in bench.told)
            print(f"loops = {loops}: {options.streams} x {options.channels} channels, {total:.0f} Msamples/s: "
                  f"{'carried' if good else 'NOT carried'}, lost {bench.lost:.1e}, p99 {p99:.2f} ms, senders took {late:.3f} of their "
                  f"time; threads (of a core + waiting for one): "
                  + ", ".join(f"{name} {ran:.2f}+{waited:.2f}" for name, ran, waited in bench.threads[:14]))
            print(f"    {account(bench.status)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loops", default="1,2,4")
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a trial")
    parser.add_argument("--rate", type=float, default=1e6, help="Hz of a stream, where the search begins")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="of an OpenCL device that is a CPU")
    parser.add_argument("--variant", help="convolvd's --variant")
    parser.add_argument("--channels", type=int, default=CHANNELS, help="of a stream")
    parser.add_argument("--carry", action="store_true", help="only whether --rate is carried")
    parser.add_argument("--csv")
    options = parser.parse_args()
    rows = []
    tail = f" {options.device}" + (f" threads={options.threads}" if options.threads else "") + \
        (f" {options.variant}" if options.variant else "")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder, options)
        if options.carry:
            carry(bench, options)
            return
        totals = {}
        for number in range(options.rounds):
            echo = options.channels * bench.sustained(0, 1, 4 * options.rate) / 1e6
            totals.setdefault(0, []).append(echo)
            print(f"round {number + 1}: echo of one stream {echo:.0f} Msamples/s", flush=True)
            for loops in map(int, options.loops.split(",")):
                rate = bench.sustained(loops, options.streams, options.rate)
                totals.setdefault(loops, []).append(options.channels * options.streams * rate / 1e6)
                print(f"round {number + 1}: loops = {loops}: {options.streams} streams of {options.channels} channels, "
                      f"{totals[loops][-1]:.0f} Msamples/s, {totals[loops][-1] / echo:.2f} of the echo", flush=True)
    echo = statistics.median(totals.pop(0))
    for loops, values in totals.items():
        rows.append(["loops", f"loops={loops} streams={options.streams} L16 {options.channels}ch 4095taps{tail}", statistics.median(values), echo,
                     statistics.median(values) / echo, "", "Msamples/s"])
    if options.csv:
        with open(options.csv, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["what", "shape", "ours", "peer", "ratio", "bar", "unit"])
            writer.writerows(rows)
    print(f"again: {' '.join(sys.argv)}")


if __name__ == "__main__":
    main()
