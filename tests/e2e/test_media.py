#!/usr/bin/python3
# parallel: yes
# takes: 2 s CPU in 55 s
"""ffmpeg and GStreamer as they come: as senders of L16 and L24 into the daemon, and as receivers
that open the SDP file of a sink. Every frame they send is filtered, every frame they receive is
compared with the definition, by its number: the first frame of the recording is frame 0."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import wave

import numpy as np

import convolvd as c

FRAMES = 24000


class Program:
    """A player or sender; its output is kept for when a test fails."""

    def __init__(self, *command):
        self.command = [str(word) for word in command]
        self.log = tempfile.TemporaryFile()
        environment = {**os.environ, "SDL_AUDIODRIVER": "dummy", "SDL_VIDEODRIVER": "dummy"}
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log,
                                        stderr=subprocess.STDOUT, env=environment)

    def output(self):
        self.log.seek(0)
        return self.log.read().decode("utf-8", "replace")

    def wait(self, codes=(0,)):
        try:
            code = self.process.wait(c.PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise AssertionError(f"{' '.join(self.command)} did not end:\n{self.output()}") from None
        assert code in codes, f"{' '.join(self.command)} ended with {code}:\n{self.output()}"

    def interrupt(self, codes):
        self.process.send_signal(signal.SIGINT)
        self.wait(codes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.log.close()


def config(rx, tx, rate, channels, source_format, sink_format, taps_path):
    return f"""
[stream s]
source = rtp
address = 127.0.0.1:{rx}
rate = {rate} Hz
channels = {channels}
format = {source_format}
block = 256 frames
filter = h
""" + c.file_filter("h", taps_path) + c.rtp_sink("out", "s", tx, f"format = {sink_format}\nfull scale = 1")


def write_wav(path, rate, values, width):
    """Values of shape (frames, channels) that are whole 16-bit codes / 32768, as PCM of `width` bytes."""
    codes = np.round(values * (1 << (8 * width - 1))).astype("<i4")
    with wave.open(path, "wb") as out:
        out.setnchannels(values.shape[1])
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(codes.reshape(-1, 1).view(np.uint8).reshape(-1, 4)[:, :width].tobytes())


def read_wav(path):
    """PCM of 2, 3 or 4 bytes, also WAVE_FORMAT_EXTENSIBLE and headers that were never finished."""
    with open(path, "rb") as file:
        data = file.read()
    at, channels, width = 12, 0, 0
    while at + 8 <= len(data):
        name, size = data[at:at + 4], int.from_bytes(data[at + 4:at + 8], "little")
        if name == b"fmt ":
            channels = int.from_bytes(data[at + 10:at + 12], "little")
            width = int.from_bytes(data[at + 22:at + 24], "little") // 8
        if name == b"data":
            body = data[at + 8:at + 8 + size]
            body = body[:len(body) // (channels * width) * channels * width]
            padded = np.zeros((len(body) // width, 4), dtype=np.uint8)
            padded[:, 4 - width:] = np.frombuffer(body, dtype=np.uint8).reshape(-1, width)
            return padded.view("<i4").reshape(-1, channels) / 2147483648.0
        at += 8 + size + size % 2
    raise AssertionError(f"{path} holds no samples")


def ffmpeg_sends(path, port, width):
    return Program("ffmpeg", "-hide_banner", "-nostdin", "-re", "-i", path, "-c:a", f"pcm_s{8 * width}be",
                   "-f", "rtp", "-payload_type", 96, f"rtp://127.0.0.1:{port}")


def gst_sends(path, port, width):
    return Program("gst-launch-1.0", "-q", "filesrc", f"location={path}", "!", "wavparse", "!", "audioconvert", "!",
                   f"audio/x-raw,format=S{8 * width}BE", "!", f"rtpL{8 * width}pay", "pt=96", "!",
                   "udpsink", "host=127.0.0.1", f"port={port}")


class Senders(unittest.TestCase):
    def send(self, sender, width, rate, channels):
        rx, tx = c.free_port(), c.free_port()
        with c.temporary() as folder:
            h = c.random_taps(1, 101)
            taps = os.path.join(folder, "h.npy")
            np.save(taps, h)
            x = c.noise_codes(2, FRAMES, channels) / 32768
            path = os.path.join(folder, "x.wav")
            write_wav(path, rate, x, width)
            text = config(rx, tx, rate, channels, f"L{8 * width}", "f32be", taps)
            with c.Daemon(folder, text) as daemon, \
                    c.Tap(folder, tx, "--until-end", "--timeout", c.PATIENCE_S, channels=channels, rate=rate) as tap, \
                    sender(path, rx, width) as program:
                program.wait()
                c.wait_for(lambda: daemon.stream()["frames_in"]["received"] >= FRAMES, "all frames")
                status = daemon.stop()["streams"][0]
                tap.finish()
                got = tap.frames()
            self.assertEqual(status["frames_in"]["received"], FRAMES)
            self.assertEqual(status["frames_in"]["timeline"], FRAMES)
            self.assertEqual(status["epochs"], 1)
            self.assertEqual(status["datagrams"]["read"], status["datagrams"]["accepted"])
            c.assert_within(got, c.convolve(x, h), x, h)

    def test_ffmpeg_l16(self):
        self.send(ffmpeg_sends, 2, 48000, 2)

    def test_ffmpeg_l24(self):
        self.send(ffmpeg_sends, 3, 48000, 1)

    def test_gstreamer_l16(self):
        self.send(gst_sends, 2, 44100, 1)

    def test_gstreamer_l24(self):
        self.send(gst_sends, 3, 96000, 2)


def ffmpeg_receives(sdp, out, width):
    return Program("ffmpeg", "-hide_banner", "-nostdin", "-protocol_whitelist", "file,udp,rtp",
                   "-reorder_queue_size", 0, "-i", sdp, "-c:a", f"pcm_s{8 * width}le", "-y", out)


def gst_receives(sdp, out, width):
    with open(sdp, encoding="ascii") as file:
        text = file.read()
    port, payload = re.search(r"m=audio (\d+) RTP/AVP (\d+)", text).groups()
    name, rate, channels = re.search(rf"a=rtpmap:{payload} (\w+)/(\d+)/(\d+)", text).groups()
    caps = (f"application/x-rtp,media=audio,clock-rate={rate},encoding-name={name},channels={channels},"
            f"payload={payload}")
    return Program("gst-launch-1.0", "-e", "udpsrc", f"port={port}", "buffer-size=4194304", f"caps={caps}", "!",
                   f"rtp{name}depay", "!", "audioconvert", "!", f"audio/x-raw,format=S{8 * width}LE", "!",
                   "wavenc", "!", "filesink", "buffer-mode=2", f"location={out}")


class Receivers(unittest.TestCase):
    def receive(self, receiver, codes, width, rate, channels, tagged=False):
        """The receiver opens the SDP file before the first frame is there, and gets them all."""
        rx, tx = c.free_port(), c.free_port()
        with c.temporary() as folder:
            h = c.random_taps(3, 33)
            taps, sdp, out = (os.path.join(folder, name) for name in ("h.npy", "out.sdp", "out.wav"))
            np.save(taps, h)
            x = c.noise_codes(4, FRAMES, channels, 0.2) / 32768
            path = os.path.join(folder, "x.wav")
            write_wav(path, rate, x, 2)
            text = config(rx, tx, rate, channels, "L16", f"L{8 * width}", taps) + f"sdp = {sdp}\n"
            if tagged:
                key = os.path.join(folder, "key")
                with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as file:
                    file.write(32 * "5a")
                text += f"key = {key}\n"
            with c.Daemon(folder, text) as daemon, receiver(sdp, out, width) as program:
                c.wait_for(lambda: bound(tx), f"{program.command[0]} to listen")
                c.rig(folder, rx, "--file", path, "--format", "L16", "--batch", 1)
                c.wait_for(lambda: daemon.stream()["frames_in"]["received"] >= FRAMES, "all frames")
                status = daemon.stop()["streams"][0]
                whole = (FRAMES + len(h) - 1) * channels * width
                c.wait_for(lambda: os.path.exists(out) and os.path.getsize(out) >= whole * 0.95, "its file")
                program.interrupt(codes)
            self.assertEqual(status["sinks"][0]["delivered"], FRAMES + len(h) - 1)
            c.assert_within(read_wav(out), c.convolve(x, h), x, h, lsb=2.0 ** (1 - 8 * width))

    def test_ffmpeg_l16(self):
        self.receive(ffmpeg_receives, (0, 255), 2, 48000, 2)

    def test_tags_are_skipped(self):
        for receiver, codes in ((ffmpeg_receives, (0, 255)), (gst_receives, (0, 130))):
            with self.subTest(receiver.__name__):
                self.receive(receiver, codes, 2, 48000, 2, tagged=True)

    def test_ffmpeg_l24_192_khz(self):
        self.receive(ffmpeg_receives, (0, 255), 3, 192000, 4)

    def test_gstreamer_l16_192_khz(self):
        self.receive(gst_receives, (0, 130), 2, 192000, 2)

    def test_gstreamer_l24(self):
        self.receive(gst_receives, (0, 130), 3, 44100, 1)

    def test_silence(self):
        """The rig pauses for 2.5 s before, in and after its signal. The heartbeats of that time cost no
        receiver a frame and no message: ffmpeg, GStreamer, convolv-tap and a stream of another daemon."""
        ports = {name: c.free_port() for name in ("rx", "ffmpeg", "gst", "tap", "daemon")}
        with c.temporary() as folder:
            taps, path = os.path.join(folder, "h.npy"), os.path.join(folder, "x.wav")
            h = c.random_taps(3, 33)
            np.save(taps, h)
            x = c.noise_codes(4, FRAMES, 1, 0.2) / 32768
            write_wav(path, 48000, x, 2)
            text = config(ports["rx"], ports["tap"], 48000, 1, "L16", "f32be", taps)
            for name in ("ffmpeg", "gst", "daemon"):
                text += c.rtp_sink(name, "s", ports[name], f"format = L16\nfull scale = 1\nsdp = {folder}/{name}.sdp")
            other = config(ports["daemon"], c.free_port(), 48000, 1, "L16", "L16", taps)
            outputs = {name: os.path.join(folder, name + ".wav") for name in ("ffmpeg", "gst")}
            os.mkdir(os.path.join(folder, "b"))
            with c.Daemon(os.path.join(folder, "b"), other) as behind, c.Daemon(folder, text) as daemon, \
                    c.Tap(folder, ports["tap"]) as tap, \
                    ffmpeg_receives(f"{folder}/ffmpeg.sdp", outputs["ffmpeg"], 2) as ffmpeg, \
                    gst_receives(f"{folder}/gst.sdp", outputs["gst"], 2) as gst:
                for name in ("ffmpeg", "gst"):
                    c.wait_for(lambda name=name: bound(ports[name]), f"{name} to listen")
                tap.wait_said("silence: the sender is alive")
                with c.Process("convolv-rig", ["--to", f"127.0.0.1:{ports['rx']}", "--file", path, "--format", "L16",
                                               "--batch", 1]) as rig:
                    c.wait_for(lambda: daemon.stream()["frames_in"]["received"] >= FRAMES // 4, "some frames")
                    rig.signal(signal.SIGSTOP)
                    time.sleep(2.5)
                    rig.signal(signal.SIGCONT)
                    rig.wait()
                c.wait_for(lambda: daemon.stream()["frames_in"]["received"] >= FRAMES, "all frames")
                time.sleep(2.5)
                status = daemon.stop()["streams"][0]
                whole = FRAMES + len(h) - 1
                for name, program, codes in (("ffmpeg", ffmpeg, (0, 255)), ("gst", gst, (0, 130))):
                    c.wait_for(lambda name=name: os.path.getsize(outputs[name]) >= whole * 2 * 0.95, f"{name}'s file")
                    program.interrupt(codes)
                tap.wait_said("is dead")
                got = tap.finish(number=signal.SIGTERM)
                source = behind.stop()["streams"][0]
                said = ffmpeg.output() + gst.output()
            self.assertNotRegex(said, "missed|Error while decoding")
            # Without a jitter buffer the very first packet cannot be known as a duplicate.
            self.assertLessEqual(said.count("Empty Payload"), 1)
            sinks = {sink["name"]: sink for sink in status["sinks"]}
            for name, program in (("ffmpeg", ffmpeg), ("gst", gst)):
                self.assertEqual(sinks[name]["delivered"], whole)
                c.assert_within(read_wav(outputs[name]), c.convolve(x, h), x, h, lsb=2.0 ** -15)
            c.assert_within(tap.frames(), c.convolve(x, h), x, h)
            self.assertEqual([got["lost"], got["frames_lost"], got["senders"]], [0, 0, 1])
            self.assertGreaterEqual(got["heartbeats"], 4)
            self.assertEqual(source["frames_in"]["received"], whole)
            self.assertEqual([sum(source["frames_in"]["gap"].values()), source["epochs"]], [0, 1])
            rejected = {name: count for name, count in source["datagrams"]["rejected"].items() if count}
            self.assertEqual(list(rejected), ["empty"])
            self.assertGreaterEqual(rejected["empty"], 4)

    @unittest.skipUnless(shutil.which("ffplay"), "no ffplay")
    def test_ffplay_opens_the_sdp(self):
        """It names the stream as the sink describes it, which it does only after decoding some."""
        for width, rate, channels in ((2, 192000, 2), (3, 192000, 1), (3, 44100, 2)):
            rx, tx = c.free_port(), c.free_port()
            with self.subTest(width=width, rate=rate), c.temporary() as folder:
                taps, sdp = os.path.join(folder, "h.npy"), os.path.join(folder, "out.sdp")
                np.save(taps, np.ones(1))
                text = config(rx, tx, rate, channels, "L16", f"L{8 * width}", taps) + f"sdp = {sdp}\n"
                with c.Daemon(folder, text), \
                        Program("ffplay", "-hide_banner", "-nodisp", "-protocol_whitelist", "file,udp,rtp", sdp) as player:
                    c.wait_for(lambda: bound(tx), "ffplay to listen")
                    with c.Process("convolv-rig", ["--to", f"127.0.0.1:{rx}", "--rate", rate, "--channels", channels,
                                                   "--seconds", 60]):
                        wanted = f"Audio: pcm_s{8 * width}be, {rate} Hz"
                        c.wait_for(lambda: wanted in player.output(), f"ffplay to say '{wanted}'")


def bound(port):
    """Whether some program listens on the UDP port."""
    for table in ("/proc/net/udp", "/proc/net/udp6"):
        if os.path.exists(table):
            with open(table, encoding="ascii") as file:
                if any(line.split()[1].endswith(f":{port:04X}") for line in file.readlines()[1:]):
                    return True
    return False


if __name__ == "__main__":
    unittest.main()
