#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 20 s
"""SIGTERM ends the daemon within its deadlines whatever hangs: the start, a reload, the reader of a file,
the device, or the driver while it is closed. It leaves with what it has, says what was cut, and its exit
status is 3."""
import os
import signal
import time
import unittest

import convolvd as c

CUT = 3


def config(extra="", pace="realtime"):
    return f"""[daemon]
drain timeout = 500 ms
[stream s]
source = generator
rate = 100 kHz
channels = 2
format = f32le
waveform = noise
block = 256
pace = {pace}
filter = low
[filter low]
type = lowpass
cutoff = 10 kHz
taps = 31
{extra}"""


class Stop(unittest.TestCase):
    def stop(self, daemon, limit_s, code=CUT):
        """Seconds that SIGTERM took."""
        started = time.monotonic()
        daemon.signal(signal.SIGTERM)
        self.assertEqual(daemon.wait(), code, daemon.output())
        seconds = time.monotonic() - started
        self.assertLess(seconds, limit_s * (4 if c.SANITIZED else 1), daemon.output())
        return seconds

    def wait_wedged(self, daemon, stage):
        c.wait_for(lambda: daemon.stream("s")["frames_out"]["out"] > 1000, "results")
        daemon.signal(c.WEDGES[stage])
        time.sleep(0.2)
        if stage == "reader":  # it hangs before its next chunk, and makes one every third of a second
            c.wait_for(lambda: self.stands_still(daemon), "the reader to hang")

    def stands_still(self, daemon):
        before = daemon.stream("s")["frames_in"]["received"]
        time.sleep(1)
        return daemon.stream("s")["frames_in"]["received"] == before

    def test_a_start_that_hangs(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, {c.WEDGES["prepare"]})
        try:
            # Pending when the program begins: a fork forgets it, so the child has to send it to itself.
            with c.temporary() as folder, \
                    c.Daemon(folder, config(), wait=False, program="convolvd-test",
                             before=lambda: os.kill(os.getpid(), c.WEDGES["prepare"])) as daemon:
                c.wait_for(lambda: os.path.exists(os.path.join(folder, "observe.sock")), "the control socket")
                time.sleep(0.2)
                seconds = self.stop(daemon, 3)
                self.assertIn("stopped while preparing", daemon.output())
                c.note(f"# a start that hangs: {seconds:.2f} s")
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {c.WEDGES["prepare"]})

    def test_a_reload_that_hangs(self):
        with c.temporary() as folder:
            with c.Daemon(folder, config() + c.rtp_sink("out", "s", c.free_port()), program="convolvd-test") as daemon:
                with open(daemon.path, "a", encoding="utf-8") as file:
                    file.write("[stream t]\nsource = generator\nrate = 48 kHz\nchannels = 1\nwaveform = noise\nfilter = low\n")
                daemon.signal(c.WEDGES["prepare"])  # the next stream that is prepared hangs
                daemon.signal(signal.SIGHUP)
                daemon.wait_said("again")
                before = daemon.stream("s")["frames_out"]["out"]
                time.sleep(0.3)
                self.assertGreater(daemon.stream("s")["frames_out"]["out"], before)
                seconds = self.stop(daemon, 3)
                self.assertIn("a reload", daemon.output())
                status = c.check_ledgers(c.load_json(daemon.status_path))
                stream = status["streams"][0]
                # What runs drains whole all the same.
                self.assertEqual(stream["frames_out"]["out"], stream["frames_in"]["received"] + 30)
                c.note(f"# a reload that hangs: {seconds:.2f} s")

    def test_a_reader_that_hangs(self):
        with c.temporary() as folder, c.Daemon(folder, config(), program="convolvd-test") as daemon:
            self.wait_wedged(daemon, "reader")
            seconds = self.stop(daemon, 8)
            self.assertIn("stream s: its source hangs while it is closed", daemon.output())
            stream = c.check_ledgers(c.load_json(daemon.status_path))["streams"][0]
            self.assertEqual(stream["frames_out"]["out"], stream["frames_in"]["received"] + 30)
            c.note(f"# a reader that hangs: {seconds:.2f} s")

    def test_a_device_that_hangs(self):
        with c.temporary() as folder, c.Daemon(folder, config(), program="convolvd-test") as daemon:
            self.wait_wedged(daemon, "device")
            seconds = self.stop(daemon, 5)
            self.assertIn("work left over", daemon.output())
            c.note(f"# a device that hangs: {seconds:.2f} s")

    def test_a_driver_that_hangs_while_it_is_closed(self):
        with c.temporary() as folder, c.Daemon(folder, config(), program="convolvd-test") as daemon:
            self.wait_wedged(daemon, "close")
            seconds = self.stop(daemon, 15)
            self.assertIn("hangs while it is closed", daemon.output())
            c.check_ledgers(c.load_json(daemon.status_path))
            c.note(f"# a driver that hangs while it is closed: {seconds:.2f} s")


if __name__ == "__main__":
    unittest.main(verbosity=2)
