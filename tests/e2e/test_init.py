#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 3 s
"""convolvd as process 1 of a PID namespace, as in a container: it waits for orphans, passes signals on and ends with the
daemon's status."""
import os
import signal
import subprocess
import unittest

import convolvd as c

CONFIG = """[stream s]
source = generator
rate = 48 kHz
channels = 1
waveform = sine
frequency = 1 kHz
filter = all
[filter all]
type = identity
[sink out]
type = recording
stream = s
path = out.wav
"""


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return [int(word) for word in file.read().split()]


def state(pid):
    """The state letter of a process, None once it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0]
    except OSError:
        return None


class Container(unittest.TestCase):
    def setUp(self):
        if os.geteuid() != 0 or subprocess.run(["unshare", "--pid", "--fork", "true"], check=False).returncode != 0:
            self.skipTest("no PID namespace here")
        temporary = c.temporary()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name
        self.path = os.path.join(self.folder, "a.conf")

    def start(self, config=CONFIG, *arguments, environment=None):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(config)
        self.log = open(os.path.join(self.folder, "log"), "w+", encoding="utf-8")
        self.addCleanup(self.log.close)
        outside = subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", "--kill-child",
                                    os.path.join(c.BUILD, "convolvd"), *arguments, self.path],
                                   stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, cwd=self.folder,
                                   env={**os.environ, **(environment or {})})
        self.addCleanup(outside.wait)
        self.addCleanup(outside.kill)
        return outside

    def said(self):
        self.log.seek(0)
        return self.log.read()

    def running(self, outside):
        """Process 1 of the namespace, once the daemon runs."""
        c.wait_for(lambda: "running:" in self.said(), "the daemon to run")
        first, = children(outside.pid)
        return first

    def test_orphans_do_not_stay_zombies(self):
        first = self.running(self.start())
        gate, orphan_file = os.path.join(self.folder, "gate"), os.path.join(self.folder, "orphan")
        os.mkfifo(gate)
        # cat waits for the gate while its parent ends, and so becomes a child of process 1.
        subprocess.run(["nsenter", "--target", str(first), "--pid", "--mount", "sh", "-c",
                        f"cat <'{gate}' >/dev/null & echo $! >'{orphan_file}'"], check=True)
        with open(gate, "w", encoding="ascii"):
            orphans = [pid for pid in children(first) if state(pid) and self.name(pid) in ("cat", "sh")]
            self.assertEqual(len(orphans), 1, children(first))
        c.wait_for(lambda: state(orphans[0]) is None, "process 1 to wait for the orphan")
        daemon = [pid for pid in children(first) if self.name(pid) == "convolvd"]
        self.assertEqual(len(daemon), 1)

    @staticmethod
    def name(pid):
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            return file.read().strip()

    def test_signals_reach_the_daemon(self):
        outside = self.start()
        first = self.running(outside)
        os.kill(first, signal.SIGUSR1)
        c.wait_for(lambda: "frames out" in self.said(), "the status")
        os.kill(first, signal.SIGHUP)
        c.wait_for(lambda: "unchanged" in self.said(), "a reload")
        os.kill(first, signal.SIGTERM)
        self.assertEqual(outside.wait(c.PATIENCE_S), 0, self.said())
        self.assertIn("stopping", self.said())

    def test_the_status_is_the_daemons(self):
        self.assertEqual(self.start("[stream s]\nrate = 1\n").wait(c.PATIENCE_S), 78, self.said())
        outside = self.start()
        daemon, = (pid for pid in children(self.running(outside)) if self.name(pid) == "convolvd")
        os.kill(daemon, signal.SIGKILL)
        self.assertEqual(outside.wait(c.PATIENCE_S), 128 + signal.SIGKILL)

    def test_helpers_are_the_daemons_own(self):
        """A command that starts a helper gets that helper's answer, with init beside it."""
        outside = self.start(CONFIG, "--list-devices")
        self.assertEqual(outside.wait(c.PATIENCE_S), 0, self.said())
        self.assertIn("compute units", self.said())
        self.assertIn("sound: ", self.said())


if __name__ == "__main__":
    unittest.main()
