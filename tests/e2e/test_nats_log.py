#!/usr/bin/python3
# sanitizers: yes
# parallel: yes
# takes: 0 s CPU in 3 s
"""convolv-tap --log, and with it libconvolv-nats: a partition's results by frame number, from records that this test
encodes by itself as docs/cluster.md says. Whatever becomes of the log meanwhile, each frame comes once and is the
right one; what the log has dropped, what nobody computed and a fork are told."""
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import numpy as np

import convolvd as c
from nats_servers import Client, Servers

TAP = os.path.join(c.BUILD, "convolv-tap")
CHANNELS = 2
TAKE, DATA, BEAT, END = 1, 2, 4, 5
STARTS, ENDS = 2, 4
TABLE = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    TABLE.append(i)


def crc32c(before, data):
    crc = before ^ 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class Log:
    """A log of one partition, and what its owner has appended so far."""

    def __init__(self, client, partition, samples, create=True):
        self.client, self.samples = client, samples
        self.stream, self.subject = f"lab:{partition}:log", f"convolvd.lab.{partition}.log"
        self.sequence = self.epoch = self.next = self.chain = 0
        if create:
            client.create(self.stream, self.subject)

    def append(self, kind, frames=0, shed=0, flags=0, ranges=()):
        first, end = self.next + shed, self.next + shed + frames
        payload = self.samples[self.epoch][first:end].tobytes()
        before, self.chain = self.chain, crc32c(self.chain, payload)
        head = struct.pack("<4sBBHI", b"CVCL", 1, kind, CHANNELS, flags)
        body = struct.pack("<10Q", 1, 7, self.epoch, 0, self.next, first, end, first, end, 0) \
            + struct.pack("<2d3q", 48000, 0, 10**18 + first * 10**9 // 48000, 1000, 10**18) + bytes([2, 4, 32, 0]) + bytes(20) \
            + struct.pack("<IIIIHBBI4HII", before, self.chain, 0, 0, 0, 0, 0, end - first, 0, 0, 0, 0, 0, len(ranges)) \
            + b"".join(struct.pack("<QQBB6x", *entry) for entry in ranges) + payload
        record = head + struct.pack("<I", crc32c(0, head + bytes(4) + body)) + body
        answer = self.client.append(self.subject, record, Nats_Expected_Last_Sequence=self.sequence)
        assert "error" not in answer, answer
        self.sequence, self.next = answer["seq"], end

    def data(self, *counts):
        for frames in counts:
            self.append(DATA, frames)

    def next_epoch(self):
        self.append(END)
        self.epoch, self.next = self.epoch + 1, 0


class Reader(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = Servers()
        cls.servers.__enter__()
        cls.samples = np.random.default_rng(5).standard_normal((3, 4000, CHANNELS)).astype("<f4")

    @classmethod
    def tearDownClass(cls):
        cls.servers.__exit__()

    def setUp(self):
        self.client = Client(self.servers[0].port)
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.client.close()
        self.folder.cleanup()

    def tap(self, partition, *options):
        return subprocess.Popen([TAP, "--log", f"{self.servers[0].url}/lab/{partition}", "--quiet", "--write", f"{self.folder.name}/out.npy",
                                 "--ledger", f"{self.folder.name}/ledger", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finished(self, tap, status=0):
        _, error = tap.communicate(timeout=c.PATIENCE_S)
        self.assertEqual(tap.returncode, status, error)
        with open(f"{self.folder.name}/ledger", encoding="utf-8") as file:
            return json.load(file), error

    def got(self):
        return np.load(f"{self.folder.name}/out.npy")

    def test_from_the_beginning(self):
        log = Log(self.client, "whole", self.samples)
        log.append(TAKE)
        log.append(DATA, 100, flags=STARTS, ranges=((0, 30, 0, 0),))
        log.data(1, 899)
        log.append(BEAT)
        tap = self.tap("whole", "--until-end")
        log.data(1000, 1000)
        log.append(DATA, 1000, flags=ENDS)
        ledger, _ = self.finished(tap)
        np.testing.assert_array_equal(self.got(), self.samples[0])
        self.assertEqual((ledger["frames"], ledger["frames_lost"], ledger["lost"]), (4000, 0, 0))

    def test_shed_and_dropped(self):
        log = Log(self.client, "shed", self.samples)
        log.data(100)
        log.append(DATA, 300, shed=100, ranges=((100, 200, 5, 0),))
        log.next_epoch()
        log.data(500)
        log.append(END)
        ledger, _ = self.finished(self.tap("shed", "--epochs", "2"))
        np.testing.assert_array_equal(self.got()[:100], self.samples[0][:100])
        self.assertTrue(np.isnan(self.got()[100:200]).all())
        np.testing.assert_array_equal(self.got()[200:500], self.samples[0][200:500])
        np.testing.assert_array_equal(np.load(f"{self.folder.name}/out-epoch1.npy"), self.samples[1][:500])
        self.assertEqual((ledger["frames_shed"], ledger["frames_lost"]), (100, 0))

    def test_a_log_that_went_back(self):
        log = Log(self.client, "back", self.samples)
        log.data(100, 200, 300)
        tap = self.tap("back", "--until-end")
        self.wait_for_consumer(log)
        time.sleep(0.3)
        # Its server has lost all of it; a successor appends the same frames again, cut differently.
        self.client.api(f"STREAM.DELETE.{log.stream}", {})
        again = Log(self.client, "back", self.samples)
        again.append(TAKE)
        again.data(37, 1000, 63, 900)
        again.append(END)
        ledger, _ = self.finished(tap)
        np.testing.assert_array_equal(self.got(), self.samples[0][:2000])
        self.assertEqual((ledger["frames"], ledger["frames_lost"]), (2000, 0))

    def test_a_fork(self):
        log = Log(self.client, "fork", self.samples)
        log.data(100, 200)
        tap = self.tap("fork", "--until-end")
        self.wait_for_consumer(log)
        time.sleep(0.3)
        log.sequence, log.next, log.chain = log.sequence, 250, 0  # of other samples before
        log.data(500)
        _, error = self.finished(tap, 1)
        self.assertIn("other samples under frame numbers", error)
        np.testing.assert_array_equal(self.got(), self.samples[0][:300])

    def test_no_log(self):
        tap = self.tap("nowhere", "--wait", "0.5 s")
        _, error = tap.communicate(timeout=c.PATIENCE_S)
        self.assertNotEqual(tap.returncode, 0)
        self.assertIn("no results for 0.5 s", error)

    def test_a_server_that_comes_back(self):
        log = Log(self.client, "server", self.samples)
        self.client.api(f"STREAM.DELETE.{log.stream}", {})
        self.client.create(log.stream, log.subject, "file")
        log.data(1000)
        tap = self.tap("server", "--until-end")
        self.wait_for_consumer(log)
        self.servers[0].signal(signal.SIGKILL)
        self.servers[0].start()
        self.client.close()
        log.client = self.client = Client(self.servers[0].port)
        log.data(2000)
        log.append(END)
        self.finished(tap)
        np.testing.assert_array_equal(self.got(), self.samples[0][:3000])

    def test_a_slow_reader(self):
        """One that stands still reads on where it was; what the log has dropped meanwhile, it says."""
        log = Log(self.client, "slow", self.samples)
        self.client.api(f"STREAM.DELETE.{log.stream}", {})
        self.client.create(log.stream, log.subject, "file")
        log.data(500)
        tap = self.tap("slow", "--until-end")
        self.wait_for_consumer(log)
        time.sleep(0.3)
        tap.send_signal(signal.SIGSTOP)
        log.data(*[10] * 50)
        tap.send_signal(signal.SIGCONT)
        c.wait_for(lambda: self.unread(log) == 0, "the records of the pause")
        tap.send_signal(signal.SIGSTOP)
        self.servers[0].signal(signal.SIGKILL)  # nothing waits for the reader in the server or in between
        self.servers[0].start()
        self.client.close()
        log.client = self.client = Client(self.servers[0].port)
        log.data(300, 200, 1000)
        self.assertTrue(self.client.api(f"STREAM.PURGE.{log.stream}", {"seq": log.sequence})["success"])
        tap.send_signal(signal.SIGCONT)
        log.data(500)
        log.append(END)
        ledger, error = self.finished(tap, 1)
        self.assertIn("packets or frames are missing", error)
        self.assertEqual((ledger["frames"], ledger["frames_lost"]), (2500, 500))
        np.testing.assert_array_equal(self.got()[:1000], self.samples[0][:1000])
        self.assertTrue(np.isnan(self.got()[1000:1500]).all())
        np.testing.assert_array_equal(self.got()[1500:], self.samples[0][1500:3000])

    def unread(self, log):
        """Records that the server has not delivered to the reader."""
        consumers = self.client.api(f"CONSUMER.LIST.{log.stream}", {})["consumers"]
        return sum(consumer["num_pending"] for consumer in consumers)

    @unittest.skipIf(c.SANITIZED, "the archive is a sanitizer's")
    def test_the_library(self):
        """libconvolv-nats as a user has it: two headers, the archive and its pkg-config file."""
        program = r"""
#include <convolv-nats.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    const struct convolv_log_options from = {.servers = argv[argc - 1], .cluster = "lab", .partition = "library"};
    struct convolv_log *log;
    struct convolv_log_facts facts;
    struct convolv_block block;
    struct convolv_problem problem;
    if (convolv_log_open(&from, &log, &problem) != CONVOLV_OK || convolv_log_next(log, 10000, &block) != 1)
        return 1;
    convolv_log_facts(log, &facts);
    printf("%u frames of %u channels at %g Hz, %s\n", block.frames, facts.channels, facts.rate_hz, facts.format);
    convolv_log_close(log);
    return 0;
}
"""
        prefix = self.folder.name
        for source, name in ((f"{c.ROOT}/clients/lib/convolv.h", "include/convolv.h"), (f"{c.BUILD}/libconvolv-nats.a", "lib/libconvolv-nats.a"),
                             (f"{c.ROOT}/clients/nats/convolv-nats.h", "include/convolv-nats.h")):
            os.makedirs(os.path.dirname(f"{prefix}/{name}"), exist_ok=True)
            shutil.copy(source, f"{prefix}/{name}")
        with open(f"{c.ROOT}/clients/nats/convolv-nats.pc.in", encoding="utf-8") as template, \
                open(f"{prefix}/lib/convolv-nats.pc", "w", encoding="utf-8") as file:
            file.write(template.read().replace("@PREFIX@", prefix).replace("@VERSION@", "0"))
        with open(f"{prefix}/user.c", "w", encoding="utf-8") as file:
            file.write(program)
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "convolv-nats"], env={**os.environ, "PKG_CONFIG_PATH": f"{prefix}/lib"},
                               check=True, capture_output=True, text=True).stdout.split()
        subprocess.run(["cc", "-std=c11", "-pedantic", "-Wall", "-Werror", f"{prefix}/user.c", *flags, "-o", f"{prefix}/user"], check=True)
        Log(self.client, "library", self.samples).data(300)
        said = subprocess.run([f"{prefix}/user", self.servers[0].url], check=True, capture_output=True, text=True, timeout=30).stdout
        self.assertEqual(said, "300 frames of 2 channels at 48000 Hz, f32le\n")

    def wait_for_consumer(self, log):
        until = time.monotonic() + c.PATIENCE_S
        while self.client.state(log.stream)["consumer_count"] == 0:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.02)


if __name__ == "__main__":
    unittest.main(verbosity=2)
