"""The whole daemon over loopback UDP: sender -> program -> receiver, beside other programs for the
same job, in turns in one session.

    convolvd     as it is configured here, receive = auto
    echo         bench/echo_bare.c: recvmmsg, sendmmsg, nothing in between
    FFTW program bench/echo_fftw.c: one thread, recvmmsg, FFTW overlap-save, sendmmsg
    GNU Radio    bench/flowgraph_gnuradio.py, where GNU Radio is installed: bare samples, no RTP
    … trains     echo and the FFTW program with --trains: GRO batches in, GSO batches out

One sender and one receiver (bench/bench_loopback.c), with the same settings, serve all of them; the
sender hands GSO batches to the kernel (UDP_SEGMENT). All programs share the machine's cores.

A rate is sustained when less than 1e-4 of the frames are lost, in the kernel's buffers in front of a program too, and 90 % of the packets come within
eight blocks and 20 ms (buffers of half a second hide an overload as long as a trial is short).
Doubling finds where to look; then, in rounds, every program goes up or down its own ladder of rates
from where it was; its rate is the median over the rounds, and the ratio that of neighbours.
Latency is from the time at which a frame was due at the sender to its arrival at the receiver's
socket, at 80 % of each program's own rate; the wait for the block to fill is in it, the filter's
delay is not. Where real-time priority is granted, sender, receiver and daemon run with it for the row
that is held against a bar: a sender that waits for a core is not the daemon's latency. Before any speed, results are compared with scipy in double.
"""
import argparse
import csv
import datetime
import json
import math
import os
import platform
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
from scipy.signal import firwin, oaconvolve

BUILD = os.environ.get("CONVOLVD_BUILD", "build/gcc")
CHANNELS = 16
TAPS = 4095
BLOCK = 4096
LOSS_LIMIT = 1e-4
BEHIND_BLOCKS, BEHIND_S = 8, 0.020  # p90 latency that still counts as keeping up
ATTEMPTS = 2
START_S = 60  # for longer no program starts
LATENCY_S = 1.0  # a trial for latencies: its slowest hundredth is 10 ms
SENDER_SLACK = 1.02  # a sender that took this much longer than asked could not keep the rate
STEP = 2 ** (1 / 8)  # of a ladder
REAL_TIME = ["chrt", "--fifo", "20"]
UNIT = ["chrt", "--reset-on-fork", "--rr", "10"]  # what the daemon takes where its unit lets it: its loop alone in real time
RESIDUE = 4 * 8192  # frames that a flowgraph keeps inside when its input ends
RATE_MAX = 256e6
PAUSES = f"{BUILD}/bench/bench_pauses"

FORMATS = {  # name here: name in the configuration, samples of this machine's order, full scale
    "f32": ("f32be", np.float32, 1.0),
    "L16": ("s16be", np.int16, 32768.0),
}

DAEMON_CONFIG = """
[daemon]
status on exit = no

[device]
device = {device}
threads = {threads}
input memory = 3 GiB

[stream bench]
source = rtp
address = 127.0.0.1:{port_in}
format = {format}
channels = {channels}
rate = {rate:.0f} Hz
block = {block} frames
fft = {fft}
filter = bench
tail = no

[filter bench]
type = file
path = {taps}

[sink out]
type = rtp
stream = bench
format = {format}
address = 127.0.0.1:{port_out}
"""


def free_ports():
    """Two free UDP ports."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def stop(process, timeout=10):
    """Ends a program; one that does not listen is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


class Program:
    """A program under test: started for one rate, stopped after it."""

    raw = False  # samples without RTP
    prefix = []  # how it is started, and the sender and receiver around it
    filters = True
    note = ""
    unread = 0  # frames that it never had, and sent as zeros

    def __init__(self, folder, arguments, taps):
        self.folder, self.arguments, self.taps = folder, arguments, taps
        if arguments.real_time:
            self.prefix = REAL_TIME

    def launch(self, command):
        for _ in range(ATTEMPTS):  # a flowgraph of GNU Radio may hang as it starts
            self.process = subprocess.Popen(self.prefix + command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            patience = threading.Timer(START_S, self.process.kill)
            patience.start()
            lines = []
            for line in self.process.stdout:
                lines.append(line)
                if "ready" in line:
                    patience.cancel()
                    return
            patience.cancel()
        raise RuntimeError(f"{self.name} did not start:\n{''.join(lines)}")

    def finish(self):
        stop(self.process)


class Daemon(Program):
    name = "convolvd"

    def start(self, wire, rate, port_in, port_out):
        path = os.path.join(self.folder, "bench.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(DAEMON_CONFIG.format(
                device=self.arguments.device, threads=self.arguments.threads, port_in=port_in,
                port_out=port_out, format=FORMATS[wire][0], channels=CHANNELS, rate=rate, block=BLOCK,
                fft=2 * BLOCK, taps=self.taps))
        self.status = os.path.join(self.folder, "status.json")
        self.log = open(os.path.join(self.folder, "convolvd.log"), "w+", encoding="utf-8")
        environment = dict(os.environ, RUNTIME_DIRECTORY=self.folder, STATE_DIRECTORY=self.folder)
        prefix = self.prefix or (UNIT if self.arguments.unit else [])
        self.process = subprocess.Popen(
            prefix + [f"{BUILD}/convolvd", path, "--status-json", self.status],
            stdout=subprocess.DEVNULL, stderr=self.log, env=environment)
        text = ""
        for _ in range(2400):
            with open(self.log.name, encoding="utf-8") as log:
                text = log.read()
            if "running:" in text:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.025)
        raise RuntimeError(f"convolvd did not start:\n{text}")

    def finish(self):
        stop(self.process)
        self.log.close()
        with open(self.status, encoding="utf-8") as file:
            stream = json.load(file)["streams"][0]
        receive = stream["datagrams"].get("receive", {})
        self.unread = sum(stream["frames_in"]["gap"].values())
        self.note = f"{stream['plan']['variant']}, receive {receive.get('path', '?')}"
        self.stages = ", ".join(f"{stage} {times['p50'] / 1e6:.2f}/{times['p99'] / 1e6:.2f}"
                                for stage, times in stream["latency_ns"].items())


class RealTime(Daemon):
    """The same with real-time priority for the whole chain, where the kernel grants it."""
    name = "convolvd real-time"
    prefix = REAL_TIME

    @staticmethod
    def granted():
        return shutil.which("chrt") is not None and \
            subprocess.run(REAL_TIME + ["true"], stderr=subprocess.DEVNULL, check=False).returncode == 0


class Echo(Program):
    name = "echo"
    filters = False
    trains = []

    def start(self, wire, rate, port_in, port_out):
        self.launch([f"{BUILD}/bench/echo_bare", str(port_in), str(port_out)] + self.trains)


class EchoTrains(Echo):
    name = "echo trains"
    trains = ["--trains"]


class Fftw(Program):
    name = "FFTW program"
    trains = []

    def start(self, wire, rate, port_in, port_out):
        self.launch([f"{BUILD}/bench/echo_fftw", "--listen", str(port_in), "--to", str(port_out), "--taps",
                     self.taps, "--channels", str(CHANNELS), "--format", wire, "--hop", str(BLOCK),
                     "--rate", str(rate)] + self.trains)


class FftwTrains(Fftw):
    name = "FFTW program trains"
    trains = ["--trains"]


class GnuRadio(Program):
    name = "GNU Radio"
    raw = True

    @staticmethod
    def importable():
        return subprocess.run([sys.executable, "-c", "from gnuradio import network, filter"],
                              stderr=subprocess.DEVNULL, check=False).returncode == 0

    def start(self, wire, rate, port_in, port_out):
        self.launch([sys.executable, os.path.join(os.path.dirname(__file__), "flowgraph_gnuradio.py"),
                     str(port_in), str(port_out), wire, self.taps, str(CHANNELS)])


class Bench:
    def __init__(self, folder, seconds):
        self.folder, self.seconds = folder, seconds
        self.taps = os.path.join(folder, "taps.npy")
        np.save(self.taps, firwin(TAPS, 0.25))

    def run(self, program, wire, rate, seconds, write=False, late_ms=None):
        """One trial of whole blocks: what the receiver says, and the share of frames lost; of packets later than late_ms,
        the share that was late while the machine paused (bench/bench_pauses.c), and the share of the others."""
        frames = max(8, int(rate * seconds) // BLOCK) * BLOCK
        port_in, port_out = free_ports()
        program.start(wire, rate, port_in, port_out)
        try:
            command = program.prefix + [f"{BUILD}/bench/bench_loopback", "--to", str(port_in), "--listen", str(port_out),
                       "--format", wire, "--channels", str(CHANNELS), "--rate", str(rate), "--frames",
                       str(frames)] + ["--raw"] * program.raw
            if late_ms is not None:
                command += ["--late", str(1e3 * late_ms)]
                watcher = Watcher()
            if write:
                command += ["--sent", self.path("sent"), "--got", self.path("got")]
            told = json.loads(subprocess.run(command, check=True, timeout=120, stdout=subprocess.PIPE).stdout)
            if late_ms is not None:
                explain(told, watcher.finish())
        finally:
            program.finish()
        missing = max(0, frames - told["received"] - (RESIDUE if program.raw else 0))
        told["loss"] = (max(missing, told["lost"]) + program.unread) / frames
        told["kept_pace"] = told["sent_s"] < told["asked_s"] * SENDER_SLACK + 0.02
        return told

    def path(self, name):
        return os.path.join(self.folder, name)

    def error(self, program, wire):
        """||e||2 / ||y||2 of a slow run against scipy in double, by frame number, and what is allowed."""
        self.run(program, wire, 200e3, 16 * BLOCK / 200e3, write=True)
        _, sample, scale = FORMATS[wire]
        order = np.dtype(sample) if program.raw else np.dtype(sample).newbyteorder(">")
        sent, got = (np.fromfile(self.path(name), order).reshape(-1, CHANNELS).astype(np.float64) / scale
                     for name in ("sent", "got"))
        got = got[:8 * BLOCK]
        taps = np.load(self.taps).astype(np.float32).astype(np.float64)
        want = oaconvolve(sent, taps[:, None], axes=0) if program.filters else sent
        want = want[:len(got)]
        if len(got) < 7 * BLOCK:
            raise RuntimeError(f"{program.name}: only {len(got)} of {8 * BLOCK} frames came back")
        quantum = 1 / scale if wire == "L16" else 0
        # An integer on the wire rounds by half a step on each side: sigma q / sqrt(12).
        rounding = quantum / math.sqrt(12) * math.sqrt(want.size)
        error, norm = np.linalg.norm(got - want), np.linalg.norm(want)
        return error / norm, (1e-6 * norm + 1.2 * rounding) / norm

    @staticmethod
    def keeps_up(told, rate):
        allowed_us = (BEHIND_BLOCKS * BLOCK / rate + BEHIND_S) * 1e6
        return told["kept_pace"] and told["loss"] < LOSS_LIMIT and told["p90_us"] < allowed_us

    def sustains(self, program, wire, rate, attempts=ATTEMPTS):
        """Whether one of the attempts keeps up: other work on the machine is forgiven once."""
        return any(self.keeps_up(self.run(program, wire, rate, self.seconds), rate) for _ in range(attempts))

    def double(self, programs, wire, start):
        """Where each program's ladder begins: the highest of the doubled rates that it sustains."""
        place = {}
        for program in programs:
            rate = start
            if self.sustains(program, wire, rate):
                while 2 * rate <= RATE_MAX and self.sustains(program, wire, 2 * rate):
                    rate *= 2
            else:
                while rate > start / 64 and not self.sustains(program, wire, rate):
                    rate /= 2
            place[program] = rate
        return place

    def climb(self, program, wire, rate):
        """The highest rung that is sustained, near where the program was."""
        if self.sustains(program, wire, rate):
            while self.sustains(program, wire, rate * STEP, attempts=1) and rate * STEP <= RATE_MAX:
                rate *= STEP
            return rate
        for _ in range(24):
            rate /= STEP
            if self.sustains(program, wire, rate):
                break
        return rate


class Watcher:
    """Looks for pauses of the machine, where real-time priority is granted."""

    def __init__(self):
        self.process = None
        if os.path.exists(PAUSES) and RealTime.granted():
            self.process = subprocess.Popen([PAUSES], stdout=subprocess.PIPE, text=True)
            self.process.stdout.readline()

    def finish(self):
        """What it saw; None: it could not watch."""
        return None if self.process is None else json.loads(stop(self.process))


def explain(told, watched):
    """told: paused_s, how long processors slept through in all; late_paused and late_awake, the shares of late
    packets whose run of neighbours overlaps such a pause, and of the others; the longest of these runs. watched: None where
    nobody looked for pauses."""
    pauses = [(start, end) for _, start, end in watched["pauses"]] if watched is not None else []
    packets, runs = {True: 0, False: 0}, []
    for due, arrived, count in told["late"]:
        paused = any(start < arrived and end > due for start, end in pauses)
        packets[paused] += count
        runs.append((1e3 * (arrived - due), 1e3 * (due - told.get("start_s", 0)), "paused" if paused else "awake" if watched is not None else "late"))
    told["runs"] = ", ".join(f"{ms:.1f} {how} at {at:.0f}" for ms, at, how in sorted(runs, reverse=True)[:6])
    told["watched"] = watched is not None
    told["paused_s"] = sum(end - start for start, end in pauses)
    told["longest_ms"] = 1e3 * max((end - start for start, end in pauses), default=0)
    told["late_paused"], told["late_awake"] = (packets[key] / max(1, told["packets"]) for key in (True, False))


def spread(values):
    return f"{min(values):.4g}…{max(values):.4g}"


# What bench/check.py reads, and behind it what helps to read it.
CSV_HEAD = ["what", "shape", "ours", "peer", "ratio", "bar", "unit", "median", "spread", "error", "command",
            "error_allowed", "ours_spread", "peer_spread", "note", "time", "commit", "machine"]


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{len(models)} x {models[0] if models else platform.machine()}"


class Table:
    """Rows for the screen and the CSV: a figure of ours over a peer's, round by round."""

    def __init__(self, path):
        self.path = path
        self.stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.command = "bench/bench_daemon.py " + " ".join(sys.argv[1:])
        if path is not None:
            try:
                with open(path, encoding="utf-8", newline="") as file:
                    begun = next(csv.reader(file), None) == CSV_HEAD
            except FileNotFoundError:
                begun = False
            if not begun:
                self.append(CSV_HEAD, "w")

    def append(self, row, mode="a"):
        with open(self.path, mode, newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(row)

    def add(self, what, shape, bar, unit, ours, peer, error, note=""):
        """Figures of ours and of a peer in the same rounds; error: what was found and what is allowed."""
        ratios = [a / b for a, b in zip(ours, peer)]
        ratio, own, other = (statistics.median(values) for values in (ratios, ours, peer))
        held = {"": "", ">": "held" if ratio >= float(bar[2:] or 0) else "MISSED",
                "<": "held" if ratio <= float(bar[2:] or 0) else "MISSED"}[bar[:1]]
        print(f"{what:<32} {shape:<21} {own:>8.4g} ({spread(ours)}) / {other:>8.4g} ({spread(peer)}) {unit:<10} = "
              f"{ratio:.3f}  {bar:<6}{held:<7} {note}", flush=True)
        if self.path is not None:
            self.append([what, shape, f"{own:.6g}", f"{other:.6g}", f"{ratio:.4f}", bar, unit, f"{ratio:.4f}",
                         spread(ratios), f"{error[0]:.3g}", self.command, f"{error[1]:.3g}", spread(ours),
                         spread(peer), note, self.stamp, os.environ.get("BENCH_COMMIT", ""), machine()])


RATE_BARS = {"echo": ">=1", "FFTW program": ">=1.3", "GNU Radio": ">=3"}


def measure(bench, programs, wire, rounds, start, table):
    """One format: rates in rounds, then latencies at 80 % in rounds. False: a wrong result."""
    shape = f"{wire} {CHANNELS}ch {TAPS}taps" + " loop in real time" * programs[0].arguments.unit
    errors, good = {}, True
    for program in programs:
        errors[program] = bench.error(program, wire)
        if not errors[program][0] < errors[program][1]:
            print("  {} {}: WRONG: error {:.2e}, allowed {:.2e}".format(program.name, wire, *errors[program]))
            good = False
    place = bench.double(programs, wire, start)
    rates = {program: [] for program in programs}
    for _ in range(rounds):
        for program in programs:
            place[program] = bench.climb(program, wire, place[program])
            rates[program].append(place[program] * CHANNELS / 1e6)
    median = {program: statistics.median(rates[program]) for program in programs}
    ours, peers = programs[0], programs[1:]
    chain = programs
    if RealTime.granted():
        real_time = RealTime(bench.folder, ours.arguments, bench.taps)
        median[real_time] = median[ours]
        chain = programs + [real_time]
    latencies = {program: [] for program in chain}
    tails, accounts = [], []
    block_ms = BLOCK / (0.8 * median[ours] * 1e6 / CHANNELS) * 1e3
    strict = chain[-1] if chain != programs else ours  # whose latencies are looked into
    for _ in range(rounds):
        for program in chain:
            told = bench.run(program, wire, 0.8 * median[program] * 1e6 / CHANNELS, LATENCY_S,
                             late_ms=block_ms + 1 if program is strict else None)
            latencies[program].append(told["p99_us"] / 1e3)
            if program is strict:
                tails.append(told["p999_us"] / 1e3)
                told["stages"] = program.stages
                accounts.append(told)
    all_real_time = "; all with real-time priority" if ours.arguments.real_time else ""
    for peer in peers:
        table.add(f"daemon against {peer.name}", shape, RATE_BARS.get(peer.name, ""), "Msamples/s", rates[ours],
                  rates[peer], errors[ours], ours.note + all_real_time)
    for peer in peers:
        table.add(f"daemon p99 beside {peer.name}", shape, "", "ms", latencies[ours], latencies[peer], errors[ours],
                  f"at 80 % of each one's rate; the daemon's blocks last {block_ms:.2f} ms{all_real_time}")
    by_hand = next((peer for peer in peers if peer.name == Fftw.name), None)
    if chain != programs:
        table.add("daemon p99", shape, "<=1", "ms", latencies[real_time], [block_ms + 1] * rounds, errors[ours],
                  "allowed: block + 1 ms; sender, daemon and receiver with real-time priority (chrt --fifo 20), which "
                  "is granted here")
        table.add("daemon p99.9", shape, "<=1", "ms", tails, [block_ms + 2] * rounds, errors[ours],
                  "allowed: block + 2 ms; the same trials")
    elif by_hand is not None:
        table.add("daemon p99", shape, "<=1", "ms", latencies[ours], [p99 / 2 for p99 in latencies[by_hand]],
                  errors[ours], "allowed: half of the FFTW program's; real-time priority is not granted here")
    for told in accounts:
        late = f"{100 * told['late_awake']:.3f} % of the packets"
        if told["watched"]:
            late += (f" while no processor paused, {100 * told['late_paused']:.3f} % in a run with a pause of the machine (pauses "
                     f"{1e3 * told['paused_s']:.1f} ms in all, the longest {told['longest_ms']:.2f} ms)")
        print(f"  {strict.name}: p99 {told['p99_us'] / 1e3:.2f} ms, p99.9 {told['p999_us'] / 1e3:.2f} ms; later than block + 1 ms: "
              f"{late}; longest runs [ms, at]: {told['runs'] or 'none'}; stages p50/p99 [ms]: {told['stages']}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1, help="of the OpenCL device")
    parser.add_argument("--quick", action="store_true", help="shorter and fewer trials")
    parser.add_argument("--real-time", action="store_true",
                        help="every program, the sender and the receiver with real-time priority: on a machine with "
                             "other work, too")
    parser.add_argument("--unit", action="store_true", help="the daemon's loop alone in real time, as its systemd unit runs it")
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--programs", default="", help="only these peers, such as echo,FFTW program")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--csv", help="append the table to this file")
    arguments = parser.parse_args()
    seconds, rounds = (0.5, 1) if arguments.quick else (1.0, 5)
    rounds = arguments.rounds or rounds
    if arguments.real_time and not RealTime.granted():
        parser.error("--real-time: the kernel does not grant it here (chrt --fifo 20)")
    table, good = Table(arguments.csv), True
    with tempfile.TemporaryDirectory(prefix="convolvd-bench-") as folder:
        bench = Bench(folder, seconds)
        kinds = [Echo, EchoTrains]
        if os.path.exists(f"{BUILD}/bench/echo_fftw"):
            kinds += [Fftw, FftwTrains]
        if GnuRadio.importable():
            kinds.append(GnuRadio)
        else:
            print("bench_daemon: no GNU Radio (package gnuradio): that peer is left out")
        wanted = arguments.programs.split(",") if arguments.programs else [kind.name for kind in kinds]
        programs = [kind(folder, arguments, bench.taps)
                    for kind in [Daemon] + [kind for kind in kinds if kind.name in wanted]]
        print(f"\nsender -> program -> receiver over loopback UDP on {machine()}\n"
              f"{CHANNELS} channels, {TAPS} taps, blocks of {BLOCK} frames; loss under {LOSS_LIMIT:g} in {seconds:g} s "
              f"and no backlog; medians (lowest…highest), rounds: {rounds}; ours / peer", flush=True)
        for wire in arguments.formats.split(","):
            good &= measure(bench, programs, wire, rounds, 1e6, table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
