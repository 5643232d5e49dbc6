#!/usr/bin/python3
# kernels: plain, files are tested
# parallel: yes
# threads: yes
# long: also, more random moments of a kill
# takes: 4 s CPU in 8 s
# takes-long: 15 s CPU in 25 s
"""Vallen's files end to end: an independent reader (vallen_reader.py) follows them while the daemon writes,
finds them whole after a kill, and reads the same hits again from a replay of their transients. The recording
of a bearing, where it lies beside the tree, is replayed and compared with its instrument's own values."""
import os
import random
import shutil
import sqlite3
import subprocess
import threading
import time
import unittest

import numpy as np

import convolvd as c
import vallen_reader as v

RATE = 1000000
FULL_SCALE = 0.1  # V
# Data of others that the tree does not hold: a folder with bearing.tradb and bearing.pridb.
DATA = os.environ.get("CONVOLVD_TEST_DATA", os.path.join(c.ROOT, "..", "shared", "data"))
CONVOLVD = os.path.join(c.BUILD, "convolvd")
MOMENTS = 20 if os.environ.get("CONVOLVD_TEST_LONG") else 1


def bursts(seed, frames, channels, every=20000):
    """Codes with a decaying burst on each channel every so often, over a little noise."""
    random = np.random.default_rng(seed)
    x = random.normal(0, 3, (frames, channels))
    t = np.arange(2000)
    for start in range(5000, frames - 3000, every):
        for channel in range(channels):
            at = start + int(random.integers(0, 300)) * channel
            shape = np.exp(-t / random.uniform(60, 200)) * np.sin(2 * np.pi * t * random.uniform(0.08, 0.2))
            x[at:at + len(t), channel] += random.uniform(500, 20000) * shape
    return np.clip(np.rint(x), -32768, 32767).astype("<i2")


def source_stdin(channels, scale=FULL_SCALE, rate=RATE):
    return f"source = stdin\nrate = {rate} Hz\nchannels = {channels}\nformat = s16le\nfull scale = {scale!r} V\n"


def source_tradb(name, keys=""):
    return f"source = tradb\npath = {name}\npace = fast\n{keys}"


HITS = "threshold = 1 mV\nhdt = 200 us\npre-trigger = 100 us\npost-duration = 300 us\nmax record = 5 ms\n"


def config(source, path, analysis="hits", keys=HITS, sink="", stream=""):
    return (f"[device]\ndevice = {c.DEVICE}\n[stream s]\n{source}{stream}block = 1024\nfilter = f\n"
            f"[filter f]\ntype = identity\n"
            f"[analysis a]\ntype = {analysis}\nstream = s\n{keys}"
            f"[sink files]\ntype = vallen\nanalysis = a\npath = {path}\nflush = 50 ms\n{sink}")


def feed_for_ever(process, codes):
    try:
        while True:
            process.stdin.write(codes.tobytes())
    except BrokenPipeError:
        pass


class Vallen(unittest.TestCase):
    def setUp(self):
        self.folder_object = c.temporary()
        self.folder = self.folder_object.name
        self.addCleanup(self.folder_object.cleanup)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, text, name="a.conf"):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(text)
        return self.path(name)

    def start(self, text, name="a.conf", stdin=subprocess.DEVNULL):
        # A thread of its own empties the daemon's log.
        log = open(self.path(name + ".log"), "wb")
        self.addCleanup(log.close)
        process = subprocess.Popen([CONVOLVD, "--config", self.write(text, name)], stdin=stdin, stdout=log,
                                   stderr=log, env={**os.environ, "RUNTIME_DIRECTORY": self.folder})
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def finish(self, process, name="a.conf", code=0):
        got = process.wait(c.PATIENCE_S * 4)
        with open(self.path(name + ".log"), encoding="utf-8", errors="replace") as log:
            self.assertEqual(got, code, log.read())

    def run_all(self, text, name="a.conf", codes=None):
        process = self.start(text, name, subprocess.PIPE if codes is not None else subprocess.DEVNULL)
        if codes is not None:
            process.stdin.write(codes.tobytes())
            process.stdin.close()
        self.finish(process, name)

    def check(self, text, code=0):
        done = subprocess.run([CONVOLVD, "--check", self.write(text, "check.conf")], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=c.PATIENCE_S * 2, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def assert_in_order(self, path):
        with v.Pridb(path) as pri, v.Tradb(path.replace(".pridb", ".tradb")) as tra:
            for times in ([s["ticks"] for s in pri.sets()], [r["ticks"] for r in tra.records()]):
                self.assertTrue(np.all(np.diff(times) >= 0))

    # ---- writing ---------------------------------------------------------------------------

    def test_read_in_time_order_while_written(self):
        codes = bursts(1, 2 * RATE, 2)
        process = self.start(config(source_stdin(2), "live.pridb"), stdin=subprocess.PIPE)

        def feed():
            for part in np.array_split(codes, 40):
                process.stdin.write(part.tobytes())
                process.stdin.flush()
                time.sleep(0.05)
            process.stdin.close()
        feeder = threading.Thread(target=feed)
        feeder.start()
        path = self.path("live.pridb")
        c.wait_for(lambda: os.path.exists(path) and os.path.getsize(path) > 0, "the files")
        c.wait_for(lambda: os.path.exists(self.path("live.trfdb-wal")), "the files")
        seen, looks = [], 0
        with v.Pridb(path) as pri, v.Tradb(self.path("live.tradb")) as tra:
            while process.poll() is None:
                new = pri.sets(seen[-1]["id"] if seen else 0)
                looks += bool(new) and pri.info()["FileStatus"] == "2"
                hits = [one for one in new if one["type"] == v.HIT]
                if hits:  # what a hit refers to is there before the hit
                    there = {r["trai"] for r in tra.records(hits[0]["trai"] - 1)}
                    self.assertLessEqual({h["trai"] for h in hits}, there)
                seen += new
                time.sleep(0.01)
            seen += pri.sets(seen[-1]["id"] if seen else 0)
        feeder.join()
        self.finish(process)
        self.assertGreater(looks, 3)
        self.assertTrue(np.all(np.diff([one["ticks"] for one in seen]) >= 0))
        with v.Pridb(path) as pri:
            self.assertEqual(seen, pri.sets())
            self.assertEqual(pri.info()["FileStatus"], "0")
            self.assertGreater(len(pri.hits()), 100)
        # Each transient holds the input's own codes, at its time.
        with v.Tradb(self.path("live.tradb")) as tra, v.Trfdb(self.path("live.trfdb")) as trf:
            features = trf.features()
            for record in tra.records():
                first = int(features[record["trai"]]["frame"]) - record["pretrigger"]
                want = codes[first:first + len(record["codes"]), record["channel"] - 1]
                np.testing.assert_array_equal(record["codes"], want)
                self.assertAlmostEqual(np.abs(record["samples"]).max(), features[record["trai"]]["amplitude"], delta=2e-6)

    def test_killed_daemon_leaves_files_that_can_be_read(self):
        codes = bursts(2, RATE, 2)
        process = self.start(config(source_stdin(2), "killed", sink="transients = flac\n"), stdin=subprocess.PIPE)

        feeder = threading.Thread(target=feed_for_ever, args=(process, codes))
        feeder.start()

        def hits():
            try:
                with v.Pridb(self.path("killed.pridb")) as pri:
                    return len(pri.hits()) > 300
            except sqlite3.OperationalError:
                return False
        c.wait_for(hits, "hits", c.PATIENCE_S * 2)
        process.kill()
        process.wait()
        feeder.join()
        process.stdin.close()
        with v.Pridb(self.path("killed.pridb")) as pri, v.Tradb(self.path("killed.tradb")) as tra:
            self.assertTrue(pri.whole() and tra.whole())
            self.assertEqual(pri.info()["FileStatus"], "2")
            trais = {record["trai"] for record in tra.records()}
            self.assertLessEqual({hit["trai"] for hit in pri.hits()}, trais)
        self.assert_in_order(self.path("killed.pridb"))
        # The next run repairs these, begins files of its own, and can replay what is left.
        self.run_all(config(source_tradb("killed.tradb"), "killed.pridb"), "b.conf")
        with open(self.path("b.conf.log"), encoding="utf-8") as log:
            self.assertIn("killed.pridb was not finished by an earlier run and is repaired", log.read())
        self.assertFalse([name for name in os.listdir(self.folder) if name.endswith(("-wal", "-shm"))])
        with v.Pridb(self.path("killed.pridb")) as pri:
            self.assertEqual(pri.info()["FileStatus"], "0")
            self.assertEqual(pri.sets()[-1]["text"], "Suspend (repaired)")
        with v.Pridb(self.path("killed-0002.pridb")) as pri:
            self.assertGreater(len(pri.hits()), 300)

    def test_killed_at_random_moments(self):
        """What is there is whole and in order, also of a daemon that has just begun; the next run repairs it."""
        seed = int(os.environ.get("CONVOLVD_TEST_SEED") or random.SystemRandom().getrandbits(32))
        draw = random.Random(seed)
        codes = bursts(3, RATE // 4, 2, every=4000)
        for number in range(MOMENTS):
            name, delay = f"moment{number}", draw.uniform(0, 0.4)
            with self.subTest(f"CONVOLVD_TEST_SEED={seed}: {name}, killed {delay:.4f} s behind its first file"):
                process = self.start(config(source_stdin(2), name), f"{name}.conf", subprocess.PIPE)
                feeder = threading.Thread(target=feed_for_ever, args=(process, codes))
                feeder.start()
                c.wait_for(lambda name=name: os.path.exists(self.path(f"{name}.pridb")), "the file", c.PATIENCE_S * 2)
                time.sleep(delay)
                process.kill()
                process.wait()
                feeder.join()
                process.stdin.close()
                hits = self.assert_whole(name)
                self.run_all(config(source_stdin(2), f"{name}.pridb"), f"{name}-next.conf", codes[:20000])
                self.assertEqual(self.assert_whole(name), hits)
                self.assertFalse([left for left in os.listdir(self.folder) if left.endswith(("-wal", "-shm", "-journal"))])

    def assert_whole(self, name):
        """Each file that has tables is whole, in order, and holds what the .pridb refers to. Its hits."""
        found = {}
        for suffix, reader in (("pridb", v.Pridb), ("tradb", v.Tradb), ("trfdb", v.Trfdb)):
            path = self.path(f"{name}.{suffix}")
            if not os.path.exists(path):
                continue
            with reader(path) as file:
                self.assertTrue(file.whole(), path)
                if file.rows("SELECT 1 FROM sqlite_master"):
                    found[suffix] = (file.hits() if suffix == "pridb" else file.records() if suffix == "tradb"
                                     else list(file.features().items()))
        hits = found.get("pridb", [])
        if hits:
            self.assertLessEqual({hit["trai"] for hit in hits}, {record["trai"] for record in found["tradb"]})
            self.assertLessEqual({hit["trai"] for hit in hits}, {trai for trai, _ in found["trfdb"]})
            self.assert_in_order(self.path(f"{name}.pridb"))
        return hits

    # ---- replay ----------------------------------------------------------------------------

    def features(self, name, columns=None):
        with v.Trfdb(self.path(name)) as trf:
            return [{key: value for key, value in row.items() if columns is None or key in columns}
                    for row in trf.features().values()]

    def test_replay_of_transients_finds_the_same_hits(self):
        """Records of two channels that overlap in time, with pauses between: each hit again, at its time."""
        codes = bursts(3, RATE, 2)
        exact = "variant = direct\n"  # no transform: an output depends on no other frames of its block
        self.run_all(config(source_stdin(2), "live.pridb", stream=exact), codes=codes)
        self.assertFalse([name for name in os.listdir(self.folder) if name.endswith(("-wal", "-shm"))])
        self.run_all(config(source_tradb("live.tradb"), "again.pridb", stream=exact), "b.conf")
        with v.Pridb(self.path("live.pridb")) as live, v.Pridb(self.path("again.pridb")) as again:
            columns = ("type", "ticks", "channel", "status", "threshold", "amplitude", "rise", "duration", "energy",
                       "strength", "rms", "counts")
            want, got = ([{key: hit[key] for key in columns} for hit in pri.hits()] for pri in (live, again))
            self.assertGreater(len(want), 50)
            self.assertEqual(got, want)
            dates = [[s["text"] for s in pri.sets() if s["type"] == v.DATE_TIME] for pri in (live, again)]
            self.assertEqual(dates[0], dates[1])
        # Every feature to the bit, but those that number frames or rest on frames that no record holds.
        exact = ("amplitude", "peak_db", "rise_us", "duration_us", "counts", "counts_to_peak", "energy_eu",
                 "strength_nvs", "rms", "crest", "impulse", "clearance", "shape", "skewness", "kurtosis", "threshold")
        self.assertEqual(self.features("again.trfdb", exact), self.features("live.trfdb", exact))
        with v.Tradb(self.path("live.tradb")) as live, v.Tradb(self.path("again.tradb")) as again:
            for a, b in zip(live.records(), again.records()):
                np.testing.assert_array_equal(a["codes"], b["codes"])
                self.assertEqual(a["ticks"], b["ticks"])

    def continuous(self, name, codes, records):
        """A .tradb of one channel with adjoining records, as a recorder writes it that never pauses."""
        self.run_all(config(source_stdin(1), "seed.pridb"), codes=codes)
        shutil.copy(self.path("seed.tradb"), self.path(name))
        with sqlite3.connect(self.path(name)) as db:
            db.execute("DELETE FROM tr_data")
            for i, part in enumerate(np.split(codes[:, 0], records)):
                db.execute("INSERT INTO tr_data VALUES (?, ?, ?, 32768, 2, 1, 0, 0, ?, ?, 0, ?)",
                           (i + 1, i * len(part) * (10**7 // RATE), i + 1, RATE, len(part), part.tobytes()))
        db.close()

    def test_replay_of_a_continuous_recording_equals_live_to_the_bit(self):
        codes = bursts(4, 800000, 1)
        self.continuous("long.tradb", codes, 160)
        self.run_all(config(source_tradb("long.tradb"), "again.pridb"), "b.conf")
        want, got = self.features("seed.trfdb"), self.features("again.trfdb")
        self.assertGreater(len(want), 30)
        self.assertEqual(got, want)
        self.assertIn("160 in 1 epochs", self.check(config(source_tradb("long.tradb"), "again.pridb")))

    def test_many_short_records_are_all_played(self):
        """Thousands of short epochs, as fast as they can be processed: none is lost or waited for in vain."""
        codes = bursts(5, 400000, 1)
        self.continuous("short.tradb", codes, 4000)
        with sqlite3.connect(self.path("short.tradb")) as db:
            db.execute("UPDATE tr_data SET Time = Time + TRAI * 5000")
        db.close()
        process = subprocess.run([CONVOLVD, "--config", self.write(config(source_tradb("short.tradb"), "b.pridb")),
                                  "--status-json", self.path("status.json")], stdin=subprocess.DEVNULL,
                                 capture_output=True, timeout=c.PATIENCE_S * 4, check=False,
                                 env={**os.environ, "RUNTIME_DIRECTORY": self.folder})
        self.assertEqual(process.returncode, 0, process.stderr)
        stream = c.check_ledgers(c.load_json(self.path("status.json")))["streams"][0]
        self.assertEqual(stream["epochs"], 4000)
        self.assertEqual(stream["frames_in"]["received"], 400000)

    # ---- checks ----------------------------------------------------------------------------

    def test_check_says_what_cannot_be_and_what_it_costs(self):
        def sink(stream):
            return self.check(stream, 1)
        good = config(source_stdin(2), "x.pridb")
        self.assertIn("x.pridb, .tradb and .trfdb", self.check(good))
        self.assertIn("`type = vallen` holds volts", sink(good.replace("0.1 V", "0.1 Pa").replace("1 mV", "1 Pa")))
        self.assertIn("rates in whole Hz", sink(good.replace("1000000 Hz", "1000000.5 Hz")))
        self.assertIn("there is no folder", sink(good.replace("x.pridb", "no/x.pridb")))
        codes = bursts(6, 100000, 1)
        self.continuous("r.tradb", codes, 10)
        with sqlite3.connect(self.path("r.tradb")) as db:
            db.execute("UPDATE tr_data SET Time = Time + TRAI * 100000")
        db.close()
        replay = config(source_tradb("r.tradb"), "y.pridb")
        self.assertNotIn("settling", self.check(replay))
        filtered = replay.replace("type = identity", "type = lowpass\ncutoff = 200 kHz\ntaps = 501")
        said = self.check(filtered)
        self.assertIn("the first 500 frames of each of 10 epochs are dead: 5 % of all", said)
        self.assertIn("a filter of type identity has none", said)
        self.assertIn("the file says what its samples are worth; remove `unit`",
                      self.check(config(source_tradb("r.tradb", "unit = V\n"), "y.pridb"), 1))
        self.assertIn("is no .tradb", self.check(config(source_tradb("seed.pridb"), "y.pridb"), 1))

    # ---- the bearing -----------------------------------------------------------------------

    def bearing(self, name):
        path = os.path.join(DATA, name)
        if not os.path.exists(path):
            self.skipTest(f"there is no {path}; CONVOLVD_TEST_DATA names a folder that has it")
        shutil.copy(path, self.path(name))
        os.chmod(self.path(name), 0o644)
        return self.path(name)

    def deviations(self, got, want, key):
        pairs = [(a[key], b[key]) for a, b in zip(got, want) if b[key]]
        self.assertGreater(len(pairs), 400)
        return np.median([abs(a / b - 1) for a, b in pairs])

    def test_intervals_of_the_bearing_are_its_instruments_values(self):
        """One interval a record: 10 ms. Energy and RMS agree; the instrument's band is another."""
        self.bearing("bearing.pridb")
        self.bearing("bearing.tradb")
        self.run_all(config(source_tradb("bearing.tradb"), "b.pridb", "intervals", "interval = 10 ms\n"))
        with v.Pridb(self.path("bearing.pridb")) as theirs, v.Pridb(self.path("b.pridb")) as ours:
            want = theirs.hits()
            got = [s for s in ours.sets() if s["type"] == v.STATUS]
            self.assertEqual([s["ticks"] for s in got], [s["ticks"] for s in want])
            self.assertEqual([s["text"] for s in ours.sets() if s["type"] == v.DATE_TIME], ["2022-11-17 17:45:03"])
            self.assertLess(self.deviations(got, want, "energy"), 1e-3)
            self.assertLess(self.deviations(got, want, "rms"), 1e-3)

    def test_hits_of_the_bearing_are_its_instruments_values(self):
        """Each record apart, so that it is one hit as the instrument made it: up to 10 ms long."""
        with sqlite3.connect(self.bearing("bearing.tradb")) as db:
            db.execute("UPDATE tr_data SET Time = Time + TRAI * 10000")
            db.execute("UPDATE tr_globalinfo SET Value = '{}' WHERE Key = 'ReferenceID'")
        db.close()
        self.bearing("bearing.pridb")
        self.run_all(config(source_tradb("bearing.tradb"), "b.pridb", "hits",
                            "threshold = 100.46944 uV\nhdt = 10 ms\nmax duration = 20 ms\n"))
        with v.Pridb(self.path("bearing.pridb")) as theirs, v.Pridb(self.path("b.pridb")) as ours:
            got = ours.hits()
            by_record = {round((s["ticks"] - 5000) // 110000): s for s in got}
            want = [s for i, s in enumerate(theirs.hits()) if i in by_record]
            got = [by_record[i] for i in sorted(by_record)]
            self.assertEqual(len(got), len(ours.hits()))
            self.assertLess(self.deviations(got, want, "energy"), 1e-3)
            self.assertLess(self.deviations(got, want, "rms"), 1e-3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
