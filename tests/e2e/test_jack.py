#!/usr/bin/python3
# timeout: 600
# parallel: yes
# takes: 16 s CPU in 104 s
"""Sound cards, against a real JACK server and a real JACK client: what the client plays is
captured, convolved, played back and captured by it again, and compared frame by frame with the
definition at the declared latency. The server is killed and comes back; the daemon is stopped
until its ring overruns; its helper is killed; every missing frame must have a cause.
"""
import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
import unittest

import numpy as np

import api_schema
import convolvd as c
import jack_server as jack

RATE = 48000


def stream(name="x", channels=2, extra="", block=256):
    return (f"[stream {name}]\nsource = portaudio\ncard = system\nhost api = jack\nrate = 48 kHz\nchannels = {channels}\n"
            f"block = {block} frames\nbank = f\n{extra}\n")


def sink(stream="x", extra=""):
    return f"[sink y]\ntype = portaudio\nstream = {stream}\ncard = system\nhost api = jack\n{extra}\n"


@jack.repeats_disturbed
class JackTest(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.folder = folder.name
        self.addCleanup(folder.cleanup)
        self.taps = c.random_taps(21, 65)
        np.savetxt(os.path.join(self.folder, "f.txt"), self.taps)
        self.filters = "[filter f]\ntype = file\npath = f.txt\ndelay = 0 frames\n\n"

    def serve(self, ports, period=256):
        server = jack.Server(ports, period)
        self.addCleanup(server.close)
        os.environ.update(server.environment)
        return server

    def run_daemon(self, config, *arguments, wait=True):
        daemon = c.Daemon(self.folder, config + self.filters, *arguments, wait=wait)
        self.addCleanup(daemon.kill)
        return daemon

    def running(self, daemon, name="x"):
        """The card delivers; both ends of its sink are known."""
        def ready():
            stream_status = daemon.stream(name)
            sinks = [s["sound"] for s in stream_status["sinks"] if "sound" in s]
            card = stream_status.get("sound", sinks[0] if sinks else None)
            return card["running"] and card["priority"] != -1 and all("latency_frames" in s for s in sinks)
        c.wait_for(ready, "the sound card")
        return daemon.stream(name)

    def compare(self, got, x, delay, what):
        """What came is zeros, then the convolution from `delay` on, to the frame."""
        want = c.convolve(x, self.taps)
        self.assertGreater(len(got), delay + len(want))
        c.assert_within(got[:delay], np.zeros_like(got[:delay]), x, self.taps, what=f"{what}, before")
        c.assert_within(got[delay:delay + len(want)], want, x, self.taps, what=what)

    def round_trip(self, ports, period, latency=None, block=256):
        server = self.serve(ports, period)
        own = jack.baseline(server, self.folder, min(ports, 2))
        extra = f"latency = {latency} frames\n" if latency else ""
        daemon = self.run_daemon(stream("x", ports, "duplex = yes", block) + sink("x", "duplex = yes\n" + extra))
        declared = self.running(daemon)["sinks"][0]["sound"]["latency_frames"]
        x = np.random.default_rng(ports).normal(0, 0.1, (RATE // 2, ports)).astype("<f4")
        connections = jack.through(jack.daemon_ports("convolvd-x", ports, "in"), jack.daemon_ports("convolvd-x", ports, "out"))
        got, account = jack.play(server, self.folder, x, connections, frames=len(x) + declared + 4 * period + len(self.taps))
        status = daemon.stop()["streams"][0]
        return declared, own, x, got, account, status

    def exact(self, ports, period, latency):
        declared, own, x, got, account, status = self.round_trip(ports, period, latency)
        self.assertEqual(declared, latency)
        self.assertEqual(account["missed_frames"], 0)
        self.compare(got, x, declared + own, f"{ports} ports")
        card = status["sound"]
        self.assertEqual(card["host_api"], "jack")
        self.assertEqual(card["period_frames"], period)
        self.assertEqual(card["counters"]["ring overrun"], 0)
        self.assertEqual(status["frames_in"]["gap"]["capture"], card["counters"]["device lost frames"])

    def test_two_ports(self):
        self.exact(2, 256, 4096)

    def test_the_client_makes_a_late_run_again(self):
        """jack_client --trials, which benches use: after a run with cycles left out, one on the same connections."""
        server = self.serve(1)
        x = np.random.default_rng(5).normal(0, 0.1, RATE // 2).astype("<f4")
        played, captured = (os.path.join(self.folder, name) for name in ("in.f32", "out.f32"))
        x.tofile(played)
        with subprocess.Popen([jack.CLIENT, "--name", "rig", "--play", played, "--outputs", "1", "--capture", captured, "--inputs", "1",
                               "--frames", str(len(x)), "--trials", "6", "--connect", "rig:out_1>rig:in_1"],
                              env={**os.environ, **server.environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as rig:
            self.assertEqual(rig.stdout.readline(), "ready\n")
            time.sleep(0.1)
            rig.send_signal(signal.SIGSTOP)
            time.sleep(0.1)
            rig.send_signal(signal.SIGCONT)
            accounts = [json.loads(line) for line in rig.stdout]
            self.assertEqual(rig.wait(c.PATIENCE_S), 0)
        self.assertGreater(len(accounts), 1)
        for account in accounts[:-1]:
            self.assertFalse(jack.undisturbed(account))
        self.assertTrue(jack.undisturbed(accounts[-1]), accounts)
        self.assertGreater(accounts[-1]["first_frame"], accounts[0]["first_frame"] + len(x))
        got = np.fromfile(captured, "<f4")
        self.assertEqual(len(got), len(x))
        np.testing.assert_array_equal(got, x)  # its own output, in the same cycle

    def test_eight_ports(self):
        self.exact(8, 64, 4096)

    def test_sixty_four_ports(self):
        self.exact(64, 256, 8192)

    def test_a_period_in_several_callbacks(self):
        """PortAudio hands a cycle of 2048 frames on in two parts; none is taken for lost."""
        self.exact(2, 2048, 8192)

    def test_a_period_that_grows(self):
        """The latency by rule follows the period, the log says so once, and no frame is taken for lost."""
        server = self.serve(2, 256)
        daemon = self.run_daemon(stream("x", 2, "duplex = yes") + sink("x", "duplex = yes\n"))
        self.running(daemon)
        subprocess.run(["jack_bufsize", "4096"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=c.PATIENCE_S)
        server.period = 4096
        c.wait_for(lambda: self.running(daemon)["sinks"][0]["sound"]["latency_frames"] == 4096, "the longer latency")
        own = jack.baseline(server, self.folder, 2)
        x = np.random.default_rng(8).normal(0, 0.1, (RATE // 2, 2)).astype("<f4")
        connections = jack.through(jack.daemon_ports("convolvd-x", 2, "in"), jack.daemon_ports("convolvd-x", 2, "out"))
        got, _ = jack.play(server, self.folder, x, connections, frames=len(x) + 4096 + 4 * server.period + len(self.taps))
        status = daemon.stop()["streams"][0]
        self.compare(got, x, 4096 + own, "after the period has grown")
        self.assertEqual(status["sound"]["period_frames"], 4096)
        self.assertEqual(sum(status["frames_in"]["gap"].values()), 0)
        self.assertEqual(sum("the card's period is 4096 frames now" in line for line in daemon.lines), 1)

    def test_a_server_that_returns_at_another_rate(self):
        """The log says so at once, also after it has said that there is no card."""
        server = self.serve(2)
        daemon = self.run_daemon(stream())
        self.running(daemon)
        server.kill()
        daemon.wait_said("sound card not open")
        server.rate = 44100
        server.start()
        daemon.wait_said("the JACK server runs at 44100 Hz; write rate = 44100 Hz")
        daemon.stop()

    def test_one_period(self):
        """Without a `latency` exactly one period is added, declared and kept."""
        for attempt in range(4):
            declared, own, x, got, _, status = self.round_trip(2, 1024, block=256)
            self.assertEqual(declared, 1024)
            self.assertEqual(own, 1024)  # the way back is a loop in JACK's graph: a period, for every client
            if status["sinks"][0]["dropped"]["late"] == 0:
                self.compare(got, x, declared + own, "one period")
                return
            c.note(f"JACK, one period: {status['sinks'][0]['dropped']['late']} frames late on this busy machine; tried again")
        self.fail("results were late four times in a row")

    def test_channel_map(self):
        """Captured bit by bit from the channels of the map, played to those of the sink's."""
        server = self.serve(8)
        extra = "channel map = 8, 3, 5\nduplex = yes"
        raw = os.path.join(self.folder, "raw.wav")
        daemon = self.run_daemon(
            stream("x", 3, extra) + sink("x", "duplex = yes\nlatency = 4096 frames\nchannel map = 2, 7, 1")
            + f"[sink raw]\ntype = recording\nstream = x\nrecord = input\npath = {raw}\n")
        self.running(daemon)
        x = np.random.default_rng(5).normal(0, 0.1, (RATE // 4, 8)).astype("<f4")
        connections = jack.through(jack.daemon_ports("convolvd-x", 8, "in"), jack.daemon_ports("convolvd-x", 7, "out"))
        got, _ = jack.play(server, self.folder, x, connections, frames=len(x) + 6000, inputs=7)
        daemon.stop()
        chosen = x[:, [7, 2, 4]]
        for channel, port in enumerate([1, 6, 0]):
            self.compare(got[:, port:port + 1], chosen[:, channel:channel + 1], 4096 + server.period, f"output {port + 1}")
        self.assertEqual(np.abs(got[:, 2:6]).max(), 0)
        recorded = c.read_recording(raw)
        first = np.flatnonzero(np.abs(recorded).max(axis=1) > 0)[0]
        self.assertTrue(np.array_equal(recorded[first:first + len(x)], chosen), "captured samples are not those played")
        self.assertEqual(c.load_json(raw + ".json")["clock"], "converter")

    def test_server_dies_and_returns(self):
        """A gap in this stream, none in the other; afterwards exact again."""
        server = self.serve(2)
        other = ("[stream other]\nsource = generator\nrate = 48 kHz\nwaveform = counter\nbank = f\n"
                 f"[sink other]\ntype = recording\nstream = other\npath = {self.folder}/other.wav\n")
        daemon = self.run_daemon(stream(extra="duplex = yes\nmax gap = 20 s") + sink(extra="duplex = yes\nlatency = 4096 frames")
                                 + other)
        self.running(daemon)
        time.sleep(0.5)
        server.kill()
        daemon.wait_said("sound card lost")
        time.sleep(0.5)
        server.start()
        daemon.wait_said("sound card back")
        self.running(daemon)
        x = np.random.default_rng(6).normal(0, 0.1, (RATE // 4, 2)).astype("<f4")
        connections = jack.through(jack.daemon_ports("convolvd-x", 2, "in"), jack.daemon_ports("convolvd-x", 2, "out"))
        got, _ = jack.play(server, self.folder, x, connections, frames=len(x) + 6000)
        self.compare(got, x, 4096 + server.period, "after the loss")
        status = {s["name"]: s for s in daemon.stop()["streams"]}
        gap = status["x"]["frames_in"]["gap"]
        self.assertGreater(gap["capture"], RATE // 2)
        self.assertEqual(sum(gap.values()), gap["capture"])
        self.assertEqual(gap["capture"] % server.period, 0)  # blocks and periods stay in step
        self.assertEqual(status["x"]["epochs"], 1)
        self.assertEqual(status["x"]["sound"]["sessions"], 2)
        self.assertEqual(sum(status["other"]["frames_in"]["gap"].values()), 0)
        self.assertGreater(status["x"]["sinks"][0]["dropped"]["late"] + status["x"]["sinks"][0]["dropped"]["device"], 0)

    def test_away_for_longer(self):
        """Longer than `max gap`: a new epoch, and frames are still played at the declared latency."""
        server = self.serve(2)
        daemon = self.run_daemon(stream(extra="duplex = yes\nmax gap = 1 ms") + sink(extra="duplex = yes\nlatency = 4096 frames"))
        self.running(daemon)
        server.kill()
        daemon.wait_said("sound card lost")
        time.sleep(3)
        server.start()
        daemon.wait_said("sound card back")
        self.running(daemon)
        x = np.random.default_rng(7).normal(0, 0.1, (RATE // 4, 2)).astype("<f4")
        connections = jack.through(jack.daemon_ports("convolvd-x", 2, "in"), jack.daemon_ports("convolvd-x", 2, "out"))
        got, _ = jack.play(server, self.folder, x, connections, frames=len(x) + 6000)
        status = daemon.stop()["streams"][0]
        self.assertEqual(status["epochs"], 2)
        self.compare(got, x, 4096 + server.period, "in the new epoch")

    def test_reload(self):
        """A card whose stream has not changed runs on; one that has is opened anew."""
        server = self.serve(2)
        config = (stream(extra="duplex = yes") + sink(extra="duplex = yes\nlatency = 4096 frames")
                  + "[stream g]\nsource = generator\nrate = 48 kHz\nbank = f\n"
                  + f"[sink g]\ntype = recording\nstream = g\npath = {self.folder}/g.wav\n")
        daemon = self.run_daemon(config)
        self.running(daemon)

        def change(old, new):
            with open(daemon.path, encoding="utf-8") as file:
                text = file.read()
            self.assertIn(old, text)
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new))
            daemon.lines.clear()
            daemon.signal(signal.SIGHUP)
            daemon.wait_said("reloaded: 1 stream unchanged, 1 changed or new", 4 * c.PATIENCE_S)
        change("g.wav", "h.wav")
        before = api_schema.check("stream", daemon.stream("x"))
        self.assertEqual((before["sound"]["sessions"], before["epochs"], sum(before["frames_in"]["gap"].values())), (1, 1, 0))
        change("latency = 4096", "latency = 8192")
        self.assertEqual(self.running(daemon)["sinks"][0]["sound"]["latency_frames"], 8192)

        def clients():
            listed = subprocess.run(["jack_lsp", "-s", server.name], capture_output=True, text=True, check=False).stdout.split()
            return [port.split(":")[0] for port in listed if port.startswith("convolvd-x") and port.endswith(":in_0")]
        c.wait_for(lambda: len(clients()) == 1, "the old card's end")
        name = clients()[0]
        x = np.random.default_rng(8).normal(0, 0.1, (RATE // 4, 2)).astype("<f4")
        got, _ = jack.play(server, self.folder, x, jack.through(jack.daemon_ports(name, 2, "in"), jack.daemon_ports(name, 2, "out")),
                           frames=len(x) + 10000)
        self.compare(got, x, 8192 + server.period, "after the reload")
        daemon.stop()

    def test_helper_dies(self):
        self.serve(2)
        daemon = self.run_daemon(stream(extra="max gap = 20 s") + f"[sink r]\ntype = recording\nstream = x\npath = {self.folder}/r.wav\n")
        self.running(daemon)
        children = c.children(daemon.process.pid)
        self.assertEqual(len(children), 1)
        os.kill(children[0], signal.SIGKILL)
        daemon.wait_said("sound card back")
        self.running(daemon)
        status = daemon.stop()["streams"][0]
        self.assertGreater(status["frames_in"]["gap"]["capture"], 0)
        self.assertEqual(status["sound"]["sessions"], 2)

    def test_helper_hangs(self):
        """A helper that does nothing any more, as in a driver that hangs, gives way to another."""
        self.serve(2)
        daemon = self.run_daemon(stream(extra="max gap = 20 s") + f"[sink r]\ntype = recording\nstream = x\npath = {self.folder}/r.wav\n")
        self.running(daemon)
        children = c.children(daemon.process.pid)
        os.kill(children[0], signal.SIGSTOP)
        daemon.wait_said("its helper process hangs")
        daemon.wait_said("sound card back")
        self.running(daemon)
        status = daemon.stop()["streams"][0]
        self.assertGreater(status["frames_in"]["gap"]["capture"], 3 * RATE)
        self.assertEqual(status["sound"]["sessions"], 2)

    def test_daemon_falls_behind(self):
        """The ring overruns while the daemon is stopped: counted, and blamed on nothing else."""
        self.serve(2)
        daemon = self.run_daemon(stream(extra="max gap = 20 s") + f"[sink r]\ntype = recording\nstream = x\npath = {self.folder}/r.wav\n")
        self.running(daemon)
        daemon.signal(signal.SIGSTOP)
        time.sleep(2.5)
        daemon.signal(signal.SIGCONT)
        c.wait_for(lambda: daemon.stream()["frames_in"]["gap"]["overload"] > 0, "the gap")
        status = daemon.stop()["streams"][0]
        counters = status["sound"]["counters"]
        self.assertGreater(counters["ring overrun"], 0)
        self.assertEqual(status["frames_in"]["gap"]["overload"], counters["ring lost frames"])
        self.assertEqual(status["frames_in"]["gap"]["capture"], counters["device lost frames"])
        self.assertEqual(sum(status["frames_in"]["gap"].values()), counters["ring lost frames"] + counters["device lost frames"])

    def test_playback_alone(self):
        """A stream that waits is played at the card's pace, every frame once and in order."""
        server = self.serve(2)
        frames = RATE
        config = ("[stream g]\nsource = generator\nrate = 48 kHz\nchannels = 2\nwaveform = noise\namplitude = 0.1\nseed = 3\n"
                  f"pace = fast\nduration = {frames} frames\nblock = 256 frames\nbank = f\ntail = no\n"
                  f"[sink raw]\ntype = recording\nstream = g\npath = {self.folder}/g.wav\n")
        # Heard from before its first frame on: the rig is there before the daemon.
        catcher = subprocess.Popen([jack.CLIENT, "--name", "rig", "--capture", os.path.join(self.folder, "got.f32"), "--inputs", "2",
                                    "--frames", str(2 * frames), "--connect", "convolvd-y:out_0>rig:in_1", "--connect",
                                    "convolvd-y:out_1>rig:in_2", "--timeout", "60"], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, env={**os.environ, **server.environment})
        self.addCleanup(catcher.wait)
        daemon = self.run_daemon(config + sink("g", "latency = 16384 frames"))
        self.assertEqual(daemon.wait(), 0, daemon.output())
        self.assertEqual(catcher.wait(60), 0)
        got = np.fromfile(os.path.join(self.folder, "got.f32"), "<f4").reshape(-1, 2)
        want = c.read_recording(os.path.join(self.folder, "g.wav"))
        first = np.flatnonzero(np.abs(got).max(axis=1) > 0)[0]
        status = c.check_ledgers(c.load_json(daemon.status_path))["streams"][0]
        played = next(s for s in status["sinks"] if s["name"] == "y")
        self.assertEqual(played["delivered"], frames)
        self.assertTrue(np.array_equal(got[first:first + frames], want))

    def test_excitation_and_response(self):
        """Two streams on one duplex card: response frame n + offset + the loop's own frames answers
        excitation frame n."""
        server = self.serve(2)
        config = (stream("x", 2, "duplex = yes") +
                  "[stream g]\nsource = generator\nrate = 48 kHz\nchannels = 2\nwaveform = noise\namplitude = 0.1\npace = fast\n"
                  "block = 256 frames\nbank = one\n[filter one]\ntype = identity\n"
                  + sink("g", "duplex = yes\nlatency = 4096 frames")
                  + f"[sink rx]\ntype = recording\nstream = x\nrecord = input\npath = {self.folder}/x.wav\n"
                  + f"[sink rg]\ntype = recording\nstream = g\npath = {self.folder}/g.wav\n")
        daemon = self.run_daemon(config)
        self.running(daemon, "g")
        subprocess.run(["jack_connect", "-s", server.name, "convolvd-x:out_0", "convolvd-x:in_0"], check=True)
        subprocess.run(["jack_connect", "-s", server.name, "convolvd-x:out_1", "convolvd-x:in_1"], check=True)
        time.sleep(1)
        played = next(s for s in api_schema.check("stream", daemon.stream("g"))["sinks"] if s["name"] == "y")
        offset = played["sound"]["offset_frames"]
        status = {s["name"]: s for s in daemon.stop()["streams"]}
        self.assertEqual(sum(status["x"]["frames_in"]["gap"].values()), 0)
        response = c.read_recording(f"{self.folder}/x.wav")
        excitation = c.read_recording(f"{self.folder}/g.wav")
        begins = np.flatnonzero(np.abs(response).min(axis=1) > 0)[0] + 1  # both channels are connected
        shift = offset + server.period  # its own output comes back a cycle later
        frames = min(len(response) - begins, RATE // 2)
        self.assertGreater(frames, RATE // 8)
        self.assertTrue(np.array_equal(response[begins:begins + frames], excitation[begins - shift:begins - shift + frames]),
                        "the response is not the excitation, moved by what was declared")

    def test_server_comes_later(self):
        """The daemon is ready without the card, and takes it when it is there."""
        server = self.serve(2)
        server.close()
        daemon = self.run_daemon(stream() + f"[sink r]\ntype = recording\nstream = x\npath = {self.folder}/r.wav\n")
        self.assertTrue(daemon.said("sound card not open"), daemon.output())
        server.start()
        self.running(daemon)
        status = daemon.stop()["streams"][0]
        self.assertEqual(sum(status["frames_in"]["gap"].values()), 0)

    def test_refusals(self):
        """What the card will never do is said, with what to write instead."""
        self.serve(2)
        recording = f"[sink r]\ntype = recording\nstream = x\npath = {self.folder}/r.wav\n"
        for config, words in (
                (stream(extra="format = s16"), "write format = f32"),
                (stream(channels=3), "has 2 input channels, and channel 3 is asked for"),
                (stream().replace("rate = 48 kHz", "rate = 44100 Hz"), "write rate = 48000 Hz"),
        ):
            daemon = self.run_daemon(config + recording, wait=False)
            self.assertEqual(daemon.wait(), 1, daemon.output())
            self.assertIn(words, daemon.output())

    def alsa(self, device, form, bits):
        """PortAudio's ALSA host API on a device of ALSA's JACK plugin: captured bit by bit, played with
        one constant delay."""
        server = self.serve(2)
        path = os.path.join(self.folder, "asound.conf")
        ports = [" ".join(f'{i} "system:{way}_{i + 1}"' for i in range(2)) for way in ("playback", "capture")]
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"pcm.rig {{ type jack playback_ports {{ {ports[0]} }} capture_ports {{ {ports[1]} }} }}\n"
                       "pcm.rigint { type lfloat slave { pcm rig format FLOAT_LE } }\n"
                       "pcm.default { type null }\nctl.default { type hw card 0 }\n")
        os.environ["ALSA_CONFIG_PATH"] = path
        self.addCleanup(os.environ.pop, "ALSA_CONFIG_PATH", None)
        raw = os.path.join(self.folder, "raw.wav")
        config = (stream("x", 2, f"duplex = yes\nformat = {form}\n#")
                  + sink("x", f"duplex = yes\nformat = {form}\nlatency = 8192 frames\n#")
                  + f"[sink raw]\ntype = recording\nstream = x\nrecord = input\npath = {raw}\n")
        config = config.replace("host api = jack", "host api = alsa").replace("card = system", f"card = {device}")
        refused = self.run_daemon(config, wait=False)
        self.assertEqual(refused.wait(), 1)
        self.assertIn("write allow conversion = yes", refused.output())
        daemon = self.run_daemon(config.replace("\n#", "\nallow conversion = yes\n"))
        status = self.running(daemon)
        self.assertEqual(status["sound"]["host_api"], "alsa")
        self.assertEqual(status["sound"]["period_frames"], 256)
        listed = subprocess.run(["jack_lsp", "-s", server.name], capture_output=True, text=True, check=True).stdout.split()
        inputs, outputs = ([port for port in listed if f":{way}_0" in port] for way in ("in", "out"))
        full_scale = 1 << (bits - 1)
        codes = np.round(np.random.default_rng(9).normal(0, 0.1, (RATE // 2, 2)) * full_scale).clip(-full_scale, full_scale - 1)
        codes[100:110] = full_scale - 1, -full_scale  # the ends of the scale are no overflow
        x = (codes / full_scale).astype("<f4")
        got, _ = jack.play(server, self.folder, x, jack.through(inputs, outputs), frames=len(x) + 16384)
        status = daemon.stop()["streams"][0]
        recorded = c.read_recording(raw)
        first = np.flatnonzero(np.abs(recorded).max(axis=1) > 0)[0]
        recorded = recorded[first:first + len(x)].astype(float)
        if form != "f32":
            recorded /= 1 << (8 * int(form[1:]) // 8 - 1)
        self.assertTrue(np.array_equal(recorded, x), "captured samples are not those played")
        self.assertEqual(c.load_json(raw + ".json")["clock"], "converter")
        self.assertEqual(sum(status["frames_in"]["gap"].values()), 0)
        want = c.convolve(x, self.taps)
        heard = np.abs(got).max(axis=1) > 0
        delay = np.flatnonzero(heard)[0] - np.flatnonzero(np.abs(np.round(want * full_scale)).max(axis=1) > 0)[0]
        self.assertGreaterEqual(delay, 8192)
        c.assert_within(got[delay:delay + len(want)], want, x, self.taps, lsb=0 if form == "f32" else 2 / full_scale, what=form)

    def test_alsa_float(self):
        self.alsa("rig", "f32", 24)

    def test_alsa_integer(self):
        """At the width of the device: no dither, no clipping."""
        self.alsa("rigint", "s16", 16)

    def test_every_command_of_the_page(self):
        """The blocks of docs/sound-cards.md that are marked `sh`, in order, in one folder."""
        self.serve(2)
        with open(os.path.join(c.ROOT, "docs", "sound-cards.md"), encoding="utf-8") as page:
            blocks = [block.split("```")[0] for block in page.read().split("```sh\n")[1:]]
        self.assertGreater(len(blocks), 1)
        shutil.copy(os.path.join(c.ROOT, "config", "sound-card.conf"), self.folder)
        with open(os.path.join(self.folder, "output"), "w+", encoding="utf-8") as output:
            shell = subprocess.Popen(["bash", "-ec", "".join(blocks) + "wait\n"], cwd=self.folder, start_new_session=True,
                                     stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                     env={**os.environ, "PATH": f"{c.BUILD}:{os.environ['PATH']}"})
            try:
                code = shell.wait(2 * c.PATIENCE_S)
            except subprocess.TimeoutExpired:
                code = "none in time"
            finally:  # what it left behind would disturb the tests that follow
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(shell.pid, signal.SIGKILL)
                shell.wait()
            output.seek(0)
            said = output.read()
        self.assertEqual(code, 0, said)
        self.assertIn("sound card    `system` (jack), running, period 256 frames", said)
        self.assertIn("plays 256 frames", said)

    def test_devices_are_listed(self):
        self.serve(8)
        listed = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--list-devices"], capture_output=True, text=True, check=True)
        self.assertRegex(listed.stdout, r"sound: system\n   JACK Audio Connection Kit, 8 in, 8 out, 48000 Hz, "
                                        r"input latency [0-9.]+ … [0-9.]+ ms, output latency [0-9.]+ … [0-9.]+ ms\n")
        # ALSA's way to the same server converts: it is refused, so no rate of it is shown.
        self.assertRegex(listed.stdout, r"sound: jack\n   ALSA, [0-9]+ in, [0-9]+ out\n   not for measurement, refused: ")


if __name__ == "__main__":
    unittest.main()
