#!/usr/bin/python3
# parallel: yes
# takes: 0 s CPU in 4 s
"""A daemon whose network comes late, goes and comes back, and whose `interface` a reload changes, in a network
namespace of the test's own. test_interfaces has every kind of address."""
import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import numpy as np

import api_schema
import convolvd as c

RATE = 20000
FRAMES = 20
GROUP = "239.77.2.1"


def enter_namespace():
    """False where no namespace or interface can be made."""
    clone_newnet = 0x40000000
    if ctypes.CDLL(None, use_errno=True).unshare(clone_newnet) != 0:
        return False
    return subprocess.run("ip link set lo up && ip link add test0 type veth peer name test1 && ip link del test0",
                          shell=True, capture_output=True, check=False).returncode == 0


def make(name, number):
    subprocess.run(f"ip link add {name} type veth peer name {name}p && ip addr add 10.77.{number}.1/24 dev {name} && "
                   f"ip link set {name}p up && ip link set {name} up", shell=True, check=True)


class Interfaces(unittest.TestCase):
    def setUp(self):
        self.number = 0
        self.port, self.out = c.free_port(), c.free_port()

    def config(self, folder, interface):
        return c.taps_file(folder, "h", np.ones(1)) + f"""
[stream a]
source = rtp
address = {GROUP}:{self.port}
interface = {interface}
rate = {RATE} Hz
channels = 1
format = L16
block = 64 frames
filter = h
tail = no

[sink o]
type = rtp
stream = a
address = {GROUP}:{self.out}
interface = mc0
"""

    def send(self, interface, packets, sender):
        index = socket.if_nametoindex(interface)
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("4s4si", b"\0" * 4, b"\0" * 4, index))
        for _ in range(packets):
            packet = struct.pack(">BBHII", 0x80, 96, self.number & 0xFFFF, FRAMES * self.number, 1) + bytes(2 * FRAMES)
            sender.sendto(packet, (GROUP, self.port))
            self.number += 1

    def receiver(self, interface):
        one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(one.close)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((GROUP, self.out))
        index = socket.if_nametoindex(interface)
        one.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                       struct.pack("4s4si", socket.inet_aton(GROUP), b"\0" * 4, index))
        one.settimeout(c.PATIENCE_S)
        return one

    def test_late_gone_back_and_changed(self):
        with c.temporary() as folder, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            with c.Daemon(folder, self.config(folder, "mc0")) as daemon:
                daemon.wait_said("stream a: waits for the network: this machine has no network interface 'mc0'")
                network = api_schema.check("stream", daemon.stream("a"))["network"]
                self.assertEqual(network["state"], "waiting")
                self.assertIn("mc0", network["waiting_for"])
                make("mc0", 1)
                daemon.wait_said("stream a: the network is there after")
                daemon.wait_said("sink o: the network is there after")
                listener = self.receiver("mc0")
                self.send("mc0", 10, sender)
                c.wait_for(lambda: daemon.stream("a")["datagrams"]["accepted"] == 10, "packets of a late interface")
                self.assertGreater(len(listener.recv(2000)), 100)

                subprocess.run("ip link set mc0p down", shell=True, check=True)
                daemon.wait_said("stream a: network: link down 1", 5)
                subprocess.run("ip link del mc0", shell=True, check=True)
                c.wait_for(lambda: daemon.stream("a")["network"]["state"] == "gone", "the removal in the status")
                make("mc0", 1)
                daemon.wait_said("stream a: interface mc0 is back")
                listener = self.receiver("mc0")
                self.send("mc0", 10, sender)
                c.wait_for(lambda: daemon.stream("a")["datagrams"]["accepted"] == 20, "packets after the removal")
                begun = time.monotonic()
                while len(listener.recv(2000)) < 300:  # results, no heartbeats
                    self.assertLess(time.monotonic() - begun, c.PATIENCE_S)
                    self.send("mc0", 4, sender)
                    time.sleep(0.05)

                make("mc1", 2)
                with open(daemon.path, "w", encoding="utf-8") as file:
                    file.write(f"[device]\ndevice = {c.DEVICE}\n\n" + self.config(folder, "mc1"))
                daemon.signal(signal.SIGHUP)
                daemon.wait_said("reloaded: ")
                before = daemon.stream("a")["datagrams"]["read"]  # the count may go on from the old source's
                self.send("mc0", 10, sender)
                time.sleep(0.1)
                self.send("mc1", 5, sender)
                c.wait_for(lambda: daemon.stream("a")["datagrams"]["read"] >= before + 5, "packets of the new interface")
                status = daemon.stop()["streams"][0]
        c.note(f"interfaces: {status['datagrams']['read'] - before - 5} packets of the old interface after a reload")
        self.assertEqual(status["datagrams"]["read"], before + 5)
        self.assertEqual(status["network"]["interface"], "mc1")


if __name__ == "__main__":
    if os.environ.get("CONVOLVD_BUILD") and not enter_namespace():
        print("no network namespace can be made here")
        sys.exit(77)
    unittest.main()
