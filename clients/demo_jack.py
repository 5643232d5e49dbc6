"""The sound card part of `make demo`: a JACK server without hardware, a JACK client that plays
noise, convolvd between, and what comes back compared with the definition, frame by frame.

A client that only copies is measured first: JACK's graph adds a period where it has a loop. What
convolvd adds on top of that must be the latency that it declares.
"""
import json
import os
import subprocess
import time

import numpy

RATE_HZ, PERIOD, CHANNELS, SECONDS = 48000, 256, 2, 2.0
DAEMON_PORTS = ("convolvd-microphones:in_{}", "convolvd-microphones:out_{}", 0)
COPY_PORTS = ("copy:in_{}", "copy:out_{}", 1)
MORE_ROOM = 4096  # frames, for a machine that has other things to do
LAST_LINES = 10  # of a program that has ended


class RoundTrip:
    def __init__(self, build, folder, config, say):
        self.build, self.folder, self.say = os.path.abspath(build), folder, say
        self.environment = {**os.environ, "JACK_DEFAULT_SERVER": f"convolvd-demo-{os.getpid()}",
                            "JACK_NO_AUDIO_RESERVATION": "1", "RUNTIME_DIRECTORY": folder}
        self.config = os.path.join(folder, "sound-card.conf")
        with open(config, encoding="utf-8") as text, open(self.config, "w", encoding="utf-8") as copy:
            copy.write(text.read())
        self.processes, self.server = [], None

    def start(self, *command, **more):
        process = subprocess.Popen(command, cwd=self.folder, env=self.environment, start_new_session=True,
                                   stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, **more)
        self.processes.append(process)
        return process

    def close(self):
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def program(self, *name):
        return os.path.join(self.build, *name)

    def has_port(self, port):
        listed = subprocess.run(["jack_lsp"], env=self.environment, capture_output=True, text=True, check=False)
        return port in listed.stdout.split()

    def wait_for(self, port):
        deadline = time.monotonic() + 60
        while not self.has_port(port):
            if self.server.poll() is not None:
                raise RuntimeError(f"the JACK server has ended:\n{self.said('jackd.log')}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{port} did not appear on the JACK server:\n{self.said('jackd.log')}")
            time.sleep(0.05)

    def said(self, log):
        """The last lines of a program's output."""
        with open(os.path.join(self.folder, log), encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-LAST_LINES:])

    def play(self, samples, ports, frames):
        """Plays into a client's inputs and captures its outputs in the same cycles."""
        inputs, outputs, first = ports
        samples.astype("<f4").tofile(os.path.join(self.folder, "played.f32"))
        command = [self.program("tests", "jack_client"), "--name", "rig", "--play", "played.f32", "--outputs", str(CHANNELS),
                   "--capture", "heard.f32", "--inputs", str(CHANNELS), "--frames", str(frames)]
        for channel in range(CHANNELS):
            command += ["--connect", f"rig:out_{channel + 1}>" + inputs.format(channel + first),
                        "--connect", outputs.format(channel + first) + f">rig:in_{channel + 1}"]
        subprocess.run(command, cwd=self.folder, env=self.environment, check=True, capture_output=True, timeout=60)
        return numpy.fromfile(os.path.join(self.folder, "heard.f32"), "<f4").reshape(-1, CHANNELS)

    def copying(self):
        """Frames that a client which only copies adds."""
        copy = self.start(self.program("tests", "jack_client"), "--name", "copy", "--through", str(CHANNELS),
                          stdout=subprocess.DEVNULL)
        self.wait_for("copy:in_1")
        mark = numpy.zeros((4 * PERIOD, CHANNELS))
        mark[0] = 0.5
        heard = self.play(mark, COPY_PORTS, 8 * PERIOD)
        copy.terminate()
        copy.wait(10)
        return int(numpy.flatnonzero(heard[:, 0])[0])

    def convolving(self, taps):
        """(frames late, declared latency, samples played, samples heard)"""
        with open(os.path.join(self.folder, "jack.log"), "w", encoding="utf-8") as log:
            daemon = self.start(self.program("convolvd"), "--config", self.config, "--status-json", "jack.json", stdout=log)
        self.wait_for(DAEMON_PORTS[0].format(0))
        time.sleep(1.0)  # the first callbacks have run
        played = numpy.random.default_rng(1).normal(0, 0.1, (int(SECONDS * RATE_HZ), CHANNELS)).astype("<f4")
        heard = self.play(played, DAEMON_PORTS, len(played) + len(taps) + 2 * MORE_ROOM)
        daemon.terminate()
        if daemon.wait(30) != 0:
            with open(os.path.join(self.folder, "jack.log"), encoding="utf-8") as log:
                raise RuntimeError(log.read())
        with open(os.path.join(self.folder, "jack.json"), encoding="utf-8") as file:
            sink = json.load(file)["streams"][0]["sinks"][0]
        return sink["dropped"]["late"], sink["sound"]["latency_frames"], played.astype(float), heard.astype(float)

    def run(self, taps):
        """True when every frame that came back is right, at the declared latency."""
        with open(os.path.join(self.folder, "jackd.log"), "w", encoding="utf-8") as log:
            self.server = self.start("jackd", "-n", self.environment["JACK_DEFAULT_SERVER"], "-r", "-S", "-d", "dummy", "-r",
                                     str(RATE_HZ), "-p", str(PERIOD), "-C", str(CHANNELS), "-P", str(CHANNELS), stdout=log)
        self.wait_for("system:capture_1")
        copying = self.copying()
        late, declared, played, heard = self.convolving(taps)
        if late > 0:
            self.say(f"   {late} frames came too late to be played one period later: this machine is busy; "
                     f"again with latency = {MORE_ROOM} frames")
            with open(self.config, encoding="utf-8") as file:
                text = file.read().replace("[sink headphones]\n", f"[sink headphones]\nlatency = {MORE_ROOM} frames\n")
            with open(self.config, "w", encoding="utf-8") as file:
                file.write(text)
            late, declared, played, heard = self.convolving(taps)
        expected = numpy.stack([numpy.convolve(played[:, c], taps) for c in range(CHANNELS)], axis=1)
        begin = copying + declared
        error = heard[begin:begin + len(expected)] - expected
        gain = numpy.abs(numpy.fft.fft(taps, 1 << 16)).max()
        good = (late == 0 and not heard[:begin].any()
                and numpy.linalg.norm(error) <= 1e-6 * max(numpy.linalg.norm(expected), gain * numpy.linalg.norm(played)))
        self.say(f"   {len(expected)} frames × {CHANNELS} channels played, convolved with {len(taps)} taps and heard again; "
                 f"largest error {numpy.abs(error).max():.2g}")
        self.say(f"   round trip {begin} frames: {copying} of a client that only copies and {declared} of convolvd, as it "
                 f"declared ({1e3 * declared / RATE_HZ:.2f} ms, {declared / PERIOD:g} period{'s' if declared != PERIOD else ''} of {PERIOD})")
        return good
