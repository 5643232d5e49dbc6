"""What the machine itself took from a test, for bars on times: how long tasks waited for a processor (pressure stall
information) and how long the hypervisor had one (steal). Both are sampled while the test runs."""
import os
import threading
import time

EVERY_S = 0.1


def taken_s():
    """Seconds since the machine's start; what the kernel does not tell counts as none."""
    total = 0.0
    try:
        with open("/proc/pressure/cpu", encoding="ascii") as file:
            total += int(file.readline().rpartition("total=")[2]) / 1e6
    except OSError:
        pass
    with open("/proc/stat", encoding="ascii") as file:
        total += int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    return total


class Watch(threading.Thread):
    """Samples what was taken until end()."""

    def __init__(self):
        super().__init__(daemon=True)
        self.ends = threading.Event()
        self.samples = [(time.monotonic(), taken_s())]
        self.start()

    def run(self):
        while not self.ends.wait(EVERY_S):
            self.samples.append((time.monotonic(), taken_s()))

    def end(self):
        self.ends.set()
        self.join()

    def most(self, seconds):
        """The most that was taken in any time of so many seconds, which is at most all of them."""
        samples, begin, worst = list(self.samples), 0, 0.0
        for at, taken in samples:
            while at - samples[begin][0] > seconds:
                begin += 1
            worst = max(worst, taken - samples[begin][1])
        return min(worst, seconds)
