"""A rig that sends by multicast, for tests of a cluster: real packets on the loopback interface or through a bridge. It sends
until the test ends it, however long daemons take to start on a busy machine, and writes what it has sent."""
import os
import signal

import numpy as np

import convolvd as c
from cluster_world import CHANNELS, RATE

FIRST = 2 ** 32 - 3 * RATE  # time stamp: wraps after 3 s
LONG_S = 600
SENDER = 32  # of a record's flags: the sender's own time stamps


class MulticastRig:
    """Before a case of cluster_world. GROUP: where it sends to, at self.port."""
    GROUP = ""

    def send(self, seconds=LONG_S, timestamp=FIRST, ssrc=7, name="x", interface="lo"):
        self.rig_name = name
        self.rig = c.Process("convolv-rig", ["--to", f"{self.GROUP}:{self.port}", "--interface", interface, "--format", "f32be",
                                             "--rate", RATE, "--channels", CHANNELS, "--signal", "noise", "--seconds", seconds,
                                             "--timestamp", timestamp % 2 ** 32, "--ssrc", ssrc, "--write", self.sent_path(name)])
        self.addCleanup(self.rig.kill)

    def sent_path(self, name):
        return os.path.join(self.folder.name, f"{name}.npy")

    def sent(self, name="x"):
        """What it has sent, once it has ended."""
        return np.load(self.sent_path(name)).reshape(-1, CHANNELS)

    def end_rig(self):
        """Returns what it has sent."""
        self.rig.signal(signal.SIGTERM)
        self.assertEqual(self.rig.wait(), 0)
        return self.sent(self.rig_name)
