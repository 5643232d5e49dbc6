#!/usr/bin/python3
# parallel: yes
# takes: 4 s CPU in 4 s
# sanitizers: yes
"""Standard input, output and error that are closed at the start: every program runs as with /dev/null in their place,
and what needs one of them to be more than that is refused."""
import itertools
import os
import signal
import subprocess
import unittest

import numpy as np

import convolvd as c

SETS = [set(closed) for count in (1, 2, 3) for closed in itertools.combinations((0, 1, 2), count)]
PROGRAMS = ("convolvd", "convolvctl", "convolv-rig", "convolv-tap", "convolv-design", "convolv-web", "convolv-alarm")


def start(name, arguments, closed, folder, **pipes):
    def close():
        for descriptor in closed:
            os.close(descriptor)
    return subprocess.Popen([os.path.join(c.BUILD, name), *arguments], preexec_fn=close, cwd=folder,
                            env={**os.environ, "RUNTIME_DIRECTORY": folder},
                            **{"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **pipes})


def targets(process):
    return [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in range(3)]


def catches_term(process):
    """The program is at work: it says so on a standard output that is closed here, and catches signals before."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1


class ClosedDescriptors(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.folder = folder.name
        self.addCleanup(folder.cleanup)

    def config(self, text):
        with open(os.path.join(self.folder, "a.conf"), "w", encoding="utf-8") as file:
            file.write(f"[device]\ndevice = {c.DEVICE}\n{text}[filter f]\ntype = identity\n")
        return "a.conf"

    def test_a_run_to_its_end(self):
        x = c.noise_codes(1, 3000, 1)
        c.write_wav16(os.path.join(self.folder, "x.wav"), 8000, x)
        for closed in SETS:
            with self.subTest(closed=closed):
                path = self.config("[stream s]\nsource = file\npath = x.wav\npace = fast\nfilter = f\n"
                                   "[sink rec]\ntype = recording\nstream = s\npath = y.wav\n")
                self.assertEqual(start("convolvd", ["--config", path], closed, self.folder).wait(c.PATIENCE_S), 0)
                got = c.read_recording(os.path.join(self.folder, "y.wav"))
                c.assert_within(got, x / 32768, x / 32768, np.ones(1))
                os.remove(os.path.join(self.folder, "y.wav"))

    def test_every_program(self):
        for name in PROGRAMS:
            for closed in SETS:
                with self.subTest(name=name, closed=closed):
                    self.assertEqual(start(name, ["--version"], closed, self.folder).wait(c.PATIENCE_S), 0)

    def test_what_stays_open(self):
        path = self.config("[stream s]\nsource = generator\nrate = 8 kHz\nchannels = 1\nwaveform = noise\nfilter = f\n"
                           "[sink rec]\ntype = recording\nstream = s\npath = z.wav\n")
        port = c.free_port()
        for name, arguments, ready in (
                ("convolvd", ["--config", path], lambda process: os.path.exists(os.path.join(self.folder, "z.wav"))),
                ("convolv-tap", ["--listen", f"127.0.0.1:{port}", "--channels", "1", "--rate", "8000"],
                 catches_term)):
            process = start(name, arguments, {0, 1, 2}, self.folder)
            self.addCleanup(process.kill)
            c.wait_for(lambda process=process, ready=ready: ready(process), f"{name} to run")
            self.assertEqual(targets(process), ["/dev/null"] * 3)
            if name == "convolvd":  # an answer that is lost is no success
                for closed, code in ((set(), 0), ({1}, 1)):
                    asked = start("convolvctl", ["--socket", "observe.sock", "status"], closed, self.folder)
                    self.assertEqual(asked.wait(c.PATIENCE_S), code)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(c.PATIENCE_S), 0)

    def test_what_needs_one_is_refused(self):
        generator = "[stream s]\nsource = generator\nrate = 8 kHz\nchannels = 1\nwaveform = noise\nduration = 100 frames\npace = fast\nfilter = f\n"
        stdin = "[stream s]\nsource = stdin\nrate = 8 kHz\nchannels = 1\nfilter = f\n[sink rec]\ntype = recording\nstream = s\npath = in.wav\n"
        for text, descriptor, message in ((stdin, 0, "stream s: standard input is closed; connect it to a pipe or a file"),
                                          (generator + "[sink out]\ntype = stdout\nstream = s\n", 1,
                                           "sink out: standard output is closed; connect it to a pipe or a file")):
            path = self.config(text)
            process = start("convolvd", ["--config", path], {descriptor}, self.folder, stderr=subprocess.PIPE)
            said = process.communicate(timeout=c.PATIENCE_S)[1].decode()
            self.assertEqual(process.returncode, 1, said)
            self.assertIn(message, said)
            # /dev/null that somebody has chosen is none of that.
            self.assertEqual(start("convolvd", ["--config", path], set(), self.folder).wait(c.PATIENCE_S), 0)
        process = start("convolv-tap", ["--listen", f"127.0.0.1:{c.free_port()}", "--channels", "1", "--rate", "8000", "--pipe"], {1},
                        self.folder, stderr=subprocess.PIPE)
        said = process.communicate(timeout=c.PATIENCE_S)[1].decode()
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("--pipe: standard output is closed", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
