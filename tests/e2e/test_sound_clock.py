#!/usr/bin/python3
# timeout: 480
# long: yes, two minutes of real time; test_clock_follow and test_playback_follow simulate the loop
# turns: yes
# takes-long: 86 s CPU in 253 s
"""Playback on another clock than its source: rigs paced at +150 and -150 ppm against a JACK server.

Two streams follow (`resample = auto`), two have the loop disabled; all four play for two minutes
side by side. Those that follow report the ppm right within 5, lose nothing, keep as much in the
buffer as at the start and sound like one clean sine; those that do not must fail the same
examination, or it would show nothing. The buffer holds 15 ms, less than the clocks part in two
minutes. A machine that stands still for longer than that empties it, loop or no loop: then the same
is done once more with 60 ms, where what the buffer holds tells the two apart, as soon as one that follows has begun anew.

A sleeper with a higher priority than all of them, on each processor, witnesses what the machine itself does. Where it
is late too often, before or during a measurement, JACK leaves out periods and the loop follows the machine's pauses:
nothing is told of the loop, and the test is skipped with the sleeper's figures.
CONVOLVD_CLOCK_SECONDS changes the time; below 110 s the loop's absence cannot show.
"""
import os
import resource
import signal
import subprocess
import sys
import time
import unittest

import numpy as np

import convolvd as c
import jack_server as jack

RATE = 48000
PPM = 150
SECONDS = float(os.environ.get("CONVOLVD_CLOCK_SECONDS", "122"))
BLOCK, PERIOD = 128, 256
LATENCIES = (720, 2880)
TONE = 997.0
# A stall of the machine bends the loop for some seconds; the median of this time does not see it.
LISTEN_S = 40
# Shares of the time for which a machine may be late by more than a millisecond: to measure at all, and to be told
# that a measurement failed because of the loop. By a period it may be late these times in a minute.
MEASURE_SHARE, BLAME_SHARE, LATE_PERIODS = 2e-2, 2e-3, 3
LOOK_S = 10 # at the machine, before the first measurement

STREAM = """
[stream {name}]
source = rtp
address = 127.0.0.1:{port}
format = f32be
rate = 48 kHz
channels = 1
block = {block} frames
bank = f

[sink {name}-play]
type = portaudio
stream = {name}
card = system
host api = jack
latency = {latency} frames
resample = {resample}
"""


def tone_residual(samples, frequency):
    """What the best sine of this frequency leaves, relative."""
    angle = 2 * np.pi * frequency / RATE * np.arange(len(samples))
    basis = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    rest = samples - basis @ np.linalg.lstsq(basis, samples, rcond=None)[0]
    return float(np.linalg.norm(rest) / np.linalg.norm(samples))


def levels(daemon):
    """Frames waiting before the card, by stream; the mean of several looks, since blocks and periods come and go."""
    looks = []
    for _ in range(12):
        looks.append({s["name"]: s["sinks"][0]["sound"].get("level_frames", 0) for s in daemon.status()["streams"]})
        time.sleep(0.037)
    return {name: float(np.median([look[name] for look in looks])) for name in looks[0]}


def examine(stream, ppm, moved, seconds):
    """What speaks against this playback; nothing when it is as it should be."""
    sink = next(s for s in stream["sinks"] if s["type"] == "portaudio")
    sound, found = sink["sound"], []
    follow = sound.get("resampler")
    reported = follow["ppm"] if follow else 0.0
    if abs(reported - ppm) > 5:
        found.append(f"{reported:.1f} ppm reported for {ppm:.1f}")
    begun_again = (follow["underruns"] + follow["overruns"]) if follow else 0
    # Cycles that JACK itself left out had frames that nobody could play.
    lost = sum(n for cause, n in sink["dropped"].items() if cause != "stopped") - sound["counters"]["device lost frames"]
    silent = sound["counters"]["playback underrun"]
    if begun_again or lost > 0 or silent:
        found.append(f"{begun_again} new beginnings, {lost} frames left out, {silent} periods with silence")
    if abs(moved) > 0.4 * PPM * 1e-6 * RATE * seconds:
        found.append(f"the buffer holds {moved:+.0f} frames more than at the start")
    return found


def ask_for_priority():
    """What else runs on this machine is no matter of clocks: as far as it is allowed here."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -15)
        resource.setrlimit(resource.RLIMIT_RTPRIO, (20, 20))  # the daemon's loop takes it
    except (PermissionError, ValueError):
        pass


def real_time(process):
    try:
        os.sched_setscheduler(process.process.pid, os.SCHED_RR, os.sched_param(10))
    except PermissionError:
        pass


WITNESS = """
import os, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
try:
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(80))
except PermissionError:
    pass
late, periods, worst, looks, began = 0.0, 0, 0.0, 0, time.monotonic()
while os.getppid() == int(sys.argv[2]):
    before = time.monotonic()
    time.sleep(0.001)
    by = time.monotonic() - before - 0.001
    late += by if by > 0.001 else 0
    periods += by > float(sys.argv[3])
    worst = max(worst, by)
    looks += 1
    if looks % 100 == 0:
        print(late, periods, worst, time.monotonic() - began, flush=True)
"""


class Witness:
    """How late the machine wakes a sleeper of high priority, on each processor that this process may use."""

    def __init__(self, folder):
        self.sleepers = []
        for number in os.sched_getaffinity(0):
            path = os.path.join(folder, f"witness-{number}-{time.monotonic_ns()}")
            with open(path, "wb") as out:
                self.sleepers.append((path, subprocess.Popen(
                    [sys.executable, "-c", WITNESS, str(number), str(os.getpid()), str(PERIOD / RATE)], stdout=out)))

    def kill(self):
        for _, sleeper in self.sleepers:
            sleeper.kill()
            sleeper.wait()

    def ask(self, share):
        """Ends the sleepers; what speaks against this machine, or None. share: for which it may be late."""
        late = periods = worst = lasted = 0.0
        self.kill()
        for path, _ in self.sleepers:
            with open(path, encoding="ascii") as file:
                lines = file.read().rpartition("\n")[0].splitlines()
            if not lines:
                return "a sleeper was never woken"
            figures = [float(word) for word in lines[-1].split()]
            late, periods, worst, lasted = late + figures[0], periods + figures[1], max(worst, figures[2]), lasted + figures[3]
        said = (f"a sleeper of high priority was late for {late / lasted:.1%} of the time, {periods:.0f} times in {lasted:.0f} s "
                f"by more than a period, at worst {1e3 * worst:.1f} ms")
        return said if late / lasted > share or periods > LATE_PERIODS * max(1, lasted / 60) else None


class Clock(unittest.TestCase):
    def test_two_minutes(self):
        """A machine that stands still for 15 ms empties the buffer, loop or no loop: then once more."""
        ask_for_priority()
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        witness = Witness(folder.name)
        self.addCleanup(witness.kill)
        time.sleep(LOOK_S)
        self.refuse_machine(witness.ask(MEASURE_SHARE))
        found = {}
        for latency in LATENCIES:
            if any(found.values()):
                c.note(f"JACK: tried again with {latency} frames, after {found}")
            witness = Witness(folder.name)
            self.addCleanup(witness.kill)
            found = self.two_minutes(latency)
            against = witness.ask(BLAME_SHARE)
            if not any(found.values()):
                break
            self.refuse_machine(against)
        self.assertEqual({name: said for name, said in found.items() if said}, {})

    def refuse_machine(self, against):
        if against:
            self.skipTest(f"this machine keeps no time: {against}")

    @staticmethod
    def begun_again(streams):
        """How often those that follow had nothing to play, or too much, and began anew."""
        follow = [stream["sinks"][0]["sound"].get("resampler") for stream in streams]
        return sum(one["underruns"] + one["overruns"] for one in follow if one)

    def wait(self, daemon, before, seconds):
        """Whether nothing has spoken against the following streams so far; what does will do so at the end, too."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(5, left))
            if self.begun_again(daemon.status()["streams"]) > self.begun_again(before.values()):
                return False
        return True

    def two_minutes(self, latency):
        """What speaks against each stream; told as soon as something does."""
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        server = jack.Server(1, PERIOD, RATE, steady=True)
        self.addCleanup(server.close)
        os.environ.update(server.environment)
        rows = [(f"{'follow' if resample == 'auto' else 'off'}{'-fast' if sign > 0 else '-slow'}", sign * PPM, resample,
                 c.free_port()) for resample in ("auto", "no") for sign in (1, -1)]
        config = "[filter f]\ntype = identity\n" + "".join(
            STREAM.format(name=name, port=port, block=BLOCK, latency=latency, resample=resample)
            for name, _, resample, port in rows)
        daemon = c.Daemon(folder.name, config)
        self.addCleanup(daemon.kill)
        rigs = [c.Process("convolv-rig", ["--to", f"127.0.0.1:{port}", "--format", "f32be", "--rate", "48 kHz", "--ppm", ppm,
                                          "--packet", 64, "--frequency", f"{TONE} Hz", "--seconds", SECONDS + 60])
                for _, ppm, _, port in rows]
        for rig in rigs:
            self.addCleanup(rig.kill)
            real_time(rig)
        # What came before source and card both ran is no matter of their clocks.
        time.sleep(2)
        before, level = {s["name"]: s for s in daemon.status()["streams"]}, levels(daemon)
        began = time.monotonic()
        if not self.wait(daemon, before, SECONDS - LISTEN_S - 2):
            daemon.kill()
            server.close()
            return {"follow": [f"new beginnings after {time.monotonic() - began:.0f} s, latency {latency}"]}
        connections = [f"convolvd-{name}-play:out_0>rig:in_{i + 1}" for i, (name, *_) in enumerate(rows)]
        heard, account = jack.play(server, folder.name, np.zeros((1, 1)), connections, frames=LISTEN_S * RATE, inputs=len(rows))
        lasted = time.monotonic() - began
        moved = {name: frames - level[name] for name, frames in levels(daemon).items()}
        after = {s["name"]: s for s in daemon.status()["streams"]}
        for rig in rigs:
            rig.signal(signal.SIGTERM)
        daemon.stop()
        self.assertEqual(account["frames"] // RATE, LISTEN_S)
        against = {}
        for i, (name, ppm, resample, _) in enumerate(rows):
            stream = after[name]
            self.subtract(stream, before[name])
            found = examine(stream, ppm, moved[name], lasted)
            # Short pieces: JACK's own pauses on a busy machine bend no more than one of them.
            pieces = heard[:, i].reshape(-1, RATE // 8)
            residual = float(np.median([tone_residual(p, TONE * (1 + ppm * 1e-6)) for p in pieces]))
            follow = stream["sinks"][0]["sound"].get("resampler")
            c.note(f"JACK, {ppm:+d} ppm for {lasted:.0f} s, {name}: "
                   + (f"reported {follow['ppm']:+.2f} ppm, {follow['latency_frames']:.1f} frames wait, " if follow else "")
                   + f"latency {latency}, residual of the tone {residual:.1e}, against it: {'; '.join(found) or 'nothing'}")
            if resample == "no":
                against[name] = [] if len(found) > 1 else ["without the loop it has neither under- nor overrun"]
            else:
                against[name] = found + ([f"residual of the tone {residual:.1e}"] if residual > 5e-3 else [])
        server.close()
        return against

    @staticmethod
    def subtract(after, before):
        for sink, earlier in zip(after["sinks"], before["sinks"]):
            for cause in sink["dropped"]:
                sink["dropped"][cause] -= earlier["dropped"][cause]
            sound, old = sink["sound"], earlier["sound"]
            for counter in sound["counters"]:
                sound["counters"][counter] -= old["counters"][counter]
            if "resampler" in sound:
                for counter in ("underruns", "overruns"):
                    sound["resampler"][counter] -= old["resampler"][counter]


if __name__ == "__main__":
    unittest.main(verbosity=2)
