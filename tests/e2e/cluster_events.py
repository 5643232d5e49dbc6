"""Events of analyses in LOG, as its bytes say, and held against those of a worker that nothing happened to."""
import glob
import json
import os
import signal
import struct
import subprocess

import cluster_world
import convolvd as c
from cluster_world import RATE, WORKER

HEAD = struct.Struct("<BBHIQIIII")
EVENTS, STATE = 1, 2

HITS = """
[analysis bursts]
type = hits
stream = rig
threshold = 0.023
hdt = 2 ms
hlt = 1 ms
max duration = 40 ms
pre-trigger = 1 ms
post-duration = 3 ms
max record = 10 ms
parameters = first 1
[sink bursts-file]
type = jsonl
analysis = bursts
path = {folder}/{name}.bursts.jsonl
"""

ALL = HITS + """
[analysis where]
type = location
analysis = bursts
sensors = 0, 4 m
velocity = 5000 m/s
[analysis pairs]
type = sensor-test
analysis = bursts
answers within = 4 ms
pulse above = 0.028
[analysis levels]
type = intervals
stream = rig
interval = 7 ms
threshold = 0.023
[analysis shots]
type = ascan
stream = rig
period = 5 ms
range = 2 ms
averages = 9
gate = back: start 200 us, width 1 ms, level 0.01, peak
[analysis motor]
type = vibration
stream = rig
segment = 20 ms
segments = 3
envelope low = 2 kHz
envelope high = 8 kHz
speed = 1770 rpm
elements = 9
element diameter = 7.94 mm
pitch diameter = 39.04 mm
"""


def crc32c_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = crc32c_table()


def crc32c(before, data):
    value = before ^ 0xFFFFFFFF
    for byte in data:
        value = TABLE[(value ^ byte) & 255] ^ value >> 8
    return value ^ 0xFFFFFFFF


def parts(analysis):
    """(form, name, number, count, chain before, chain, bytes) of each part of a record."""
    at = 0
    while at < len(analysis):
        form, _, name, size, number, count, before, chain, _ = HEAD.unpack_from(analysis, at)
        at += HEAD.size
        yield form, analysis[at:at + name].decode(), number, count, before, chain, analysis[at + name:at + name + size]
        at += name + size


class Events(cluster_world.Cluster):
    """Workers with analyses."""
    analyses = HITS

    def worker(self):
        return WORKER + self.analyses

    def events(self, log):
        """[analysis] → its lines in LOG: numbered without a hole, each once, in one chain, and none before the frames that
        it rests on."""
        lines, chains, reached = {}, {}, (0, 0)
        for record in log:
            if record.kind == "data":
                reached = (record.epoch, record.next)
            for form, name, number, count, before, chain, data in parts(record.analysis):
                if form != EVENTS:
                    continue
                got = data.decode().splitlines()
                self.assertEqual((number, before), (len(lines.get(name, ())) + 1, chains.get(name, 0)),
                                 f"{name}: not behind the event before")
                self.assertEqual((len(got), crc32c(before, data)), (count, chain), name)
                for line in got:
                    event = json.loads(line)
                    self.assertLess((event["epoch"], event["frame"]), reached, line)
                lines.setdefault(name, []).extend(got)
                chains[name] = chain
        return lines

    def hold_counts(self, owner, log):
        """What the newest term's owner says that it has appended."""
        term = [part for record in log if record.term == log[-1].term for part in parts(record.analysis)]
        status = self.daemons[owner].stream("rig")["sinks"][0]["partition"]
        self.assertEqual(status["events"], sum(count for form, _, _, count, *_ in term if form == EVENTS))
        # One more may have come since the log was read.
        self.assertGreaterEqual(status["checkpoints"], sum(form == STATE and number == 0 for form, _, number, *_ in term))
        self.assertEqual(status["differing_events"], 0)

    def hold_events(self, log):
        """Lost, doubled and wrong events of a whole LOG: none, against a worker that computes it anew from the same RAW.
        Returns how many there are."""
        events = self.events(log)
        self.compare_with_an_undisturbed_run(log, self.worker())

        def there():
            alone = self.events(self.records("log"))
            return alone if sum(map(len, alone.values())) >= sum(map(len, events.values())) else None
        alone = cluster_world.wait_value(there, "the events of an undisturbed worker")
        self.assertEqual(sorted(alone), sorted(events))
        for name, lines in events.items():
            self.assertTrue(alone[name] == lines, f"{name}: not the same events")
        return sum(map(len, events.values()))

    def tap(self):
        """A reader of the events, from the first on."""
        self.addCleanup(lambda: self.reader.kill())
        self.reader = subprocess.Popen([os.path.join(c.BUILD, "convolv-tap"), "--log", f"{self.servers.urls}/convolvd/rig", "--events",
                                        "--timeout", "60 s"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def read(self, events):
        """What the reader has got is what LOG holds, in the order of each analysis."""
        got = {}
        for _ in range(sum(map(len, events.values()))):
            line = self.reader.stdout.readline().rstrip("\n")
            got.setdefault(json.loads(line)["analysis"], []).append(line)
        self.reader.send_signal(signal.SIGTERM)
        self.assertEqual(self.reader.communicate(timeout=c.PATIENCE_S), ("", ""))
        self.assertEqual(self.reader.returncode, 0)
        self.assertEqual(sorted(got), sorted(events))
        for name, lines in events.items():
            self.assertTrue(got[name] == lines, name)

    def files(self, events, name="bursts"):
        """Each file of a worker has events that LOG has, in their order and each once. [worker] → their places in LOG."""
        place = {line: at for at, line in enumerate(events[name])}
        places = {"a": set(), "b": set()}
        for path in glob.glob(f"{self.folder.name}/*.{name}*.jsonl"):
            with open(path, encoding="utf-8") as file:
                got = [place[line.rstrip("\n")] for line in list(file)[1:]]
            self.assertEqual(got, sorted(set(got)), path)
            places[os.path.basename(path)[0]].update(got)
        return places

    def kill(self):
        name = self.owner()
        self.daemons[name].process.kill()
        self.daemons[name].process.wait()
        self.wait_frames(0, more=RATE // 2)
        self.start(name, self.worker())

    def freeze(self, seconds=2.5):
        name = self.owner()
        self.daemons[name].process.send_signal(signal.SIGSTOP)
        self.wait_frames(0, more=int(seconds * RATE))
        self.daemons[name].process.send_signal(signal.SIGCONT)

    def hand_over(self):
        name = self.owner()
        self.assertEqual(self.ctl(name, "cluster", "hand-over", "rig").returncode, 0)
        cluster_world.wait_value(lambda: self.owner() != name, "the next owner")
        self.wait_frames(0, more=RATE // 2)

    def stop_in_order(self):
        name = self.owner()
        self.daemons.pop(name).stop()
        self.wait_frames(0, more=RATE // 2)
        self.start(name, self.worker())
