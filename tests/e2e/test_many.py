#!/usr/bin/python3
# timeout: 600
# parallel: yes
# takes: 2 s CPU in 5 s
# takes-long: 60 s CPU in 60 s
# long: also, 4096 streams take gigabytes and most of a minute
"""As many streams as a daemon takes: each starts, each computes all it gets, and one more is refused by
--check with what to do."""
import os
import resource
import subprocess
import time
import unittest

import convolvd as c

LONG = bool(os.environ.get("CONVOLVD_TEST_LONG"))
LIMIT, FRAMES = 4096, 1000


def config(streams):
    return "[daemon]\nstatus on exit = no\n[filter f]\ntype = lowpass\ncutoff = 100 Hz\ntaps = 31\n" + "".join(
        f"[stream s{i}]\nsource = generator\nrate = 1 kHz\nchannels = 1\nformat = f32le\nwaveform = noise\n"
        f"block = 100\nduration = {FRAMES} frames\npace = fast\nfilter = f\n" for i in range(streams))


def check(folder, streams):
    path = os.path.join(folder, "many.conf")
    with open(path, "w", encoding="utf-8") as file:
        file.write(config(streams))
    return subprocess.run([os.path.join(c.BUILD, "convolvd"), "--config", path, "--check"], capture_output=True,
                          text=True, timeout=4 * c.PATIENCE_S, check=False)


class Many(unittest.TestCase):
    def run_to_the_end(self, streams):
        with c.temporary() as folder:
            started = time.monotonic()
            with c.Daemon(folder, config(streams), "--quiet", wait=False) as daemon:
                self.assertEqual(daemon.wait(4 * c.PATIENCE_S), 0, daemon.output()[-2000:])
            status = c.check_ledgers(c.load_json(daemon.status_path))
            c.note(f"# {streams} streams: {time.monotonic() - started:.1f} s from start to end")
            self.assertEqual(len(status["streams"]), streams)
            for stream in status["streams"]:
                self.assertEqual(stream["frames_out"]["out"], FRAMES + 30, stream["name"])

    def test_all_of_many_compute(self):
        self.run_to_the_end(LIMIT if LONG else 600)

    def test_one_too_many(self):
        with c.temporary() as folder:
            result = check(folder, LIMIT + 1)
        self.assertEqual(result.returncode, 1)
        self.assertIn("4097 streams are too many for one daemon, the most is 4096; split the work", result.stderr)

    def test_too_few_descriptors(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        # The daemon takes the hard limit for its own.
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        try:
            self.run_to_the_end(100)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


if __name__ == "__main__":
    unittest.main(verbosity=2)
