#!/usr/bin/python3
"""make demo: a simulated four-sensor rig → UDP → convolvd → UDP → tap, checked and timed; then a
JACK client → convolvd → the same client (demo_jack.py); then acoustic emissions located on a plate
(demo_location.py). With DEMO_WEB=1 the live page follows (demo_web.py).

    clients/demo.py BUILD_FOLDER [SECONDS]

What the rig will send is written down first; numpy convolves it in double with the taps that
`convolvd --design` prints; the tap then compares every frame it receives with that, by frame
number. Everything runs on loopback, in a folder of its own, and ends with this program.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy

import demo_jack
import demo_location
import demo_web

RATE_HZ = 500_000
SENSORS = 4
HERE = os.path.dirname(os.path.abspath(__file__))
CONFIG = os.path.join(os.path.dirname(HERE), "config", "demo.conf")

RIG = ["--format", "L16", "--channels", str(SENSORS), "--rate", str(RATE_HZ), "--signal", "ae",
       "--amplitude", "0.4", "--frequency", "150 kHz", "--arrivals", "40", "--rise", "20 us",
       "--decay", "150 us", "--channel-delay", "35 us", "--noise", "0.002", "--seed", "13477"]


def say(text):
    print(text, flush=True)


def convolve(signal_in, taps):
    """Linear convolution in double, tail included; checked at random frames by direct sums."""
    frames = len(signal_in) + len(taps) - 1
    size = 1 << (frames - 1).bit_length()
    out = numpy.fft.ifft(numpy.fft.fft(signal_in, size) * numpy.fft.fft(taps, size))[:frames]
    chosen = numpy.random.default_rng(1).integers(len(taps), len(signal_in), 20)
    for n in chosen:
        direct = numpy.dot(taps[::-1], signal_in[n - len(taps) + 1:n + 1])
        assert abs(direct - out[n]) < 1e-12 * numpy.abs(taps).sum(), "the reference disagrees with itself"
    return out


def reference(sent, band, pulse):
    """[frames][12] as config/demo.conf orders them. All outputs of a stream share one delay, the
    longest: the band-pass answers after (S-1)/2 frames by itself, the matched filter after S-1."""
    later = len(pulse) - 1 - (len(band) - 1) // 2
    assert later >= 0
    band = numpy.concatenate([numpy.zeros(later), band])
    expected = numpy.zeros((len(sent) + max(len(band), len(pulse)) - 1, 3 * SENSORS))
    for sensor in range(SENSORS):
        one = convolve(sent[:, sensor], band).real
        two = convolve(sent[:, sensor], pulse)
        expected[:len(one), 3 * sensor] = one
        expected[:len(two), 3 * sensor + 1] = two.real
        expected[:len(two), 3 * sensor + 2] = numpy.abs(two)
    return expected


def peak_gain(taps):
    return numpy.abs(numpy.fft.fft(taps, 1 << 16)).max()


class Demo:
    def __init__(self, build, seconds):
        self.build = os.path.abspath(build)
        self.seconds = seconds
        self.folder = tempfile.mkdtemp(prefix="convolvd-demo-")
        self.config = shutil.copy(CONFIG, self.folder)
        self.processes = []

    def program(self, name):
        return os.path.join(self.build, name)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, command, **more):
        process = subprocess.Popen(command, cwd=self.folder, start_new_session=True, **more)
        self.processes.append(process)
        return process

    def close(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def design(self, name, config=None):
        subprocess.run([self.program("convolvd"), "--config", config or self.config, "--design", name, "--out",
                        self.path(name + ".npy")], check=True, cwd=self.folder,
                       stdout=subprocess.DEVNULL)
        return numpy.load(self.path(name + ".npy")).reshape(-1)

    def prepare(self):
        say(f"1  rig: {SENSORS} sensors at {RATE_HZ / 1e6:g} MHz, 16 bits, acoustic emission, "
            f"{self.seconds:g} s; writing down what it will send")
        subprocess.run([self.program("convolv-rig"), "--to", "127.0.0.1:9", *RIG, "--seconds",
                        str(self.seconds), "--flat-out", "--quiet", "--write",
                        self.path("sent.npy")], check=True, cwd=self.folder)
        sent = numpy.load(self.path("sent.npy")).astype(float).reshape(-1, SENSORS)
        band, pulse = self.design("band"), self.design("pulse")
        say(f"2  filters: band-pass of {len(band)} taps, complex matched filter of {len(pulse)} taps; "
            "convolving in double for comparison")
        numpy.save(self.path("expected.npy"), reference(sent, band, pulse))
        gain = max(peak_gain(band), peak_gain(pulse))
        self.input_norm = gain * numpy.sqrt((sent ** 2).sum(axis=0)).max()
        self.input_peak = gain * numpy.abs(sent).max()
        self.frames = len(sent)

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def wait_for(self, log, word, process):
        """The line of a log in which the word appears."""
        deadline = time.monotonic() + 60
        while True:
            for line in self.read(log).splitlines():
                if word in line:
                    return line.strip()
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"no line with “{word}” in {log}:\n" + self.read(log))
            time.sleep(0.05)

    def run(self):
        say("3  daemon: starting convolvd with config/demo.conf")
        log = open(self.path("daemon.log"), "w", encoding="utf-8")
        daemon = self.start([self.program("convolvd"), "--config", self.config, "--status-json",
                             self.path("status.json")], stdout=subprocess.PIPE, stderr=log, text=True)
        say("   " + self.wait_for("daemon.log", "running:", daemon))
        say("4  streaming: rig → UDP → convolvd → UDP → tap, in real time\n")
        report = open(self.path("tap.log"), "w", encoding="utf-8")
        tap = self.start([self.program("convolv-tap"), "--sdp", self.path("results.sdp"), "--expect",
                          self.path("expected.npy"), "--input-norm", str(float(self.input_norm)),
                          "--input-peak", str(float(self.input_peak)), "--until-end", "--timeout", "20 s",
                          "--ledger", self.path("tap.json")], stdout=report, stderr=subprocess.STDOUT)
        self.wait_for("tap.log", "listening on", tap)
        rig = self.start([self.program("convolv-rig"), "--to", "127.0.0.1:5004", *RIG, "--seconds",
                          str(self.seconds), "--ledger", self.path("rig.json"), "--quiet"])
        rig.wait(timeout=self.seconds + 30)
        time.sleep(0.3)
        daemon.send_signal(signal.SIGTERM)  # drains: the tail of the signal follows, then the table
        table, _ = daemon.communicate(timeout=30)
        tap.wait(timeout=30)
        say(self.read("tap.log"))
        say("5  the daemon's own table\n")
        say(table)
        return daemon.returncode, tap.returncode

    def sound_card(self):
        say("6  sound card: a JACK server (dummy driver), config/sound-card.conf, a JACK client that plays and listens")
        trip = demo_jack.RoundTrip(self.build, self.folder, os.path.join(os.path.dirname(CONFIG), "sound-card.conf"), say)
        try:
            return trip.run(self.design("band", trip.config))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            say(f"   {error}")
            return False
        finally:
            trip.close()

    def location(self):
        say("7  location: config/ae-location.conf, four sensors on a plate; hits, their sources, and how far off they are")
        return demo_location.Location(self.build, self.folder, os.path.join(os.path.dirname(CONFIG), "ae-location.conf"),
                                      say).run()

    def live_page(self):
        if os.environ.get("DEMO_WEB", "") in ("", "0"):
            return True
        return demo_web.WebDemo(self, say, RIG, os.path.join(self.build, "demo-web")).run()

    def summary(self, daemon_status, tap_status, card, located):
        rig = json.loads(self.read("rig.json"))
        parts = (
            (daemon_status == 0, f"{self.frames} frames × {SENSORS} sensors sent", f"the daemon ended with status {daemon_status}"),
            (tap_status == 0, f"{3 * SENSORS} filtered channels received and compared with the reference by frame number",
             f"the received channels failed the comparison (convolv-tap: status {tap_status}, rig: {json.dumps(rig)[:300]})"),
            (card, "a JACK round trip exact to the frame", "the sound card part failed"),
            (located is not None, located, "no sources located"),
        )
        good = all(passed for passed, _, _ in parts)
        say("")
        say(f"demo: {'passed' if good else 'FAILED'}, " + ", ".join(done if passed else failed for passed, done, failed in parts))
        return 0 if good else 1


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    demo = Demo(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 8.0)
    try:
        demo.prepare()
        results = demo.run()
        status = demo.summary(*results, demo.sound_card(), demo.location())
        return status if demo.live_page() else 1
    finally:
        demo.close()


if __name__ == "__main__":
    sys.exit(main())
