#!/usr/bin/python3
# parallel: yes
# long: also, every change on the disk, and more power cuts
# takes: 2 s CPU in 4 s
"""Vallen's files cut off at any moment. vallen_cuts writes a measurement and notes each change on the disk; here the
files are built as they are after the first N changes (the process was killed) or as a disk may hold them after a
power cut, and the independent reader finds every hit that was committed, whole and in order. Then they are
repaired, and the repair is cut off as well."""
import os
import random
import shutil
import subprocess
import unittest

import numpy as np

import convolvd as c
import vallen_reader as v

CUTS = os.path.join(c.BUILD, "tests", "vallen_cuts")
LONG = bool(os.environ.get("CONVOLVD_TEST_LONG"))
STEM = "a"
FILES = {f"{STEM}.pridb": v.Pridb, f"{STEM}.tradb": v.Tradb, f"{STEM}.trfdb": v.Trfdb}
HITS, COMMIT = 36, 4
SEED = int(os.environ.get("CONVOLVD_TEST_SEED") or random.SystemRandom().getrandbits(32))
HEADER_BYTES = 100 + 8  # SQLite's header and that of the first page: in fewer bytes there is no database to read


def run(command, path, log):
    subprocess.run([CUTS, command, path, log], check=True, timeout=c.PATIENCE_S * 2)
    changes = []
    with open(log, "rb") as file:
        while line := file.readline():
            operation, name, offset, count = line.decode().split()
            data = file.read(int(count)) if operation == "write" else b""
            changes.append((operation, name, int(offset), data))
    return changes


def apply(files, change):
    operation, name, offset, data = change
    if operation == "unlink":
        files.pop(name, None)
    elif operation == "write":
        content = files.setdefault(name, bytearray())
        content.extend(bytes(max(0, offset + len(data) - len(content))))
        content[offset:offset + len(data)] = data
    elif operation == "truncate":
        content = files.setdefault(name, bytearray())
        del content[offset:]
        content.extend(bytes(offset - len(content)))


def after_power_cut(begin, changes, keep):
    """Of each write since the last sync of its file, so many of its first bytes as `keep(bytes)` says."""
    files = {name: bytearray(content) for name, content in begin.items()}
    for i, change in enumerate(changes):
        durable = any(later[0] == "sync" and later[1] == change[1] for later in changes[i + 1:])
        operation, name, offset, data = change
        kept = len(data) if operation != "write" or durable else keep(len(data))
        if operation != "write" or kept > 0:
            apply(files, (operation, name, offset, data[:kept]))
    return files


def store(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    os.mkdir(folder)
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)


class Cuts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder_object = c.temporary()
        cls.folder = cls.folder_object.name
        cls.addClassCleanup(cls.folder_object.cleanup)
        os.mkdir(cls.path("whole"))
        cls.changes = run("write", cls.path("whole/a.pridb"), cls.path("log"))
        cls.begin = {name: bytearray() for name in FILES}
        cls.want = cls.look(cls.path("whole"))

    def setUp(self):
        self.draw = random.Random(SEED)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def look(cls, folder):
        """What the independent reader finds; None of a file whose tables are not there yet, or that is cut off in its
        header. SQLite syncs the header before it writes anything else: such a file never held anything."""
        found = {}
        for name, reader in FILES.items():
            path = os.path.join(folder, name)
            if 0 < os.path.getsize(path) < HEADER_BYTES:
                assert not os.path.exists(path + "-wal"), name
                found[name] = None
                continue
            with reader(path) as file:
                assert file.whole(), name
                if not file.rows("SELECT 1 FROM sqlite_master"):
                    found[name] = None
                    continue
                rows = (file.sets() if reader is v.Pridb else file.records() if reader is v.Tradb
                        else list(file.features().items()))
                found[name] = {"status": file.info()["FileStatus"], "rows": rows, "info": file.info()}
        return found

    def assert_prefix(self, found, kept_in_order):
        """Each file holds its first rows, complete; in order: what a hit refers to is there."""
        for name, got in found.items():
            if got is None:
                continue
            want = self.want[name]["rows"][:len(got["rows"])]
            if name.endswith(".tradb"):
                for a, b in zip(got["rows"], want):
                    np.testing.assert_array_equal(a["codes"], b["codes"])
                    self.assertEqual((a["trai"], a["ticks"]), (b["trai"], b["ticks"]))
            else:
                self.assertEqual(got["rows"], want)
        hits = [one for one in (found["a.pridb"] or {"rows": []})["rows"] if one["type"] == v.HIT]
        if kept_in_order and hits:
            self.assertLessEqual({h["trai"] for h in hits}, {r["trai"] for r in found["a.tradb"]["rows"]})
            self.assertLessEqual({h["trai"] for h in hits}, {trai for trai, _ in found["a.trfdb"]["rows"]})
        return len(hits)

    def assert_repaired(self, found, before, where):
        for name, got in found.items():
            if got is None:
                self.assertIsNone(before[name], where)
                continue
            self.assertEqual(got["status"], "0", where)
            if before[name]["status"] == "0":
                continue
            self.assertIn("convolvd.repaired", got["info"])
            rows = len(before[name]["rows"])
            label = int(name.endswith(".pridb") and rows > 0)
            self.assertEqual(len(got["rows"]), rows + label, where)
            if label:
                last = got["rows"].pop()
                self.assertEqual((last["type"], last["text"]), (v.LABEL, "Suspend (repaired)"))
                self.assertGreaterEqual(last["ticks"], got["rows"][-1]["ticks"])
            self.assertEqual(got["info"]["ValidSets"], str(rows + label))
        self.assert_prefix(found, False)

    def assert_single(self, before, where):
        """Nothing lies beside a file that has its tables."""
        beside = {name.rsplit("-", 1)[0] for name in os.listdir(self.path("cut")) if name not in FILES}
        self.assertFalse([name for name in beside if before[name] is not None], where)

    def repaired(self, where):
        """Repairs the files in "cut", each of them once, and cuts the repair off as well."""
        before = self.look(self.path("cut"))
        # A reader may have brought in the log: what it left is what the repair begins with.
        begin = {}
        for name in os.listdir(self.path("cut")):
            if not name.endswith("-shm"):
                with open(self.path("cut/" + name), "rb") as file:
                    begin[name] = bytearray(file.read())
        changes = run("repair", self.path("cut/a.pridb"), self.path("log"))
        self.assert_single(before, where)
        self.assert_repaired(self.look(self.path("cut")), before, where)
        if not changes:
            return
        for i in range(0, len(changes), 4) if LONG else [self.draw.randrange(len(changes))]:
            files = {name: bytearray(content) for name, content in begin.items()}
            for change in changes[:i]:
                apply(files, change)
            store(self.path("cut"), files)
            run("repair", self.path("cut/a.pridb"), self.path("log"))
            self.assert_repaired(self.look(self.path("cut")), before, f"CONVOLVD_TEST_SEED={SEED}: {where}, repair cut at {i}")

    def test_killed_at_any_change(self):
        self.assertGreater(len(self.changes), 300)
        self.assertEqual(self.assert_prefix(self.want, True), HITS)
        step = 1 if LONG else 5
        files = {name: bytearray() for name in FILES}
        most = 0
        for i, change in enumerate(self.changes):
            if i % step == 0:
                store(self.path("cut"), files)
                found = self.look(self.path("cut"))
                hits = self.assert_prefix(found, True)
                # What was once there stays, and what was committed is there.
                self.assertGreaterEqual(hits, most, i)
                self.assertIn(hits, range(0, HITS + 1, COMMIT), i)
                most = hits
                if i % (10 * step) == 0:
                    store(self.path("cut"), files)
                    self.repaired(f"killed at {i}")
            apply(files, change)
        self.assertEqual(most, HITS)

    def test_killed_within_a_write(self):
        """At a random byte of a random write: the files hold its first part."""
        draw = self.draw
        writes = [i for i, change in enumerate(self.changes) if change[0] == "write" and len(change[3]) > 1]
        files, done = {name: bytearray(content) for name, content in self.begin.items()}, 0
        for i in sorted(draw.sample(writes, min(len(writes), 800 if LONG else 50))):
            for change in self.changes[done:i]:
                apply(files, change)
            done = i
            operation, name, offset, data = self.changes[i]
            torn = {name: bytearray(content) for name, content in files.items()}
            at = draw.randrange(1, len(data))
            apply(torn, (operation, name, offset, data[:at]))
            where = f"write {i} of {name} cut at byte {at} of {len(data)}"
            with self.subTest(f"CONVOLVD_TEST_SEED={SEED}: {where}"):
                store(self.path("cut"), torn)
                self.assertIn(self.assert_prefix(self.look(self.path("cut")), True), range(0, HITS + 1, COMMIT))
                if draw.random() < 0.2:
                    store(self.path("cut"), torn)
                    self.repaired(where)

    def test_killed_within_the_header(self):
        """Within the first write to each file: it holds nothing, the others what they held, and no repair touches it."""
        for name in FILES:
            i = next(i for i, change in enumerate(self.changes) if change[:2] == ("write", name))
            header = self.changes[i][3]
            for at in (1, 12, 24, 100, 101, 105, HEADER_BYTES - 1, HEADER_BYTES):
                with self.subTest(f"{name} cut at byte {at}"):
                    files = {other: bytearray(content) for other, content in self.begin.items()}
                    for change in self.changes[:i] + [("write", name, 0, header[:at])]:
                        apply(files, change)
                    store(self.path("cut"), files)
                    found = self.look(self.path("cut"))
                    self.assertEqual([other for other in FILES if found[other]], list(FILES)[:list(FILES).index(name)])
                    store(self.path("cut"), files)
                    self.repaired(f"{name} cut at byte {at}")
                    if at < HEADER_BYTES:
                        with open(self.path("cut/" + name), "rb") as file:
                            self.assertEqual(file.read(), header[:at])

    def test_power_cut_at_any_change(self):
        """A disk that keeps what was synced, and of the rest nothing, some writes, or each up to any byte of it."""
        chance, torn = self.draw, 0

        def up_to_any_byte(count):
            nonlocal torn
            kept = chance.choice((0, count, chance.randrange(count + 1)))
            torn += 0 < kept < count
            return kept
        for i in range(0, len(self.changes), 5 if LONG else 37):
            for keep in (lambda count: 0, lambda count: chance.choice((0, count)), up_to_any_byte):
                with self.subTest(f"CONVOLVD_TEST_SEED={SEED}: power cut at {i}"):
                    store(self.path("cut"), after_power_cut(self.begin, self.changes[:i], keep))
                    self.assert_prefix(self.look(self.path("cut")), False)
                    if i % 2 == 0:
                        self.repaired(f"power cut at {i}")
        self.assertGreater(torn, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
