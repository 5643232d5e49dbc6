#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 7 s
# sanitizers: yes
"""convolv-rig and convolv-tap against each other, without a daemon: what the rig says it sent is
what arrives, faults are exactly those of the ledger, the tap's verdicts and exit statuses, and
what both print. Then libconvolv as a user has it: header, archive and pkg-config file alone."""
import json
import os
import pty
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

import numpy as np

import convolvd as c


def run(name, *arguments):
    """(exit status, stdout, stderr)"""
    result = subprocess.run([os.path.join(c.BUILD, name), *map(str, arguments)], stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=c.PATIENCE_S, check=False)
    return result.returncode, result.stdout, result.stderr


class Tools(unittest.TestCase):
    def setUp(self):
        self.enterContext(folder := c.temporary())
        self.folder = folder.name
        self.port = c.free_port()

    def path(self, name):
        return os.path.join(self.folder, name)

    def exchange(self, *rig_arguments, tap_arguments=(), channels=1, form="f32be", code=0):
        """One rig to one tap: what was sent, what arrived, the samples of both."""
        with c.Tap(self.folder, self.port, "--format", form, *tap_arguments, channels=channels) as tap:
            sent = c.rig(self.folder, self.port, "--signal", "noise", "--amplitude", 0.2, "--channels", channels, "--format",
                         form, "--write", self.path("x.npy"), *rig_arguments)
            got = tap.finish(code=code, number=signal.SIGTERM)
            return sent, got, np.load(self.path("x.npy")), tap

    def test_every_sample_arrives(self):
        for form, channels, packet in (("f32be", 1, 300), ("L16", 5, 100), ("L24", 2, 77), ("s32be", 1, 1), ("u8", 16, 50)):
            with self.subTest(form):
                sent, got, x, tap = self.exchange("--frames", 5000, "--packet", packet, "--rate", "200 kHz", form=form,
                                                  channels=channels)
                self.assertEqual([got["frames"], got["lost"], got["senders"]], [5000, 0, 1])
                self.assertEqual(got["datagrams"], sent["datagrams_sent"])
                self.assertTrue(np.array_equal(tap.frames(), x))

    def test_the_kernel_cuts_as_we_do(self):
        """UDP_SEGMENT changes who cuts, not what arrives."""
        for extra in ([], ["--segment"]):
            sent, got, x, tap = self.exchange("--frames", 30000, "--flat-out", "--batch", 64, *extra)
            self.assertEqual(got["frames"] + got["frames_lost"], 30000)
            self.assertEqual(got["accepted"] + got["kernel_drops"], sent["datagrams_sent"])
            frames = tap.frames()
            came = ~np.isnan(frames)
            self.assertTrue(np.array_equal(frames[came], x[:len(frames)][came]))

    def test_faults_are_those_of_the_ledger(self):
        sent, got, x, tap = self.exchange("--frames", 48000, "--packet", 60, "--rate", "200 kHz", "--loss", 0.05, "--loss-burst", 3,
                                          "--duplicate", "10 %", "--reorder", "10 %", "--reorder-depth", 12, "--wrong-ssrc",
                                          "5 %", "--garbage", "5 %", "--clean", 600, "--wrap", "--seed", 4, code=1)
        self.assertEqual(sent["datagrams_sent"], sent["datagrams_gone"] + sent["duplicated"] + sent["wrong_ssrc"] + sent["garbage"])
        self.assertEqual(got["datagrams"], sent["datagrams_sent"])
        self.assertEqual(got["accepted"], sent["datagrams_gone"])
        self.assertEqual(got["reordered"], sent["reordered"])
        self.assertEqual([got["rejected"]["duplicate"], got["rejected"]["ssrc"], got["rejected"]["malformed"]],
                         [sent["duplicated"], sent["wrong_ssrc"], sent["garbage"]])
        self.assertEqual(sum(b - a for a, b in sent["missing"]), sent["frames_dropped"])
        self.assertTrue(sent["missing"][-1][1] < 48000, "choose another seed")
        self.assertEqual([got["lost"], got["frames_lost"]], [sent["datagrams_dropped"], sent["frames_dropped"]])
        # Frames lie where they belong, and exactly the missing ones are missing.
        frames = tap.frames()
        self.assertEqual(c.runs(np.isnan(frames[:, 0])), [tuple(pair) for pair in sent["missing"]])
        came = ~np.isnan(frames)
        self.assertTrue(np.array_equal(frames[came], x[came]))

    def test_the_seed_decides(self):
        ledgers = [c.rig(self.folder, self.port, "--frames", 20000, "--flat-out", "--packet", 50, "--loss", 0.1, "--packet-min", 5,
                         "--seed", seed) for seed in (1, 1, 2)]
        for ledger in ledgers:
            del ledger["refused"]  # depends on when the kernel says that nobody listens
        self.assertEqual(ledgers[0], ledgers[1])
        self.assertNotEqual(ledgers[0], ledgers[2])

    def test_pace(self):
        """Packets are due at absolute times: neither jitter nor a late packet makes the run longer."""
        for extra, seconds in (([], 0.5), (["--ppm", 100000], 0.5 / 1.1), (["--jitter", "5 ms"], 0.5)):
            begun = time.monotonic()
            c.rig(self.folder, self.port, "--frames", 24000, "--packet", 480, *extra)
            took = time.monotonic() - begun
            self.assertGreater(took, seconds - 0.01)
            self.assertLess(took, seconds + (1.5 if c.SANITIZED else 0.5))

    def test_records_and_pauses(self):
        sent, got, _, _ = self.exchange("--frames", 9000, "--record", 2000, "--pause", "5 ms", "--rate", "100 kHz", "--packet", 300)
        self.assertEqual(sent["records"], 5)
        self.assertEqual(sent["record_starts"], [[2000 * i, 2500 * i] for i in range(5)])
        self.assertEqual(sent["elapsed_frames"], 9000 + 4 * 500)
        self.assertEqual([got["frames"], got["lost"]], [9000, 0])

    def test_recording_repeated(self):
        codes = c.noise_codes(1, 1000, 2)
        c.write_wav16(self.path("x.wav"), 48000, codes)
        with c.Tap(self.folder, self.port, "--format", "L16", "--frames", 3000, channels=2) as tap:
            c.rig(self.folder, self.port, "--file", self.path("x.wav"), "--repeat", 3)
            tap.finish()
            self.assertTrue(np.array_equal(tap.frames(), np.tile(codes / 32768, (3, 1))))

    def test_ended_early(self):
        """--write holds what was sent, not what had been acquired beyond it."""
        with c.Tap(self.folder, self.port, "--format", "f32be", channels=1) as tap:
            rig = c.Process("convolv-rig", ["--to", f"127.0.0.1:{self.port}", "--format", "f32be", "--rate", "20 kHz", "--signal",
                                            "noise", "--seconds", 600, "--ledger", self.path("sent.json"), "--write",
                                            self.path("x.npy")])
            self.addCleanup(rig.kill)
            c.wait_for(lambda: os.path.exists(self.path("x.npy")), "the first samples")
            time.sleep(0.3)
            rig.signal(signal.SIGTERM)
            self.assertEqual(rig.wait(), 0)
            tap.finish(number=signal.SIGTERM)
            with open(self.path("sent.json"), encoding="utf-8") as file:
                sent = json.load(file)
            self.assertTrue(sent["interrupted"])
            x = np.load(self.path("x.npy"))
            self.assertEqual(len(x), sent["rigs"][0]["frames"])
            self.assertTrue(np.array_equal(tap.frames(), x))

    def test_several_rigs(self):
        other = c.free_port()
        with c.Tap(self.folder, self.port, name="a") as a, c.Tap(self.folder, other, name="b") as b:
            c.rig(self.folder, self.port, "--to", f"127.0.0.1:{other}", "--signal", "noise", "--frames", 3000, "--format",
                  "f32be", "--write", self.path("x.npy"))
            for tap, name in ((a, "x.npy"), (b, "x.npy.1")):
                tap.finish(number=signal.SIGTERM)
                self.assertTrue(np.array_equal(tap.frames(), np.load(self.path(name))))

    def test_addresses(self):
        """IPv6 and multicast on loopback."""
        for listen, extra in ((f"[::1]:{self.port}", []), (f"239.255.77.1:{self.port}", ["--interface", "lo"])):
            with c.Process("convolv-tap", ["--listen", listen, "--frames", 500, "--timeout", 10, *extra]) as tap:
                tap.wait_said("listening")
                code, _, errors = run("convolv-rig", "--to", listen, "--frames", 500, "--format", "f32be", *extra)
                self.assertEqual(code, 0, errors)
                self.assertEqual(tap.wait(), 0, tap.output())

    # ---- what the tap says -------------------------------------------------------------------

    def test_expectations(self):
        """Frame n is compared with frame n: right, off by one frame, one sample wrong, too short, too long."""
        random = np.random.default_rng(3)
        x = random.normal(0, 0.2, (2000, 1)).astype(np.float32).astype(np.float64)
        wrong = x.copy()
        wrong[700] += 1e-4
        cases = (("right", x, 0), ("off by one frame", np.roll(x, 1, axis=0), 1), ("one sample", wrong, 1),
                 ("longer", np.concatenate([x, x]), 0), ("two channels", np.hstack([x, x]), 2))
        for name, want, code in cases:
            with self.subTest(name):
                np.save(self.path("want.npy"), want)
                # The signal as the rig would send it, from here: raw packets of 100 frames.
                with c.Process("convolv-tap", ["--listen", f"127.0.0.1:{self.port}", "--frames", 2000, "--timeout", 10,
                                               "--expect", self.path("want.npy"), "--ledger", self.path("l.json")]) as tap:
                    if code != 2:
                        tap.wait_said("listening")
                        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                            for i in range(20):
                                out.sendto(struct.pack(">BBHII", 0x80, 96, i, 100 * i, 5)
                                           + x[100 * i:100 * i + 100].astype(">f4").tobytes(), ("127.0.0.1", self.port))
                    self.assertEqual(tap.wait(), code, tap.output())
                if code != 2:
                    verdict = c.load_json(self.path("l.json"))["expect"]
                    self.assertEqual([verdict["compared"], verdict["within"]], [2000, code == 0])
                    if name == "one sample":
                        self.assertEqual(verdict["worst_frame"], 700)

    def test_exit_statuses(self):
        cases = ((["--listen", "nowhere"], 2, "HOST:PORT"), ([], 2, "--listen"), (["--listen", "127.0.0.1:1", "--frames", "x"], 2, "whole number"),
                 (["--listen", f"127.0.0.1:{self.port}", "--rate", "20 ms"], 2, "frequency"), (["--bogus"], 2, "--bogus"),
                 (["--listen", f"127.0.0.1:{self.port}", "--write", "x.mp3"], 2, ".wav"),
                 (["--listen", f"127.0.0.1:{self.port}", "--frames", 5, "--timeout", "100 ms"], 1, "ended before"))
        for arguments, code, words in cases:
            with self.subTest(arguments=arguments):
                status, _, errors = run("convolv-tap", *arguments)
                self.assertEqual(status, code)
                self.assertIn(words, errors)
        for arguments, words in (([], "--to"), (["--to", "127.0.0.1"], "HOST:PORT"), (["--to", "127.0.0.1:9", "--signal", "song"], "--help"),
                                 (["--to", "127.0.0.1:9", "--file", "/nonexistent.wav"], "/nonexistent.wav"),
                                 (["--to", "127.0.0.1:9", "--loss", "2"], "0 to 1"),
                                 (["--to", "127.0.0.1:9", "--framing", "udp", "--record", "5"], "--framing rtp")):
            with self.subTest(arguments=arguments):
                status, _, errors = run("convolv-rig", *arguments)
                self.assertEqual(status, 2)
                self.assertIn(words, errors)

    def test_help_names_every_option(self):
        for tool in ("convolv-rig", "convolv-tap"):
            status, text, _ = run(tool, "--help")
            self.assertEqual(status, 0)
            with open(os.path.join(c.ROOT, "clients", "tools", f"{tool}.c"), encoding="utf-8") as source:
                self.assertIn("tool_options_print_help(rows", source.read())
            for option in ("--ledger", "--credit", "--quiet", "--help", "--version"):
                self.assertIn(option, text)
            self.assertLess(max(map(len, text.splitlines())), 120)

    def test_progress_on_a_terminal_only(self):
        for tool, extra in (("convolv-rig", ["--to", f"127.0.0.1:{self.port}", "--seconds", 0.5]),
                            ("convolv-tap", ["--listen", f"127.0.0.1:{self.port}", "--timeout", 0.5])):
            _, _, errors = run(tool, *extra)
            self.assertNotIn("\r", errors)
            master, slave = pty.openpty()
            with subprocess.Popen([os.path.join(c.BUILD, tool), *map(str, extra)], stderr=slave, stdout=subprocess.DEVNULL):
                pass
            os.close(slave)
            try:
                shown = os.read(master, 65536)
            except OSError:
                shown = b""
            os.close(master)
            self.assertIn(b"frames", shown)

    def test_recordings(self):
        """Late packets fill their place; lost frames are zero in a recording."""
        for ending in ("wav", "w64", "rf64"):
            with c.Process("convolv-tap", ["--listen", f"127.0.0.1:{self.port}", "--write", self.path(f"t.{ending}")]) as tap:
                tap.wait_said("listening")
                sent = c.rig(self.folder, self.port, "--signal", "noise", "--frames", 20000, "--format", "f32be", "--rate", "100 kHz",
                             "--packet", 100, "--reorder", 0.2, "--loss", 0.02, "--clean", 500, "--seed", 9, "--write",
                             self.path("x.npy"))
                tap.signal(signal.SIGTERM)
                tap.wait()
            x = np.load(self.path("x.npy"))
            for a, b in sent["missing"]:
                x[a:b] = 0
            if sent["missing"][-1][1] == 20000:
                x = x[:sent["missing"][-1][0]]
            if ending != "w64":
                recorded = c.read_recording(self.path(f"t.{ending}")).reshape(-1, 1)
            else:  # the rig reads what the tap wrote
                with c.Tap(self.folder, self.port, "--frames", len(x)) as tap:
                    c.rig(self.folder, self.port, "--file", self.path("t.w64"), "--format", "f32be", "--rate", "100 kHz")
                    tap.finish()
                    recorded = tap.frames()
            self.assertTrue(np.array_equal(recorded, x), ending)

    # ---- the library, as installed -------------------------------------------------------------

    @unittest.skipIf(c.SANITIZED, "a user's program links the library as it is shipped")
    def test_library_links_alone(self):
        program = r"""
#include <convolv.h>
#include <stdio.h>
int main(void)
{
    struct convolv_sender_options to;
    convolv_sender_defaults(&to);
    struct convolv_receiver_options from;
    convolv_receiver_defaults(&from);
    sprintf(from.address, "127.0.0.1:0");
    sprintf(from.format, "L16");
    struct convolv_receiver *receiver;
    struct convolv_sender *sender;
    struct convolv_problem problem;
    char address[64];
    if (convolv_receiver_open(&from, &receiver, &problem) != CONVOLV_OK)
        return 1;
    sprintf(address, "127.0.0.1:%u", convolv_receiver_port(receiver));
    to.address = address;
    if (convolv_sender_open(&to, &sender, &problem) != CONVOLV_OK)
        return 2;
    double values[3] = {0.25, -0.5, 0.75};
    convolv_sender_write(sender, values, 3, true);
    convolv_sender_flush(sender);
    struct convolv_block block;
    if (convolv_receiver_next(receiver, 5000, &block) != 1 || block.frames != 3 || block.samples[1] != -0.5)
        return 3;
    printf("libconvolv %s: %u frames\n", convolv_version(), block.frames);
    convolv_sender_close(sender);
    convolv_receiver_close(receiver);
    return 0;
}
"""
        with open(self.path("user.c"), "w", encoding="utf-8") as file:
            file.write(program)
        prefix = self.path("prefix")
        os.makedirs(os.path.join(prefix, "lib", "pkgconfig"))
        os.makedirs(os.path.join(prefix, "include"))
        shutil.copy(os.path.join(c.BUILD, "libconvolv.a"), os.path.join(prefix, "lib"))
        shutil.copy(os.path.join(c.ROOT, "clients", "lib", "convolv.h"), os.path.join(prefix, "include"))
        with open(os.path.join(c.ROOT, "clients", "lib", "convolv.pc.in"), encoding="utf-8") as template:
            text = template.read().replace("@PREFIX@", prefix).replace("@VERSION@", "0")
        with open(os.path.join(prefix, "lib", "pkgconfig", "convolv.pc"), "w", encoding="utf-8") as file:
            file.write(text)
        environment = {**os.environ, "PKG_CONFIG_PATH": os.path.join(prefix, "lib", "pkgconfig")}
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "--static", "convolv"], env=environment, check=True,
                               capture_output=True, text=True).stdout.split()
        for language in (["cc", "-std=c11", "-pedantic"], ["c++", "-x", "c++"]):
            if shutil.which(language[0]) is None:
                continue
            subprocess.run([*language, "-Wall", "-Werror", "-c", self.path("user.c"), *(f for f in flags if f.startswith("-I")),
                            "-o", self.path("user.o")], check=True)
            subprocess.run([language[0], self.path("user.o"), *flags, "-o", self.path("user")], check=True)
            result = subprocess.run([self.path("user")], capture_output=True, text=True, check=False, timeout=20)
            self.assertEqual(result.returncode, 0)
            self.assertIn("3 frames", result.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
