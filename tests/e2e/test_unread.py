#!/usr/bin/python3
# parallel: yes
# takes: 0 s CPU in 4 s
"""Nobody reads what the daemon writes: standard error and standard output are full pipes from the start
on. Blocks, the control socket and SIGTERM go on as if somebody did."""
import fcntl
import json
import os
import signal
import socket
import subprocess
import time
import unittest

import convolvd as c

CONFIG = """[device]
device = cpu
[daemon]
log level = debug
[stream s]
source = generator
rate = 100 kHz
channels = 2
format = f32le
waveform = noise
block = 256
pace = realtime
filter = low
[filter low]
type = lowpass
cutoff = 10 kHz
taps = 31
"""


def full_pipe():
    """A pipe that takes not one byte more: (reading end, writing end)."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    while True:
        try:
            os.write(writer, b"." * 4096)
        except BlockingIOError:
            break
    os.set_blocking(writer, True)
    return reader, writer


def ask_status(folder):
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(c.PATIENCE_S)
        client.connect(os.path.join(folder, "observe.sock"))
        client.sendall(b'{"command": "status", "format": "json"}\n')
        with client.makefile() as answer:
            return json.loads(answer.readline())


class Unread(unittest.TestCase):
    def start(self, folder, *arguments):
        path = os.path.join(folder, "convolvd.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(CONFIG + c.rtp_sink("out", "s", c.free_port()))
        self.errors, errors = full_pipe()
        self.outputs, outputs = full_pipe()
        daemon = subprocess.Popen([os.path.join(c.BUILD, "convolvd"), "--config", path, *arguments],
                                  stdin=subprocess.DEVNULL, stdout=outputs, stderr=errors,
                                  env={**os.environ, "RUNTIME_DIRECTORY": folder})
        os.close(errors)
        os.close(outputs)
        self.addCleanup(os.close, self.errors)
        self.addCleanup(os.close, self.outputs)
        self.addCleanup(daemon.wait)
        self.addCleanup(daemon.kill)
        return daemon

    def wait_running(self, folder):
        def running():
            try:
                return ask_status(folder).get("status", {}).get("state") == "running"
            except (FileNotFoundError, ConnectionError):
                return False
        c.wait_for(running, "a daemon that runs", c.PATIENCE_S)

    def stop(self, daemon):
        started = time.monotonic()
        daemon.send_signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(c.PATIENCE_S), 0)
        return time.monotonic() - started

    def check_goes_on(self, folder, daemon):
        """Frames go on through eight requests for the table, more than any queue holds."""
        before = ask_status(folder)["status"]["streams"][0]["frames_out"]["out"]
        for _ in range(8):
            daemon.send_signal(signal.SIGUSR1)
            time.sleep(0.05)
        after = ask_status(folder)["status"]["streams"][0]
        self.assertGreater(after["frames_out"]["out"], before + 10000)
        self.assertEqual(sum(after["frames_out"]["shed"].values()), 0)

    def test_full_pipes(self):
        with c.temporary() as folder:
            daemon = self.start(folder)
            self.wait_running(folder)
            self.check_goes_on(folder, daemon)
            # Whoever begins to read late finds the log from its first line on.
            os.set_blocking(self.errors, False)
            log = b""

            def read_running():
                nonlocal log
                try:
                    log += os.read(self.errors, 65536)
                except BlockingIOError:
                    pass
                return b"running: 1 stream" in log
            c.wait_for(read_running, "the log")
            self.stop(daemon)

    def test_full_pipes_at_the_end(self):
        with c.temporary() as folder:
            daemon = self.start(folder)
            self.wait_running(folder)
            daemon.send_signal(signal.SIGUSR1)
            seconds = self.stop(daemon)
            c.note(f"# SIGTERM with full pipes: {seconds:.2f} s")
            self.assertLess(seconds, 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
