#!/usr/bin/python3
# timeout: 1500
# takes-long: 91 s CPU in 64 s
# parallel: yes
# takes: 4 s CPU in 3 s
# long: also, every call instead of a sample
# turns: yes
# sanitizers: no, the sweep starts the daemon hundreds of times
"""Each call of the daemon into the C library and the kernel fails once, one daemon a call, from its start to its
end: memory, descriptors, disk, sockets (tests/seams/failures.c).

Whatever fails, the daemon does not crash and does not hang. Either it says in a line of level `error` why it
cannot run and exits with 1 (78: because of its configuration); or it runs, its ledgers balance, and it ends within its deadline. A file that it
calls complete is one that libsndfile reads to the declared end.
"""
import errno
import glob
import os
import queue
import signal
import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import convolvd as c

LONG = bool(os.environ.get("CONVOLVD_TEST_LONG"))
# Runs of a function in `make check`: the first, the last and some between.
SAMPLE = {"allocation": 24, "read": 3, "write": 4, "mmap": 16, "socket": 3, "open": 3}
RUN_S, END_S = 0.15, 30
SIDE_BY_SIDE = 6 # they wait more than they compute
ERRORS = {
    "allocation": [errno.ENOMEM], "mmap": [errno.ENOMEM], "accept4": [errno.EMFILE, errno.ECONNABORTED], "bind": [errno.EADDRINUSE],
    "eventfd": [errno.EMFILE], "memfd_create": [errno.EMFILE], "socket": [errno.EMFILE], "socketpair": [errno.EMFILE],
    "timerfd_create": [errno.EMFILE], "open": [errno.EMFILE, errno.ENOSPC], "fopen": [errno.EMFILE], "mkdir": [errno.ENOSPC],
    "fsync": [errno.EIO], "fdatasync": [errno.EIO], "ftruncate": [errno.ENOSPC], "rename": [errno.ENOSPC], "unlink": [errno.EACCES],
    "pwrite": [0, errno.ENOSPC, errno.EINTR], "write": [0, errno.ENOSPC, errno.EINTR, errno.EAGAIN],
    "read": [0, errno.EINTR, errno.EAGAIN], "pread": [0, errno.EINTR], "recv": [errno.EINTR, errno.EAGAIN],
    "recvmmsg": [0, errno.EINTR, errno.ENOMEM], "recvmsg": [errno.EINTR, errno.ENOMEM], "send": [0, errno.EAGAIN],
    "sendmmsg": [0, errno.EAGAIN, errno.ENOBUFS], "sendmsg": [errno.EAGAIN, errno.ENOBUFS], "posix_spawn": [errno.EAGAIN],
    "connect": [errno.ECONNREFUSED], "listen": [errno.EADDRINUSE], "setsockopt": [errno.ENOPROTOOPT], "getsockopt": [errno.ENOPROTOOPT],
    "statvfs": [errno.EIO], "timerfd_settime": [errno.EINVAL],
}

CONFIG = """
[device]
device = cpu

[daemon]
drain timeout = 2 s

[osc]
address = 127.0.0.1:{osc}

[stream s]
source = rtp
address = 127.0.0.1:{rx}
format = s16be
rate = 48 kHz
channels = 2
block = 256 frames
filter = f

[filter f]
type = bandpass
low = 1 kHz
high = 8 kHz
taps = 65

[sink out]
type = rtp
stream = s
address = 127.0.0.1:{tx}

[sink rec]
type = recording
stream = s
path = {folder}/rec
rotate = 50 ms
sync = rotate
"""


class Place:
    """A folder, a configuration with ports of its own and a rig: of the runs side by side each has one."""

    def __init__(self, folder):
        os.mkdir(folder)
        self.folder, self.runs = folder, 0
        self.config = os.path.join(folder, "convolvd.conf")
        rx = c.free_port()
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(rx=rx, tx=c.free_port(), osc=c.free_port(), folder=folder))
        # A rig that runs for ever; each daemon of the sweep joins it.
        self.rig = c.Process("convolv-rig", ["--to", f"127.0.0.1:{rx}", "--format", "s16be", "--rate", "48 kHz", "--channels", 2,
                                             "--packet", 96, "--seconds", 3000])


class Sweep(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.places = queue.SimpleQueue()
        for number in range(SIDE_BY_SIDE):
            place = Place(os.path.join(self.folder, f"place-{number}"))
            self.addCleanup(place.rig.kill)
            self.places.put(place)

    def run_once(self, fail=None, counts=None):
        """What is wrong with one run; nothing when it is as it should be."""
        place = self.places.get()
        try:
            return self.run_in(place, fail, counts)
        finally:
            self.places.put(place)

    def run_in(self, place, fail, counts):
        place.runs += 1
        folder = os.path.join(place.folder, str(place.runs))
        os.mkdir(folder)
        status = os.path.join(folder, "status.json")
        environment = {**os.environ, "RUNTIME_DIRECTORY": folder}
        if fail:
            environment["CONVOLVD_TEST_FAIL"] = fail
        if counts:
            environment["CONVOLVD_TEST_FAIL_COUNTS"] = counts
        log = os.path.join(folder, "log")
        with open(log, "wb") as out, subprocess.Popen(
                [os.path.join(c.BUILD, "convolvd-test"), "--config", place.config, "--status-json", status], stdin=subprocess.DEVNULL,
                stdout=out, stderr=out, env=environment, start_new_session=True) as process:
            try:
                return self.judge(process, log, status, fail) or self.judge_recordings(place, log)
            finally:
                process.kill()

    @staticmethod
    def judge(process, log, status, fail):
        def text():
            with open(log, "rb") as file:
                return file.read().decode("utf-8", "replace")
        deadline = time.monotonic() + END_S
        # A line that the disk refuses is lost, and counted before the next one.
        refused = fail is not None and fail.startswith("write") and fail.endswith(f":{errno.ENOSPC}")
        while process.poll() is None and "running:" not in text() and not (refused and "could not be written" in text()):
            if time.monotonic() > deadline:
                return f"neither runs nor ends within {END_S} s\n{text()}"
            time.sleep(0.01)
        ran = process.poll() is None
        if ran:
            time.sleep(RUN_S)
            process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(END_S)
        except subprocess.TimeoutExpired:
            return f"does not end within {END_S} s of SIGTERM\n{text()}"
        if code < 0:
            return f"died of signal {-code}\n{text()}"
        if not ran:
            return None if code in (1, 78) and "error" in text() else f"exit status {code} without a reason\n{text()}"
        if code not in (0, 1, 3):
            return f"exit status {code}\n{text()}"
        if code != 0 and "error" not in text() and "warning" not in text():
            return f"exit status {code} without a reason\n{text()}"
        if os.path.exists(status):
            try:
                c.check_ledgers(c.load_json(status))
            except AssertionError as error:
                return f"ledgers: {error}\n{text()}"
        return None

    @staticmethod
    def judge_recordings(place, log):
        for path in glob.glob(os.path.join(place.folder, "rec*")):
            if path.endswith(".json"):
                try:
                    sidecar = c.load_json(path)
                    wav = path[:-len(".json")]
                    if sidecar.get("complete"):
                        if not os.path.exists(wav):
                            wav += ".wav"
                        frames, declared = len(c.read_recording(wav)), sidecar["frames"]
                        if frames != declared:
                            return f"{wav} calls itself complete with {declared} frames and holds {frames}; {log}"
                except (ValueError, KeyError, OSError) as error:
                    return f"{path}: {error!r}"
        for path in glob.glob(os.path.join(place.folder, "rec*")):
            os.unlink(path)
        return None

    def test_every_call_fails_once(self):
        counts_path = os.path.join(self.folder, "counts")
        self.assertIsNone(self.run_once(counts=counts_path))
        with open(counts_path, encoding="ascii") as file:
            counts = {name: int(number) for name, number in (line.split() for line in file)}
        self.assertGreater(counts["allocation"], 50)
        self.assertGreater(counts["recvmmsg"], 5)  # it ran, and received
        jobs = []
        for name, calls in counts.items():
            most = calls if LONG else min(calls, SAMPLE.get(name, 1))
            numbers = sorted({1 + i * (calls - 1) // max(1, most - 1) for i in range(most)}) if most else []
            # The calls of a running daemon repeat.
            numbers = numbers[:100] + numbers[100::10]
            for number in numbers:
                errors = ERRORS[name] if LONG else ERRORS[name][:1]
                jobs += [f"{name}:{number}:{error}" for error in errors]
        if not LONG: # the line that says that it runs is one of the first
            jobs += [f"write:{number}:{errno.EINTR}" for number in range(2, 9)]
        wrong = {}
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            for job, found in zip(jobs, pool.map(self.run_once, jobs)):
                if found:
                    wrong[job] = found
        c.note(f"{len(jobs)} runs over {sum(counts.values())} calls of {sum(calls > 0 for calls in counts.values())} functions")
        self.assertEqual(len(wrong), 0, "\n".join(f"== {job}: {text[-1500:]}" for job, text in list(wrong.items())[:12]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
