"""One stream at a modest rate beside faults of everything else: its p99.9, quiet and through each fault.

A daemon runs the stream that is measured (48 kHz, 2 channels, blocks of 2 ms) beside another one; then the
fault comes. Each run measures both phases, runs of all faults take turns, and the first row has no fault, so
that what the machine does by itself is seen. Latencies are those that the daemon writes into every result:
last frame of the block received to result built, from the kernel's receive times on.

    nothing       the second phase is like the first
    flood         another stream is sent as many packets as go through loopback
    unread        its standard output and its subscriber over TCP stop reading
    hung disk     the thread that writes its recording hangs in a write, for ever
    reload        it is reloaded with another filter, every second
    long filter   it changes over OSC between a short and a long filter, every second
    overload      a stream of lower priority needs several times what the device can do; its blocks are shed
    device loss   another stream's device hangs for longer than its deadline, is lost, and comes back, time
                  and again; that stream has a filter of 1.4 s and moves to the device of the measured one
                  meanwhile. Two engines on the CPU stand for two devices, so both take the same cores

bench/bars.csv says what the ratio may be; `BENCH_ONLY=isolation make bench` runs this alone.
"""
import argparse
import math
import os
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "e2e"))
import convolvd as c  # noqa: E402
import osc_client  # noqa: E402
from rows import append  # noqa: E402

RATE, CHANNELS, BLOCK, TAPS = 48000, 2, 96, 1023
DEADLINE_S = BLOCK / RATE
LONG_TAPS = 1 << 16
FAULTY = os.path.join(c.BUILD, "tests", "faulty_opencl.so")
LATE_MS = 500
GREEDY_RATE, GREEDY_TAPS, GREEDY_FFT = 1000000, 1 << 15, 1 << 16
SETTLE_S = 1.0
URGENT = -10  # niceness, where it is granted: other programs of this machine are not what is measured
STAGES = ("ingest", "wait", "device", "egress")


def real_time(threads):
    """These threads at one real-time priority, where that is granted."""
    for thread in threads:
        try:
            os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(10))
        except OSError:
            pass


class Latencies(threading.Thread):
    """What each result of an RTP sink says of its own way in the phase that runs: (all, *STAGES), in s."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.socket.bind(("127.0.0.1", port))
        self.socket.settimeout(0.2)
        self.phase = None
        self.ends = False
        self.start()

    def run(self):
        while not self.ends:
            try:
                packet = self.socket.recv(65536)
            except socket.timeout:
                continue
            elements, end = c.header_elements(packet)
            phase = self.phase
            if phase is not None and len(packet) > end:
                stages = [1e-7 * v for v in (*struct.unpack(">IIII", elements[2])[1:], *struct.unpack_from(">I", elements[3], 8))]
                phase.append((sum(stages), *stages))

    def measure(self, seconds):
        self.phase = []
        time.sleep(seconds)
        phase, self.phase = self.phase, None
        return phase

    def finish(self):
        self.ends = True
        self.join()
        self.socket.close()


class Unread:
    """The daemon's standard output, read until the fault comes."""

    def __init__(self, pipe):
        self.pipe, self.reads = pipe, True
        os.set_blocking(pipe.fileno(), False)
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while self.reads:
            if not self.pipe.read(1 << 20):
                time.sleep(0.005)


class Run:
    """One daemon, its measured stream and the other ones."""

    def __init__(self, folder, fault, device, cold):
        self.folder, self.fault, self.device = folder, fault, device
        self.ports = {name: c.free_port() for name in ("probe", "other", "greedy", "out", "osc", "greedy out")}
        for name, taps in (("short", TAPS), ("other", TAPS - 2), ("long", LONG_TAPS), ("greedy", GREEDY_TAPS)):
            np.save(os.path.join(folder, f"{name}.npy"), c.random_taps(taps, taps))
        self.rigs = []
        self.path = os.path.join(folder, "bench.conf")
        self.gate = os.path.join(folder, "gate")
        self.environment = {**os.environ, "RUNTIME_DIRECTORY": folder}
        if cold:
            self.environment |= {"CACHE_DIRECTORY": os.path.join(folder, "cache"), "CUDA_CACHE_PATH": os.path.join(folder, "cuda"),
                                 "POCL_CACHE_DIR": os.path.join(folder, "pocl")}
        if fault == "device loss":  # the engine that opens first is the other stream's
            self.environment |= {"LD_PRELOAD": FAULTY, "FAULTY_MODE": "late", "FAULTY_CALL": "1", "FAULTY_MS": str(LATE_MS),
                                 "FAULTY_GATE": self.gate, "FAULTY_CONTEXTS": "99", "FAULTY_DEVICE": "first", "POCL_DEVICES": "pthread pthread"}

    def stream(self, name, rate, filter_name, keys):
        return (f"[stream {name}]\nsource = rtp\naddress = 127.0.0.1:{self.ports[name]}\nrate = {rate} Hz\n"
                f"channels = {CHANNELS}\nformat = L16\nfilter = {filter_name}\n{keys}\n")

    def write_config(self, other_filter="other"):
        loss = self.fault == "device loss"
        text = "[daemon]\nstatus on exit = no\n\n[device]\n" + ("device = 1, 0\nbatch deadline = 100 ms\n\n" if loss else f"device = {self.device}\n\n")
        other = f"block = {BLOCK} frames\n" + ("priority = 10\n" if loss else "")
        text += self.stream("other", RATE, "long" if loss else other_filter, other)
        text += self.stream("probe", RATE, "short", f"block = {BLOCK} frames\n" + ("device = 0\n" if loss else ""))
        if self.fault == "overload":
            text += self.stream("greedy", GREEDY_RATE, "greedy", f"block = 64 frames\nfft = {GREEDY_FFT}\npriority = 10\n")
            text += c.rtp_sink("greedy", "greedy", self.ports["greedy out"])
            text += c.file_filter("greedy", os.path.join(self.folder, "greedy.npy"))
        text += c.rtp_sink("out", "probe", self.ports["out"])
        text += (f"[sink file]\ntype = recording\nstream = other\npath = {self.folder}/other.wav\nqueue = 4 MiB\n"
                 "[sink pipe]\ntype = stdout\nstream = other\n"
                 f"[osc]\naddress = 127.0.0.1:{self.ports['osc']}\ntcp address = 127.0.0.1:{self.ports['osc']}\n")
        for name in ("short", "other", "long"):
            text += c.file_filter(name, os.path.join(self.folder, f"{name}.npy"))
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(self.path + ".new", self.path)

    def rig(self, name, rate, *arguments):
        niceness = 0 if name == "probe" else URGENT
        self.rigs.append(subprocess.Popen(
            [os.path.join(c.BUILD, "convolv-rig"), "--to", f"127.0.0.1:{self.ports[name]}", "--signal", "noise", "--channels",
             str(CHANNELS), "--rate", str(rate), "--packet", str(BLOCK), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: os.nice(-niceness)))

    def wait_running(self, log):
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            with open(log, encoding="utf-8", errors="replace") as file:
                if "running:" in file.read():
                    return
            if self.daemon.poll() is not None:
                break
            time.sleep(0.05)
        with open(log, encoding="utf-8", errors="replace") as file:
            sys.exit(f"bench_isolation: the daemon did not start:\n{file.read()}")

    def every_second(self, action):
        """Calls action(turn) each second of the phase that follows."""
        def run():
            turn = 0
            while not self.over.wait(1.0 if turn else 0.1):
                turn += 1
                action(turn)
        thread = threading.Thread(target=run, daemon=True)
        thread.start()

    def reload(self, turn):
        self.write_config("short" if turn % 2 else "other")
        self.daemon.send_signal(signal.SIGHUP)

    def begin(self):
        """The fault."""
        if self.fault == "flood":
            self.rig("other", RATE, "--flat-out", "--seconds", "3600", "--ssrc", "1380533505")
        elif self.fault == "unread":
            self.unread.reads = False
            self.subscriber = osc_client.Tcp(self.ports["osc"])
            self.subscriber.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.subscriber.send(osc_client.message("/convolvd/other/subscribe", "s", "results"))
        elif self.fault == "hung disk":
            self.daemon.send_signal(c.WEDGES["writer"])
        elif self.fault == "reload":
            self.every_second(self.reload)
        elif self.fault == "long filter":
            client = osc_client.Client(self.ports["osc"])
            self.every_second(lambda turn: client.send("/convolvd/other/filter", "s", "long" if turn % 2 else "other"))
        elif self.fault == "device loss":
            self.every_second(lambda turn: open(self.gate, "w", encoding="ascii").close())
        elif self.fault == "overload":
            self.rig("greedy", GREEDY_RATE, "--seconds", "3600")

    def measure(self, seconds):
        """(quiet latencies, latencies through the fault, the measured stream's status)."""
        self.write_config()
        self.over = threading.Event()
        log = os.path.join(self.folder, "log")
        status = os.path.join(self.folder, "status.json")
        latencies = Latencies(self.ports["out"])
        with open(log, "wb") as errors:
            self.daemon = subprocess.Popen([os.path.join(c.BUILD, "convolvd-test"), "--config", self.path, "--status-json", status],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors,
                                           env=self.environment)
        try:
            self.unread = Unread(self.daemon.stdout)
            self.wait_running(log)
            # All threads, as docs/operations.md says for a machine that has nothing as urgent to do. In overload, where
            # compute threads would take every core from the loop, the loop alone, as the daemon does by itself.
            pid = self.daemon.pid
            real_time([pid] if self.fault == "overload" else os.listdir(f"/proc/{pid}/task"))
            self.rig("probe", RATE, "--seconds", "3600")
            if self.fault != "flood":
                self.rig("other", RATE, "--seconds", "3600")
            time.sleep(SETTLE_S)
            quiet = latencies.measure(seconds)
            self.begin()
            loud = latencies.measure(seconds)
            self.over.set()
            time.sleep(0.3)
            figures = None
            if self.daemon.poll() is None:
                self.daemon.send_signal(signal.SIGUSR1)
                time.sleep(0.7)
                shown = c.load_json(status)
                figures = next((s for s in shown["streams"] if s["name"] == "probe"), None)
                if self.fault == "device loss" and sum(d["losses"]["stalled"] for d in shown["devices"]) == 0:
                    sys.exit("bench_isolation: no device was lost")
                if self.fault == "overload":
                    greedy = next(s for s in shown["streams"] if s["name"] == "greedy")
                    sheds = sum(greedy["frames_out"]["shed"].values()) + sum(greedy["frames_in"]["gap"].values())
                    self.greedy_share = sheds / max(1, greedy["frames_in"]["timeline"])
                    if self.greedy_share < 0.1:
                        sys.exit(f"bench_isolation: {self.device} kept up with it ({self.greedy_share:.0%} shed): this was no overload")
            return quiet, loud, figures
        finally:
            self.over.set()
            for rig in self.rigs:
                rig.kill()
                rig.wait()
            self.unread.reads = False
            self.daemon.kill()
            self.daemon.wait()
            latencies.finish()


def quantile(results, q, part=0):
    ordered = sorted(result[part] for result in results)
    return ordered[min(len(ordered) - 1, math.ceil(q * len(ordered)) - 1)] if ordered else math.nan


FAULTS = ("nothing", "flood", "unread", "hung disk", "reload", "long filter", "overload", "device loss")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv")
    parser.add_argument("--seconds", type=float, default=5, help="of each phase")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--device", default="cpu", help="as in the configuration; a device loss takes two on the CPU")
    parser.add_argument("--cold", action="store_true", help="each run begins with empty caches of compiled kernels")
    parser.add_argument("--only", action="append", choices=FAULTS)
    parser.add_argument("--quick", action="store_true", help="one round of 3 s")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seconds, arguments.rounds = 3, 1
    global URGENT
    try:
        os.nice(URGENT)
    except OSError:
        URGENT = 0
    faults = arguments.only or FAULTS
    quiet, loud = {f: [] for f in faults}, {f: [] for f in faults}
    ratios, shed = {f: [] for f in faults}, {f: 0 for f in faults}
    greedy_shares = []
    for _ in range(arguments.rounds):
        for fault in faults:
            with tempfile.TemporaryDirectory(prefix="convolvd-bench-") as folder:
                run = Run(folder, fault, arguments.device, arguments.cold)
                before, during, figures = run.measure(arguments.seconds)
            if fault == "overload":
                greedy_shares.append(run.greedy_share)
            quiet[fault].append(before)
            loud[fault].append(during)
            ratios[fault].append(quantile(during, 0.999) / quantile(before, 0.999))
            shed[fault] += sum(figures["frames_out"]["shed"].values()) + sum(figures["frames_in"]["gap"].values()) if figures else 0
    print(f"p99.9 of a stream of {RATE / 1000:g} kHz, {CHANNELS} channels, blocks of {1000 * DEADLINE_S:g} ms, {TAPS} taps; "
          f"{arguments.rounds} times {arguments.seconds:g} s each, in turns")
    print(f"{'fault':12} {'quiet':>10} {'fault':>10} {'ratio':>6} {'of rounds, median':>19} {'late quiet':>11} {'late':>7} {'lost':>6} {'blocks':>7}  {'p50, p99':>18}"
          "   p99.9 by stage: " + ", ".join(STAGES))
    rows = []
    for fault in faults:
        all_quiet, all_loud = sum(quiet[fault], []), sum(loud[fault], [])
        ours, peer = quantile(all_loud, 0.999), quantile(all_quiet, 0.999)
        spread, middle = f"{min(ratios[fault]):.2f}-{max(ratios[fault]):.2f}", statistics.median(ratios[fault])
        late = [sum(result[0] > DEADLINE_S for result in results) for results in (all_quiet, all_loud)]
        print(f"{fault:12} {1e6 * peer:7.0f} us {1e6 * ours:7.0f} us {ours / peer:6.2f} {spread:>12} {middle:6.2f} {late[0]:11} {late[1]:7} "
              f"{shed[fault]:6} {len(all_loud):7}  {1e6 * quantile(all_loud, 0.5):6.0f}, {1e6 * quantile(all_loud, 0.99):7.0f} us   "
              + ", ".join(f"{1e6 * quantile(all_loud, 0.999, 1 + i):.0f}" for i in range(len(STAGES))) + " us")
        rows.append({"what": "p99.9 beside a fault", "shape": fault, "ours": f"{1e6 * ours:.1f}", "peer": f"{1e6 * peer:.1f}",
                     "ratio": f"{ours / peer:.3f}", "bar": "<=2", "unit": "us", "median": f"{middle:.3f}",
                     "spread": spread, "error": "0", "command": " ".join(["bench/bench_isolation.py", *sys.argv[1:]])})
    if greedy_shares:
        print(f"overload: {min(greedy_shares):.0%} to {max(greedy_shares):.0%} of the other stream's frames were shed")
    if arguments.csv:
        append(arguments.csv, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
