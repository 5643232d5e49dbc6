#!/usr/bin/python3
"""make demo-cluster: a simulated rig → UDP → gateway → NATS JetStream → two workers → NATS JetStream → tap. The
worker that computes is killed, the other one then stopped for 10 s, and the server killed and started again: each time
another one goes on, or the same one again.

    clients/demo_cluster.py BUILD_FOLDER [SECONDS]

What the rig will send is written down first and convolved by numpy in double. convolv-tap compares every frame of
the log with that, by frame number; then each record of the log is read by its sequence number: its frames have to
begin where those of the record before end. Everything runs on loopback, in a folder of its own, and ends with this
program. Server and records are those of tests/e2e.
"""
import os
import signal
import subprocess
import sys
import time

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "e2e"))

import cluster_world
import convolvd
import demo as single
import nats_servers
from demo import say

RATE_HZ = 200_000
SENSORS = 4
WORKERS = ("a", "b")
RIG = ["--format", "L16", "--channels", str(SENSORS), "--rate", str(RATE_HZ), "--signal", "ae", "--amplitude", "0.4",
       "--frequency", "60 kHz", "--arrivals", "40", "--rise", "50 us", "--decay", "300 us", "--channel-delay", "35 us",
       "--noise", "0.002", "--seed", "4217"]

BOTH = """[cluster]
servers = {url}
identity = {name}
[stream rig]
rate = {rate} Hz
channels = {sensors}
format = L16
block = 1024 frames
"""
GATEWAY = BOTH + """source = rtp
address = 127.0.0.1:{port}
filter = through
[filter through]
type = identity
[sink raw]
type = nats
stream = rig
partition = rig
record = input
"""
WORKER = BOTH + """source = nats
partition = rig
filter = band
[filter band]
type = bandpass
low = 30 kHz
high = 80 kHz
transition = 8 kHz
attenuation = 70 dB
[sink log]
type = nats
stream = rig
partition = rig
"""


class ClusterDemo(single.Demo):
    def __init__(self, build, seconds, servers):
        super().__init__(build, seconds)
        self.server = servers[0]
        self.port = convolvd.free_port()
        self.daemons = {}

    def write_config(self, name, text):
        path = self.path(f"{name}.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.format(url=self.server.url, name=name, rate=RATE_HZ, sensors=SENSORS, port=self.port))
        return path

    def prepare(self):
        say(f"1  rig: {SENSORS} sensors at {RATE_HZ / 1e3:g} kHz, 16 bits, acoustic emission, {self.seconds:g} s; "
            "writing down what it will send")
        subprocess.run([self.program("convolv-rig"), "--to", "127.0.0.1:9", *RIG, "--seconds", str(self.seconds), "--flat-out",
                        "--quiet", "--write", self.path("sent.npy")], check=True, cwd=self.folder)
        sent = numpy.load(self.path("sent.npy")).astype(float).reshape(-1, SENSORS)
        taps = self.design("band", self.write_config("design", WORKER))
        say(f"2  filter: band-pass of {len(taps)} taps; convolving in double for comparison")
        numpy.save(self.path("expected.npy"), numpy.stack([numpy.convolve(one, taps.real) for one in sent.T], axis=1))
        gain = single.peak_gain(taps)
        self.input_norm = gain * numpy.sqrt((sent ** 2).sum(axis=0)).max()
        self.input_peak = gain * numpy.abs(sent).max()
        self.frames = len(sent) + len(taps) - 1

    def start_daemon(self, name, text):
        runtime = self.path(f"run-{name}")
        os.makedirs(runtime, 0o700, exist_ok=True)
        with open(self.path(f"{name}.log"), "w", encoding="utf-8") as log:
            self.daemons[name] = self.start([self.program("convolvd"), "--config", self.write_config(name, text)],
                                            stdout=subprocess.DEVNULL, stderr=log, env={**os.environ, "RUNTIME_DIRECTORY": runtime})
        self.wait_for(f"{name}.log", "running:", self.daemons[name])

    def start_cluster(self):
        say(f"3  cluster: nats-server at {self.server.url}, a gateway, workers a and b")
        self.start_daemon("gateway", GATEWAY)
        for name in WORKERS:
            self.start_daemon(name, WORKER)
        self.wait_for("gateway.log", "owns the raw of partition rig", self.daemons["gateway"])
        say(f"   worker {self.owner()} owns the log of partition rig; the other one waits")

    def owner(self, but=None):
        """The living worker whose log says last that it owns the partition; another one than `but`, which is stopped."""
        until = time.monotonic() + 30
        while time.monotonic() < until:
            for name in WORKERS:
                said = [line for line in self.read(f"{name}.log").splitlines() if "the log of partition rig" in line]
                if name != but and self.daemons[name].poll() is None and said and "from term" in said[-1]:
                    return name
            time.sleep(0.02)
        raise RuntimeError("no worker takes the partition")

    def next_frame(self):
        """How far the results have got."""
        with nats_servers.Client(self.server.port) as client:
            last = client.state("convolvd:rig:log")["last_seq"]
            return cluster_world.Record(last, client.message("convolvd:rig:log", last)).next

    def show_rates(self, seconds):
        before, at = self.next_frame(), time.monotonic()
        for _ in range(max(1, round(seconds / 2))):
            time.sleep(2)
            frames, now = self.next_frame(), time.monotonic()
            rate = (frames - before) / (now - at)
            say(f"   worker {self.owner()}: results up to frame {frames}, {rate / 1e3:.0f} kHz × {SENSORS} sensors, "
                f"{rate * SENSORS * 2 / 1e6:.1f} MB/s in, {rate * SENSORS * 4 / 1e6:.1f} MB/s out")
            before, at = frames, now

    def run(self):
        self.start_cluster()
        with open(self.path("tap.log"), "w", encoding="utf-8") as report:
            tap = self.start([self.program("convolv-tap"), "--log", f"{self.server.url}/convolvd/rig", "--expect",
                              self.path("expected.npy"), "--input-norm", str(float(self.input_norm)), "--input-peak",
                              str(float(self.input_peak)), "--until-end", "--wait", "30 s", "--timeout", "20 s", "--ledger",
                              self.path("tap.json")], stdout=report, stderr=subprocess.STDOUT)
        say("4  streaming: rig → UDP → gateway → RAW → worker → LOG → tap, in real time")
        rig = self.start([self.program("convolv-rig"), "--to", f"127.0.0.1:{self.port}", *RIG, "--seconds", str(self.seconds),
                          "--ledger", self.path("rig.json"), "--quiet"])
        time.sleep(1)
        self.show_rates(self.seconds / 6)
        killed = self.owner()
        say(f"5  kill -9 of worker {killed}, which computes")
        self.daemons[killed].kill()
        self.daemons[killed].wait()
        say(f"   worker {self.owner()} goes on; {killed} is started again, and waits")
        self.start_daemon(killed, WORKER)
        self.show_rates(self.seconds / 6)
        self.stop_owner()
        self.restart_server()
        self.show_rates(self.seconds / 6)
        rig.wait(timeout=self.seconds + 30)
        time.sleep(0.3)
        self.daemons["gateway"].send_signal(signal.SIGTERM)  # what the rig has sent is appended, then the end of its epoch
        self.daemons["gateway"].wait(timeout=30)
        return tap.wait(timeout=30)

    def stop_owner(self):
        stopped, stop_s = self.owner(), min(10, self.seconds / 5)
        say(f"6  SIGSTOP of worker {stopped}, which computes, for {stop_s:g} s")
        self.daemons[stopped].send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        say(f"   worker {self.owner(but=stopped)} goes on")
        time.sleep(max(0, begun + stop_s - time.monotonic()))
        self.daemons[stopped].send_signal(signal.SIGCONT)
        self.wait_for(f"{stopped}.log", "no more", self.daemons[stopped])
        say(f"   SIGCONT: worker {stopped} is refused, and waits")

    def restart_server(self):
        say("7  kill -9 of the server, which is started again after 1 s")
        self.server.kill()
        time.sleep(1)
        self.server.start()
        at, until = self.next_frame(), time.monotonic() + 30
        while self.next_frame() <= at and time.monotonic() < until:
            time.sleep(0.05)
        say(f"   worker {self.owner()} goes on")

    def judge(self):
        """Counts from the records alone: where each begins, what its samples are, and how long no results came when the
        owner changed."""
        expected = numpy.load(self.path("expected.npy"))
        limit = 5e-6 * max(numpy.abs(expected).max(), self.input_peak)
        found = dict.fromkeys(("takes", "lost", "doubled", "wrong"), 0)
        at, last_ns, taken, standstills = 0, None, False, []
        with nats_servers.Client(self.server.port) as client:
            for number in range(1, client.state("convolvd:rig:log")["last_seq"] + 1):
                record = cluster_world.Record(number, client.message("convolvd:rig:log", number))
                if record.kind == "take":
                    found["takes"], taken = found["takes"] + 1, True
                if record.kind != "data":
                    continue
                found["lost"] += max(0, record.first - at)
                found["doubled"] += max(0, at - record.first)
                if taken and last_ns is not None:
                    standstills.append(((record.appended_ns - last_ns) / 1e9, record.first))
                got = numpy.frombuffer(record.samples, "<f4").reshape(-1, SENSORS)
                error = numpy.abs(got - expected[record.first:record.next]).max(axis=1)
                found["wrong"] += int(numpy.count_nonzero(~(error <= limit)))
                at, last_ns, taken = record.next, record.appended_ns, False
        found["lost"] += self.frames - at
        return found, standstills

    def summary(self, tap_status):
        found, standstills = self.judge()
        say("8  every record of the log, read by number, against the reference")
        say(f"   takeovers: {found['takes'] - 1}")
        for seconds, frame in standstills:
            say(f"   standstill {seconds:.2f} s, before frame {frame}")
        say(f"   lost = {found['lost']}, doubled = {found['doubled']}, wrong = {found['wrong']} of {self.frames} frames × "
            f"{SENSORS} sensors")
        good = (tap_status == 0 and len(standstills) >= 2
                and found == {"takes": found["takes"], "lost": 0, "doubled": 0, "wrong": 0})
        say("\ndemo-cluster: " + ("passed" if good else f"FAILED (tap {tap_status})"))
        if not good:
            say(self.read("tap.log") + "".join(self.read(f"{name}.log") for name in self.daemons))
        return 0 if good else 1


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with nats_servers.Servers() as servers:
        demo = ClusterDemo(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 50.0, servers)
        try:
            demo.prepare()
            return demo.summary(demo.run())
        finally:
            demo.close()


if __name__ == "__main__":
    sys.exit(main())
