"""The whole daemon over loopback UDP, rig -> daemon -> tap, beside a program written by hand.

For each sample format: the highest rate without loss (doubling, then bisection) and the latency at
80 % of that rate, of convolvd and of echo_fftw (one thread: recvmmsg, FFTW overlap-add, sendmmsg),
in turns, with the same rig, the same tap, the same taps and the same block. A rate is too high when
1e-4 of the frames are lost anywhere on the way, or when results fall behind: buffers of half a
second hide an overload as long as a trial is short. A rate fails when three trials do. Latency is from the capture of a packet's last frame to its
result's arrival at the tap: the wait for the block to fill is in it, the filter's delay is not.
Before any speed, both results are compared with scipy in double.

Rig, tap and the program under test share the machine's cores, so absolute figures depend on it.
"""
import argparse
import csv
import datetime
import json
import math
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time

import numpy as np
from scipy.io import wavfile
from scipy.signal import firwin, oaconvolve

BUILD = os.environ.get("CONVOLVD_BUILD", "build/gcc")
CHANNELS = 16
TAPS = 4095
BLOCK = 4096
LOSS_LIMIT = 1e-4
BEHIND_BLOCKS, BEHIND_S = 8, 0.020  # p90 latency that still counts as keeping up
ATTEMPTS = 3
SENDER_SLACK = 1.02  # a rig that took this much longer than asked could not keep the rate

FORMATS = {  # name on the wire: name in the configuration
    "L16": "s16be",
    "f32be": "f32be",
}

DAEMON_CONFIG = """
[daemon]
status on exit = no

[device]
device = {device}
threads = 1

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
    """Two free UDP ports; their RTCP neighbours are left alone."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def stop(process, number=signal.SIGTERM, timeout=10):
    """Ends a program; one that does not listen is killed."""
    if process.poll() is None:
        process.send_signal(number)
    try:
        return process.communicate(timeout=timeout)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0]


class Program:
    """A program under test: started for one rate, stopped with a count of the frames it lost."""

    def __init__(self, folder, arguments, taps):
        self.folder, self.device, self.taps = folder, arguments.device, taps

    def wait_until(self, stream, words):
        lines = []
        for line in stream:
            lines.append(line)
            if words in line:
                return
        raise RuntimeError(f"{self.name} did not start:\n{''.join(lines)}")


class Daemon(Program):
    name = "convolvd"

    def start(self, wire, rate, port_in, port_out):
        path = os.path.join(self.folder, "bench.conf")
        self.status = os.path.join(self.folder, "status.json")
        if os.path.exists(self.status):
            os.remove(self.status)
        with open(path, "w", encoding="utf-8") as file:
            file.write(DAEMON_CONFIG.format(
                device=self.device, port_in=port_in, port_out=port_out, format=FORMATS[wire],
                channels=CHANNELS, rate=rate, block=BLOCK, fft=2 * BLOCK, taps=self.taps))
        self.log = open(os.path.join(self.folder, "convolvd.log"), "w+", encoding="utf-8")
        environment = dict(os.environ, RUNTIME_DIRECTORY=self.folder, STATE_DIRECTORY=self.folder)
        self.process = subprocess.Popen(
            [f"{BUILD}/convolvd", path, "--status-json", self.status], stdout=subprocess.DEVNULL,
            stderr=self.log, cwd=os.getcwd(), env=environment)
        for _ in range(600):
            with open(self.log.name, encoding="utf-8") as log:
                text = log.read()
            if "running:" in text:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"convolvd did not start:\n{text}")

    def finish(self):
        stop(self.process)
        self.log.close()
        with open(self.status, encoding="utf-8") as file:
            stream = json.load(file)["streams"][0]
        self.variant = stream["plan"]["variant"]
        lost = sum(stream["frames_in"]["gap"].values()) + sum(stream["frames_out"]["shed"].values())
        return lost + sum(sum(sink["dropped"].values()) for sink in stream["sinks"])


class Echo(Program):
    name = "echo_fftw"
    variant = "FFTW overlap-add"

    def start(self, wire, rate, port_in, port_out):
        self.process = subprocess.Popen(
            [f"{BUILD}/bench/echo_fftw", "--listen", str(port_in), "--to", str(port_out), "--taps",
             self.taps, "--channels", str(CHANNELS), "--format", "L16" if wire == "L16" else "f32",
             "--hop", str(BLOCK), "--rate", str(rate)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.wait_until(self.process.stdout, "ready")

    def finish(self):
        return int(stop(self.process).split("lost")[1])


class Bench:
    def __init__(self, folder, seconds):
        self.folder, self.seconds = folder, seconds
        generator = np.random.default_rng(20261121)
        noise = generator.uniform(-0.5, 0.5, (1 << 16, CHANNELS)).astype(np.float32)
        self.noise = os.path.join(folder, "noise.wav")
        wavfile.write(self.noise, 1000000, noise)
        self.taps = os.path.join(folder, "taps.npy")
        np.save(self.taps, firwin(TAPS, 0.25))

    def run(self, program, wire, rate, seconds, write=False):
        """One trial of whole blocks: what rig and tap say, and the share of frames lost."""
        frames = max(8, int(rate * seconds) // BLOCK) * BLOCK
        port_in, port_out = free_ports()
        names = {key: os.path.join(self.folder, key) for key in
                 ("rig.json", "tap.json", "sent.npy", "got.npy")}
        for name in names.values():
            if os.path.exists(name):
                os.remove(name)
        program.start(wire, rate, port_in, port_out)
        tap = rig = None
        try:
            tap = subprocess.Popen(
                [f"{BUILD}/convolv-tap", "--listen", f"127.0.0.1:{port_out}", "--format", wire,
                 "--channels", str(CHANNELS), "--rate", str(rate), "--quiet", "--ledger",
                 names["tap.json"]] + (["--write", names["got.npy"]] if write else []),
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(0.1)
            subprocess.run(
                [f"{BUILD}/convolv-rig", "--to", f"127.0.0.1:{port_in}", "--format", wire,
                 "--channels", str(CHANNELS), "--file", self.noise, "--repeat", "0", "--frames",
                 str(frames), "--rate", str(rate), "--preload", "--quiet", "--ledger",
                 names["rig.json"]] + (["--write", names["sent.npy"]] if write else []),
                check=True, timeout=120)
            time.sleep(0.3)
        finally:
            lost = program.finish()
            if tap is not None:
                time.sleep(0.1)
                stop(tap, signal.SIGINT)
        with open(names["rig.json"], encoding="utf-8") as file:
            rig = json.load(file)
        with open(names["tap.json"], encoding="utf-8") as file:
            tap = json.load(file)
        short = max(0, frames - tap["frames"])
        return {
            "loss": max(lost + tap["frames_lost"], short) / frames,
            "kept_pace": rig["seconds"] < frames / rate * SENDER_SLACK + 0.02,
            "latency_us": {key: value / 1e3
                           for key, value in tap["latency_ns"]["arrival - capture"].items()},
        }

    def error(self, program, wire):
        """||e||2 / ||y||2 of a slow run against scipy in double, by frame number."""
        self.run(program, wire, 100e3, 0, write=True)
        sent = np.load(os.path.join(self.folder, "sent.npy"))
        got = np.load(os.path.join(self.folder, "got.npy"))[:8 * BLOCK]
        taps = np.load(self.taps).astype(np.float32).astype(np.float64)
        want = oaconvolve(sent, taps[:, None], axes=0)[:len(got)]
        if len(got) < 7 * BLOCK:
            raise RuntimeError(f"{program.name}: only {len(got)} of {8 * BLOCK} frames came back")
        quantum = 2.0 ** -15 if wire == "L16" else 0
        # An integer on the wire rounds by half a step on each side: sigma q / sqrt(12).
        rounding = quantum / math.sqrt(12) * math.sqrt(want.size)
        error, norm = np.linalg.norm(got - want), np.linalg.norm(want)
        return error / norm, (1e-6 * norm + 1.2 * rounding) / norm

    def keeps_up(self, result, rate):
        allowed_us = (BEHIND_BLOCKS * BLOCK / rate + BEHIND_S) * 1e6
        return result["kept_pace"] and result["loss"] < LOSS_LIMIT \
            and result["latency_us"]["p90"] < allowed_us

    def trials(self, program, wire, rate):
        """The first trial that keeps up, else the last: other work on the machine is forgiven."""
        slow = 0
        for _ in range(ATTEMPTS):
            result = self.run(program, wire, rate, self.seconds)
            slow += not result["kept_pace"]
            if self.keeps_up(result, rate) or slow == 2:
                break
        if slow == 2:
            print(f"  {program.name}: the rig cannot send {rate / 1e6:.2f} MHz here", flush=True)
        return result

    def passes(self, program, wire, rate):
        return self.keeps_up(self.trials(program, wire, rate), rate)

    def capacity(self, programs, wire, start, steps):
        """Highest rate without loss of each, doubling then halving the interval, in turns."""
        good = {program: None for program in programs}
        bad = {program: None for program in programs}
        for program in programs:  # a slow or busy machine: begin lower
            rate = start
            while rate >= start / 8 and not self.passes(program, wire, rate):
                bad[program] = rate
                rate /= 2
            if rate >= start / 8:
                good[program] = rate
        rate = 2 * start
        while any(bad[program] is None for program in programs) and rate < 200e6:
            for program in programs:
                if bad[program] is None:
                    (good if self.passes(program, wire, rate) else bad)[program] = rate
            rate *= 2
        for _ in range(steps):
            for program in programs:
                if good[program] is None or bad[program] is None:
                    continue
                middle = math.sqrt(good[program] * bad[program])
                (good if self.passes(program, wire, middle) else bad)[program] = middle
        return good


CSV_HEAD = ["time", "commit", "machine", "program", "variant", "format", "channels", "taps", "block",
            "error", "rate_hz", "msamples", "latency_p50_us", "latency_p99_us", "latency_max_us"]


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
    return f"{len(models)} x {models[0] if models else platform.machine()}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--quick", action="store_true", help="L16 only, shorter and fewer trials")
    parser.add_argument("--csv", help="append the table to this file")
    arguments = parser.parse_args()
    seconds, steps, start = (0.5, 1, 1e6) if arguments.quick else (1.0, 2, 1e6)
    formats = ["L16"] if arguments.quick else list(FORMATS)
    rows, failed = [], False
    with tempfile.TemporaryDirectory(prefix="convolvd-bench-") as folder:
        bench = Bench(folder, seconds)
        programs = [Daemon(folder, arguments, bench.taps)]
        if os.path.exists(f"{BUILD}/bench/echo_fftw"):
            programs.append(Echo(folder, arguments, bench.taps))
        print(f"\nrig -> program -> tap over loopback UDP on {machine()}\n"
              f"{CHANNELS} channels, {TAPS} taps, blocks of {BLOCK} frames; highest rate with loss "
              f"under {LOSS_LIMIT:g} in {seconds:g} s\nand no backlog; latency from capture to arrival at 80 % of "
              "that rate, the block's filling included", flush=True)
        for wire in formats:
            errors = {}
            for program in programs:
                errors[program], limit = bench.error(program, wire)
                if not errors[program] < limit:
                    print(f"  {program.name} {wire}: WRONG: error {errors[program]:.2e}, "
                          f"allowed {limit:.2e}")
                    failed = True
            capacity = bench.capacity(programs, wire, start, steps)
            for program in programs:
                rate = capacity[program]
                if rate is None:
                    print(f"  {program.name} {wire}: loses frames at {start / 1e6:g} MHz already")
                    failed = True
                    continue
                latency = bench.trials(program, wire, 0.8 * rate)["latency_us"]
                rows.append([program.name, program.variant, wire, errors[program], rate, latency])
    print(f"\n{'program':<10} {'variant':<18} {'format':<7} {'error':>8} {'MHz':>7} "
          f"{'Msamples/s':>11} {'block ms':>9} {'p50 ms':>8} {'p99 ms':>8} {'max ms':>8}")
    for name, variant, wire, error, rate, latency in rows:
        print(f"{name:<10} {variant:<18} {wire:<7} {error:8.1e} {rate / 1e6:7.2f} "
              f"{rate * CHANNELS / 1e6:11.1f} {BLOCK / (0.8 * rate) * 1e3:9.2f} "
              f"{latency['p50'] / 1e3:8.2f} {latency['p99'] / 1e3:8.2f} {latency['max'] / 1e3:8.2f}")
    if arguments.csv:
        new = not os.path.exists(arguments.csv)
        with open(arguments.csv, "a", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            if new:
                table.writerow(CSV_HEAD)
            stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
            for name, variant, wire, error, rate, latency in rows:
                table.writerow([
                    stamp, os.environ.get("BENCH_COMMIT", ""), machine(), name, variant, wire,
                    CHANNELS, TAPS, BLOCK, f"{error:.3g}", f"{rate:.0f}",
                    f"{rate * CHANNELS / 1e6:.2f}", f"{latency['p50']:.0f}",
                    f"{latency['p99']:.0f}", f"{latency['max']:.0f}"])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
