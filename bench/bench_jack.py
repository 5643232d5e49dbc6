"""Sound cards: convolvd beside jconvolver on one JACK server (`jackd -d dummy`), in turns.

    round trip   frames that a program adds between its inputs and its outputs, counted by a client that
                 plays and captures in the same cycles, less what a client that only copies adds; and the
                 CPU time it takes, in percent of one core
    channels     how many times 64 channels are carried at a period of 256 frames: no cycle late or left
                 out, and what comes out equals the definition, in each of the trials

Every channel has a filter of its own of 4096 taps. convolvd in direct mode and, for comparison, as it is
without it. Both programs' ports hang on the dummy driver's; the server's cycles do not wait (JACK's
asynchronous mode), and have real-time priority where that is allowed. Each stream of convolvd is a client
in a process of its own, so JACK runs the streams on all cores, as it does jconvolver's instances. The streams
name a small ring, so that the processor and not the default input memory ends the count. A server has 4096 ports at most:
where both programs carry as many channels as that, `taskset` leaves them fewer cores.

A machine that pauses for longer than a period lets neither program through, however few its channels. A server with a
slower clock (`--rate`) has the same cycles of 256 frames with more time between them: the work of a cycle is the same, for
both programs, and a pause is a smaller part of the period.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
from scipy.signal import fftconvolve

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "tests", "e2e"))
from jack_server import take_name  # noqa: E402
from rows import COLUMNS, append  # noqa: E402

BUILD = os.path.abspath(os.environ.get("CONVOLVD_BUILD", "build/gcc"))
CLIENT = os.path.join(BUILD, "tests", "jack_client")
RATE, TAPS = 48000, 4096  # RATE: unless --rate says otherwise
ERROR_MAX = 1e-5  # of float32 programs against double; a late cycle makes it 1e-2 and more
PORTS = 4096  # of a server, which has no more
LIMIT = (PORTS - 2 * 64 - 1) // (2 * 64 + 1)  # times 64 channels: ports of the driver, the clients and the rig


class Server:
    name = take_name()

    def __init__(self, ports, period):
        os.environ.update(JACK_DEFAULT_SERVER=self.name, JACK_NO_AUDIO_RESERVATION="1")
        command = ["jackd", "-n", self.name, "-R", "-P", "60", "-p", str(PORTS), "-d", "dummy", "-r", str(RATE), "-p", str(period),
                   "-C", str(ports), "-P", str(ports)]
        for _ in range(3):
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL)
            waited = subprocess.run(["jack_wait", "-s", command[2], "-w", "-t", "20"], stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL, check=False)
            if waited.returncode == 0 and self.process.poll() is None:
                return
            end(self.process)
            Server.name = self.name = take_name()  # somebody left a server of that name running
            os.environ["JACK_DEFAULT_SERVER"] = self.name
            command[2] = self.name
        raise RuntimeError("jackd does not start")

    def has(self, port):
        return port in subprocess.run(["jack_lsp", "-s", self.name], capture_output=True, text=True, check=False).stdout.split()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        end(self.process)


def end(process):
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Convolvd:
    """Streams of `channels` each; mode direct, or continuous (the engine, one period later)."""

    def __init__(self, folder, channels, instances, period, mode, taps):
        self.name, self.channels, self.instances = f"convolvd {mode}", channels, instances
        np.save(os.path.join(folder, "f.npy"), taps)
        card = "card = system\nhost api = jack\nduplex = yes\n"
        text = "[daemon]\nstatus on exit = no\n[device]\ndevice = cpu\n[filter f]\ntype = file\npath = f.npy\ndelay = 0 frames\n"
        for k in range(instances):
            text += (f"[stream s{k}]\nsource = portaudio\n{card}rate = {RATE} Hz\nchannels = {channels}\nmode = {mode}\n"
                     f"block = {period} frames\nbuffer = 100 ms\nbank = f\n[sink y{k}]\ntype = portaudio\nstream = s{k}\n{card}\n")
        path = os.path.join(folder, "convolvd.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        self.log = os.path.join(folder, "log")
        with open(self.log, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([os.path.join(BUILD, "convolvd"), "--config", path, "--variant", "host"],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            env={**os.environ, "RUNTIME_DIRECTORY": folder})
        while "running:" not in self.said():
            if self.process.poll() is not None:
                raise RuntimeError(self.said())
            time.sleep(0.05)

    def said(self):
        with open(self.log, encoding="utf-8") as log:
            return log.read()

    def refused(self):
        """What it says of streams that do not run."""
        return " ".join(line for line in self.said().splitlines() if "sound" in line or "direct" in line)[:300]

    def inputs(self, k):
        return [f"convolvd-s{k}:in_{i}" for i in range(self.channels)]

    def outputs(self, k):
        return [f"convolvd-s{k}:out_{i}" for i in range(self.channels)]

    def processes(self):
        """The daemon and the helper of each card."""
        return [self.process.pid] + [int(pid) for pid in children(self.process.pid)]

    def stop(self):
        end(self.process)


class Jconvolver:
    """Instances of at most 64 channels, which is what it takes."""

    def __init__(self, folder, channels, instances, period, taps):
        self.name, self.channels, self.instances, self.running = "jconvolver", channels, instances, []
        for i in range(channels):
            write_wav(os.path.join(folder, f"f{i}.wav"), taps[i])
        for k in range(instances):
            path = os.path.join(folder, f"{k}.conf")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"/jack/client jc{k}\n/convolver/new {channels} {channels} {period} {TAPS} {1 / channels:.6f}\n"
                           f"/cd {folder}\n")
                for i in range(1, channels + 1):
                    file.write(f"/input/name {i} in_{i - 1} system:capture_{i}\n/output/name {i} out_{i - 1} system:playback_{i}\n"
                               f"/impulse/read {i} {i} 1 0 0 0 1 f{i - 1}.wav\n")
            self.running.append(subprocess.Popen(["jconvolver", path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.DEVNULL))

    def inputs(self, k):
        return [f"jc{k}:in_{i}" for i in range(self.channels)]

    def outputs(self, k):
        return [f"jc{k}:out_{i}" for i in range(self.channels)]

    def processes(self):
        return [process.pid for process in self.running]

    def refused(self):
        return f"{sum(process.poll() is not None for process in self.running)} of {len(self.running)} ended"

    def stop(self):
        for process in self.running:
            end(process)


class Copy(Jconvolver):
    """tests/e2e/jack_client.c: passes on what comes; nothing can be quicker."""

    def __init__(self, channels):
        self.name, self.channels, self.instances = "copy", channels, 1
        self.running = [subprocess.Popen([CLIENT, "--name", "copy", "--through", str(channels)], stdin=subprocess.DEVNULL,
                                         stdout=subprocess.DEVNULL)]

    def inputs(self, k):
        return [f"copy:in_{i + 1}" for i in range(self.channels)]

    def outputs(self, k):
        return [f"copy:out_{i + 1}" for i in range(self.channels)]


def children(pid):
    """Processes whose parent it is, whichever of its threads started them."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as file:
                if int(file.read().rpartition(")")[2].split()[1]) == pid:
                    found.append(entry)
        except OSError:
            pass  # it has ended
    return found


def cpu_s(pids):
    """CPU time of all threads of these processes so far, by the scheduler's own clock: ticks miss what runs
    between two of them, as callbacks do."""
    total = 0
    for pid in pids:
        for thread in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="utf-8") as file:
                    total += int(file.read().split()[0])
            except OSError:
                pass  # it has ended
    return total * 1e-9


def write_wav(path, taps):
    """32-bit float WAV of one channel."""
    body = np.asarray(taps, "<f4").tobytes()
    head = b"fmt " + np.array([16], "<u4").tobytes() + np.array([3, 1], "<u2").tobytes() \
        + np.array([RATE, 4 * RATE], "<u4").tobytes() + np.array([4, 32], "<u2").tobytes()
    with open(path, "wb") as file:
        file.write(b"RIFF" + np.array([4 + len(head) + 8 + len(body)], "<u4").tobytes() + b"WAVE" + head
                   + b"data" + np.array([len(body)], "<u4").tobytes() + body)


def wait_ports(server, program):
    until = time.monotonic() + 20 + 30 * program.instances * 48000 / RATE  # a slow clock takes seconds for the ports of a stream
    while not server.has(program.outputs(program.instances - 1)[-1]) or not server.has(program.inputs(program.instances - 1)[-1]):
        if time.monotonic() > until:
            raise RuntimeError(f"{program.name}: no ports: {program.refused()}")
        time.sleep(0.1)
    time.sleep(0.5)


def play(folder, program, x, frames, outs, trials=1):
    """One signal into every input; outs: the outputs captured. With a cycle that was late it plays again, up to so many times.
    Returns capture, account, CPU share of the last run."""
    x.astype("<f4").tofile(os.path.join(folder, "in.f32"))
    command = [CLIENT, "--name", "rig", "--play", os.path.join(folder, "in.f32"), "--outputs", "1", "--capture",
               os.path.join(folder, "out.f32"), "--inputs", str(len(outs)), "--frames", str(frames), "--timeout", "600", "--trials", str(trials)]
    for k in range(program.instances):
        for port in program.inputs(k):
            command += ["--connect", f"rig:out_1>{port}"]
    for i, port in enumerate(outs):
        command += ["--connect", f"{port}>rig:in_{i + 1}"]
    rig = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    while "ready" not in (line := rig.stdout.readline()):
        if not line:
            raise RuntimeError(f"jack_client ended with {rig.wait()}")
    accounts = []
    began, before = time.monotonic(), cpu_s(program.processes())
    for line in rig.stdout:
        accounts.append(json.loads(line))
        now, used = time.monotonic(), cpu_s(program.processes())
        share, began, before = (used - before) / (now - began), now, used
    rig.wait()
    if not accounts:
        raise RuntimeError(f"jack_client ended with {rig.returncode}")
    account = dict(accounts[-1], before=[f"{one['xruns']} xruns, {one['missed_frames']} frames missed" for one in accounts[:-1]])
    rig.stdout.close()
    return np.fromfile(os.path.join(folder, "out.f32"), "<f4").reshape(-1, len(outs)), account, share


def compare(got, x, taps, delay):
    """Relative error of what came `delay` frames later, over the bound's reference."""
    want = fftconvolve(x, taps)[:len(got) - delay]
    rest = got[delay:delay + len(want)] - want
    return float(np.linalg.norm(rest) / (np.abs(np.fft.rfft(taps, 4 * len(taps))).max() * np.linalg.norm(x)))


def delay_of(got, x, taps):
    """Frames by which the definition comes later: the peak of the correlation with it."""
    want = fftconvolve(x, taps)[:len(got)]
    size = 2 * len(got)
    peak = np.fft.irfft(np.fft.rfft(got, size) * np.conj(np.fft.rfft(want, size)), size)
    return int(np.argmax(peak[:len(got)]))


def make(name, folder, channels, instances, period, taps):
    if name == "jconvolver":
        return Jconvolver(folder, channels, instances, period, taps)
    return Convolvd(folder, channels, instances, period, name.split()[1], taps)


def round_trip(name, channels, period, taps, seconds):
    """(frames, CPU share, error); frames is None when the program refused."""
    x = np.random.default_rng(period).normal(0, 0.1, int(seconds * RATE))
    with tempfile.TemporaryDirectory(prefix="convolvd-bench-") as folder, Server(channels, period) as server:
        program = Copy(channels) if name == "copy" else make(name, folder, channels, 1, period, taps)
        try:
            wait_ports(server, program)
            got, account, share = play(folder, program, x, len(x), [program.outputs(0)[-1]])
        finally:
            program.stop()
    if account["missed_frames"] or account["xruns"]:
        return None, share, account
    h = np.ones(1) if name == "copy" else taps[channels - 1]
    delay = delay_of(got[:, 0].astype(float), x, h)
    return delay, share, compare(got[:, 0].astype(float), x, h, delay)


def carries(name, instances, period, taps, seconds, trials, note):
    """Whether so many times 64 channels go through without a late cycle, in one of the trials. All are on the same connections,
    which take far longer to make."""
    x = np.random.default_rng(instances).normal(0, 0.1, int(seconds * RATE))
    with tempfile.TemporaryDirectory(prefix="convolvd-bench-") as folder, Server(64, period) as server:
        try:
            program = make(name, folder, 64, instances, period, taps)
        except RuntimeError as refused:
            note(f"{name} {instances} × 64: {str(refused).strip().splitlines()[-1][:200]}")
            return False, 0, 0
        try:
            wait_ports(server, program)
            got, account, share = play(folder, program, x, len(x), [program.outputs(k)[-1] for k in range(instances)], trials)
        except RuntimeError as failed:
            note(f"{name} {instances} × 64: {failed}")
            return False, 0, 0
        finally:
            program.stop()
    error = 0.0
    for k in range(instances):
        wave_k = got[:, k].astype(float)
        error = max(error, compare(wave_k, x, taps[63], delay_of(wave_k, x, taps[63])))
    good = account["xruns"] == 0 and account["missed_frames"] == 0 and error < ERROR_MAX
    note(f"{name} {instances} × 64: {account['xruns']} xruns, {account['missed_frames']} frames missed, error {error:.1e}, "
         f"{100 * share:.0f} % of a core" + "".join(f"; before that {text}" for text in account["before"]))
    return good, share, error


def most(name, period, taps, seconds, trials, first, limit, note):
    """The largest count that goes through, found by doubling from `first` and then halving the distance; each has several
    trials."""
    best, over, count, figures = 0, limit + 1, min(first, limit), (False, 0, 0)
    while over - best > 1:
        now = carries(name, count, period, taps, seconds, trials, note)
        if now[0]:
            best, figures = count, now
        else:
            over = count
        count = min(2 * best, limit) if over > limit else (best + over) // 2
    return best, figures


def main():
    global RATE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--csv")
    parser.add_argument("--quick", action="store_true", help="fewer shapes, shorter")
    parser.add_argument("--seconds", type=float, help="of each trial")
    parser.add_argument("--limit", type=int, default=LIMIT, help="the most times 64 channels tried")
    parser.add_argument("--first", default="1", metavar="N[,M]",
                        help="how many times 64 channels the search begins with: convolvd's, and jconvolver's where it is another")
    parser.add_argument("--trials", type=int, default=3, help="of a count of channels, until one is good")
    parser.add_argument("--only", choices=["trip", "channels"])
    parser.add_argument("--rate", type=int, default=RATE, help="of the server, in Hz")
    arguments = parser.parse_args()
    RATE = arguments.rate
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("bench_jack: ended"))  # the server, which heads a process group, too
    missing = [program for program in ("jackd", "jack_lsp", "jconvolver") if shutil.which(program) is None]
    if missing or not os.path.exists(CLIENT):
        print(f"bench_jack: no {', '.join(missing) or CLIENT}: nothing to compare with; 'make deps' installs it")
        return 0
    seconds = arguments.seconds or (2 if arguments.quick else 4)
    random = np.random.default_rng(1)
    taps = random.normal(0, 1, (64, TAPS)) * np.exp(-np.arange(TAPS) / 700)
    taps /= np.abs(taps).sum(axis=1, keepdims=True)
    command = "again: " + " ".join(sys.argv)
    rows = []

    def row(what, shape, ours, peer, ratio, bar, unit, error):
        rows.append(dict(zip(COLUMNS, [what, shape, ours, peer, ratio, bar, unit, ours, 0, f"{error:.2e}", " ".join(sys.argv)])))

    if arguments.only != "channels":
        print(f"JACK round trip, {TAPS} taps a channel: frames added, and % of a core")
        print(f"{'period':>6} {'channels':>8}  " + "".join(f"{name:>26}" for name in ("direct", "continuous", "jconvolver")))
        for period in ((256,) if arguments.quick else (64, 256)):
            for channels in ((2, 64) if arguments.quick else (2, 8, 64)):
                figures = {}
                for name in ("copy", "convolvd direct", "convolvd continuous", "jconvolver"):
                    for _ in range(4):  # a cycle that was late: once more
                        try:
                            figures[name] = round_trip(name, channels, period, taps, seconds)
                        except RuntimeError as error:
                            print(f"# {name}: {str(error).strip().splitlines()[-1][:300]}")
                            figures[name] = (None, 0, 0)
                        if figures[name][0] is not None:
                            break
                own = figures["copy"][0]
                shown = []
                for name in ("convolvd direct", "convolvd continuous", "jconvolver"):
                    delay, share, error = figures[name]
                    shown.append("late or refused" if delay is None or own is None
                                 else f"{delay - own} frames, {100 * share:.1f} %, {error:.0e}")
                print(f"{period:>6} {channels:>8}  " + "".join(f"{text:>26}" for text in shown), flush=True)
                ours, peer = figures["convolvd direct"], figures["jconvolver"]
                if None not in (own, ours[0], peer[0]):
                    row("jack delay", f"period={period} channels={channels} taps={TAPS}", ours[0] - own, peer[0] - own,
                        ours[0] - peer[0], "<=0", "frames", ours[2])
                    row("jack processor time", f"period={period} channels={channels} taps={TAPS}", f"{100 * ours[1]:.2f}",
                        f"{100 * peer[1]:.2f}", f"{ours[1] / max(peer[1], 1e-4):.3f}", "", "% of a core", ours[2])
    if arguments.only != "trip":
        print(f"JACK channels carried at period 256, {RATE} Hz, {TAPS} taps each, times 64")
        note = lambda text: print(f"# {text}", flush=True)
        trials = 1 if arguments.quick else arguments.trials
        limit = 6 if arguments.quick else min(arguments.limit, LIMIT)
        first = [int(count) for count in arguments.first.split(",")] * 2
        best = {name: most(name, 256, taps, seconds, trials, first[k], limit, note)
                for k, name in enumerate(("convolvd direct", "jconvolver"))}
        for name, (count, (_, share, _)) in best.items():
            more = " or more" if count >= limit else ""
            print(f"{name:>20}: {count} × 64{more}, {100 * share:.0f} % of a core")
        ours, peer = best["convolvd direct"], best["jconvolver"]
        if ours[0] and peer[0] and min(ours[0], peer[0]) < limit:  # else who carries more was not asked
            row("jack channels", f"period=256 rate={RATE} taps={TAPS} cores={len(os.sched_getaffinity(0))}", 64 * ours[0], 64 * peer[0],
                f"{ours[0] / peer[0]:.3f}", ">=2", "channels", ours[1][2])
    if arguments.csv and rows:
        append(arguments.csv, rows)
    print(command)
    return 0


if __name__ == "__main__":
    sys.exit(main())
