#!/usr/bin/python3
"""What the processors did while packets were late: trials of the daemon near its highest rate (bench_daemon.py's chain, format
and filter), beside a trace of the kernel's scheduler.

`perf record` writes every switch of a processor, and how long each thread ran by the scheduler's own clock, which stands
while the hypervisor has the processor. The difference was stolen. A run of late packets, from the time at which its first one
was due to the arrival of its last one, is held against that:

    chain    sender, receiver and the daemon's threads ran
    stolen   the hypervisor had the processor
    others   anything else ran, perf too
    idle     nothing ran: where packets are late and a processor idles, something waits for something

Late is what took longer than a block and 1 ms. At the end, the share of late packets by how much was stolen around them:
trials are cut into slices of 10 ms, and what was stolen in a slice and the two before it counts. What is late where next to
nothing was stolen is the program's own.

Root, or kernel.perf_event_paranoid = -1; on Debian, perf is in linux-perf.
"""
import argparse
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

import bench_daemon

EVENTS = ("sched:sched_switch", "sched:sched_stat_runtime")
CHAIN = ("bench_loopback", "convolvd", "loop", "device", "pocl")
LINE = re.compile(r"^\s*.*?\s\[(\d+)\]\s+([\d.]+):\s+sched:(\w+): (.*)$")
SWITCH = re.compile(r"next_comm=(.*) next_pid=(\d+)")
RAN = re.compile(r"pid=(\d+) runtime=(\d+)")
KINDS = ("chain", "stolen", "others", "idle")
SLICE_S, REACH = 0.010, 3
STOLEN = (0.002, 0.01, 0.03, 0.1, 1.0)  # upper ends of the shares that slices are told apart by

# of a processor: seconds from … until, whose they were, and how much of them was stolen
Piece = collections.namedtuple("Piece", "begin end kind thread stolen")


class Trace:
    """Of all processors, while a `with` lasts."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "tail.perf")

    def __enter__(self):
        command = ["perf", "record", "--all-cpus", "--clockid", "CLOCK_MONOTONIC", "--mmap-pages", "4096", "--output", self.path]
        for event in EVENTS:
            command += ["--event", event]
        self.process = subprocess.Popen(command + ["sleep", "3600"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return self

    def __exit__(self, *_):
        self.said = bench_daemon.stop(self.process, 60)

    def pieces(self):
        """[processor] → its pieces, in order."""
        script = subprocess.Popen(["perf", "script", "--input", self.path, "--ns", "--fields", "comm,cpu,time,event,trace"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, errors="replace")
        pieces, since, runs = collections.defaultdict(list), {}, {}
        for line in script.stdout:
            found = LINE.match(line)
            if not found:
                continue
            cpu, at, event, rest = int(found[1]), float(found[2]), found[3], found[4]
            switch, ran = SWITCH.search(rest), RAN.search(rest)
            if cpu in runs and at > since[cpu]:
                kind, thread = runs[cpu]
                long = at - since[cpu]
                stolen = max(0.0, long - int(ran[2]) / 1e9) if event == "sched_stat_runtime" and kind != "idle" else 0.0
                pieces[cpu].append(Piece(since[cpu], at, kind, thread, stolen))
            since[cpu] = at
            if event == "sched_switch":
                name, idle = switch[1], int(switch[2]) == 0
                kind = "idle" if idle else "chain" if name.startswith(CHAIN) else "others"
                runs[cpu] = (kind, "idle" if idle else f"{name} {switch[2]}")
        if script.wait() != 0 or not pieces:
            raise RuntimeError(f"perf wrote no trace:\n{self.said}")
        return pieces


def inside(piece, begin, end):
    """The seconds of a piece between two times, and those of them that were stolen."""
    seconds = max(0.0, min(piece.end, end) - max(piece.begin, begin))
    return seconds, piece.stolen * seconds / (piece.end - piece.begin)


def account(pieces, begin, end, by=lambda piece: piece.kind):
    """{kind} → seconds of all processors between two times, without what was stolen, which is a kind too."""
    seconds = collections.Counter()
    for piece in (piece for row in pieces.values() for piece in row if piece.end > begin and piece.begin < end):
        ran, stolen = inside(piece, begin, end)
        seconds[by(piece)] += ran - stolen
        seconds["stolen"] += stolen
    return seconds


def shares(seconds):
    whole = sum(seconds.values()) or 1
    return ", ".join(f"{kind} {100 * seconds[kind] / whole:.1f} %" for kind in KINDS)


class Slices:
    """How much of each slice of all trials was late, by how much was stolen around it."""

    def __init__(self):
        self.count, self.late = collections.Counter(), collections.Counter()

    def add(self, pieces, told, late_s):
        start = told["start_s"]
        count = int(told["sent_s"] / SLICE_S)
        stolen, late = [0.0] * count, [0.0] * count

        def spread(into, begin, end, value):
            for at in range(max(0, int((begin - start) / SLICE_S)), min(count - 1, int((end - start) / SLICE_S)) + 1):
                overlap = min(end, start + (at + 1) * SLICE_S) - max(begin, start + at * SLICE_S)
                into[at] += max(0.0, overlap) / (end - begin) * value

        for row in pieces.values():
            for piece in row:
                if piece.stolen > 0:
                    spread(stolen, piece.begin, piece.end, piece.stolen / len(pieces))
        for due, arrived, _ in told["late"]:
            last = max(arrived - late_s, due + 1e-6)  # when the last one was due, at the latest
            spread(late, due, last, last - due)
        for at in range(REACH - 1, count):
            share = sum(stolen[at - REACH + 1:at + 1]) / (REACH * SLICE_S)
            group = next((limit for limit in STOLEN if share < limit), STOLEN[-1])
            self.count[group] += 1
            self.late[group] += late[at] / SLICE_S

    def show(self):
        for low, high in zip((0,) + STOLEN, STOLEN):
            if self.count[high]:
                print(f"  stolen {100 * low:4.1f} to {100 * high:5.1f} %: late {100 * self.late[high] / self.count[high]:5.1f} % of "
                      f"{self.count[high] * SLICE_S:.2f} s")


def trial(bench, program, arguments, rate, block_s, slices):
    with tempfile.TemporaryDirectory(prefix="convolvd-tail-") as folder:
        trace = Trace(folder)
        with trace:
            told = bench.run(program, arguments.format, rate, arguments.seconds, late_ms=1e3 * block_s + 1)
        pieces = trace.pieces()
    begin, end = told["start_s"], told["start_s"] + told["sent_s"]
    late = collections.Counter()
    for due, arrived, _ in told["late"]:
        late.update(account(pieces, due, arrived))
    count = sum(count for *_, count in told["late"])
    print(f"p50 {told['p50_us'] / 1e3:.2f}, p99 {told['p99_us'] / 1e3:.2f}, p99.9 {told['p999_us'] / 1e3:.2f} ms; lost {100 * told['loss']:.4f} %; late "
          f"{100 * count / max(1, told['packets']):.3f} %\n  all the time: {shares(account(pieces, begin, end))}\n  in late runs: {shares(late)}", flush=True)
    if arguments.by_thread:
        for cpu in sorted(pieces):
            ran = account({cpu: pieces[cpu]}, begin, end, lambda piece: piece.thread)
            print(f"  processor {cpu}: " + ", ".join(f"{name} {100 * s / (end - begin):.1f} %" for name, s in ran.most_common(9)), flush=True)
    slices.add(pieces, told, block_s + 1e-3)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rate", type=float, required=True, help="Msamples/s into the daemon")
    parser.add_argument("--format", default="L16", choices=list(bench_daemon.FORMATS))
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of the OpenCL device")
    parser.add_argument("--real-time", action="store_true", help="the chain runs with real-time priority")
    parser.add_argument("--unit", action="store_true", help="the daemon's loop alone does, as its systemd unit runs it")
    parser.add_argument("--by-thread", action="store_true", help="what each processor ran")
    arguments = parser.parse_args()
    if shutil.which("perf") is None:
        parser.error("perf is not installed (Debian: linux-perf)")
    bench_daemon.PAUSES = ""  # the trace sees more, and a watcher takes processors
    rate = arguments.rate * 1e6 / bench_daemon.CHANNELS
    block_s = bench_daemon.BLOCK / rate
    slices = Slices()
    with tempfile.TemporaryDirectory(prefix="convolvd-bench-") as folder:
        bench = bench_daemon.Bench(folder, arguments.seconds)
        program = bench_daemon.Daemon(folder, arguments, bench.taps)
        print(f"{arguments.format}, {arguments.rate:g} Msamples/s, blocks of {1e3 * block_s:.2f} ms, {bench_daemon.machine()}", flush=True)
        for _ in range(arguments.trials):
            trial(bench, program, arguments, rate, block_s, slices)
    slices.show()
    return 0


if __name__ == "__main__":
    sys.exit(main())
