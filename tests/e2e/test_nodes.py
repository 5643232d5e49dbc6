#!/usr/bin/python3
# parallel: yes
# takes: 4 s CPU in 8 s
"""`node` in [device]: device threads, loops and memory on the memory node of the device. Machines with two nodes are
copies of the kernel's files, mounted over its own for the daemon alone; a library tells PCI addresses of PoCL's CPU."""
import ctypes
import os
import re
import signal
import subprocess
import unittest

import convolvd as c

LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
MPOL_BIND, SYS_SET_MEMPOLICY = 2, 238
CPUS = sorted(os.sched_getaffinity(0))[:2]
STREAM = "[stream a]\nsource = generator\nrate = 48 kHz\nchannels = 1\nwaveform = noise\nblock = 256\nfilter = f\n" \
         "[filter f]\ntype = identity\n[sink a]\ntype = rtp\nstream = a\naddress = 127.0.0.1:{port}\n"


def cpu_list(text):
    """The numbers of a list such as 0-3,8."""
    cpus = set()
    for piece in filter(None, text.strip().split(",")):
        first, _, last = piece.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def threads(pid):
    """Where each thread may run: (name, processors); the first is the main one, which runs the main loop."""
    found = []
    for task in sorted(map(int, os.listdir(f"/proc/{pid}/task")), key=lambda task: (task != pid, task)):
        try:
            with open(f"/proc/{pid}/task/{task}/comm", encoding="ascii") as file:
                name = file.read().strip()
            with open(f"/proc/{pid}/task/{task}/status", encoding="ascii") as file:
                allowed = re.search(r"Cpus_allowed_list:\s*(\S+)", file.read()).group(1)
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        found.append((name, cpu_list(allowed)))
    return found


def named(pid, name):
    return [cpus for thread, cpus in threads(pid) if thread == name]


def policies(pid):
    """Memory policies of the process; None where the kernel tells none."""
    try:
        with open(f"/proc/{pid}/numa_maps", encoding="ascii") as file:
            return {line.split()[1] for line in file}
    except FileNotFoundError:
        return None


def mount(what, where):
    if LIBC.mount(what.encode(), where.encode(), None, MS_BIND, None) != 0:
        raise OSError(ctypes.get_errno(), f"mount {where}")


def may_mount():
    """Whether this process may mount over the kernel's files, tried in a child."""
    child = os.fork()
    if child == 0:
        os._exit(LIBC.unshare(CLONE_NEWNS) != 0)
    return os.waitpid(child, 0)[1] == 0 and os.path.isdir("/sys/bus/pci/devices")


@unittest.skipIf(c.DEVICE != "cpu", "processors of one CPU stand for those of several nodes")
@unittest.skipIf(len(CPUS) < 2, "one processor")
class Nodes(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def config(self, *device):
        return "\n".join(("[device]", *device, STREAM.format(port=c.free_port())))

    def make(self, path, text):
        path = f"{self.folder}/{path}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    def start(self, *device, allowed=None, machine=None, policy=False, **environment):
        """`machine`: processors of each node. Devices have addresses 0000:01:00.0 on node 0, 0000:02:00.0 on node 1."""
        if machine is not None:
            if not may_mount():
                self.skipTest("only root may mount over the kernel's files")
            self.make("node/online", f"0-{len(machine) - 1}\n")
            for node, cpus in enumerate(machine):
                self.make(f"node/node{node}/cpulist", ",".join(map(str, cpus)) + "\n")
                self.make(f"pci/0000:0{node + 1}:00.0/numa_node", f"{node}\n")

        def before():
            if machine is not None:
                if LIBC.unshare(CLONE_NEWNS) != 0 or LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None) != 0:
                    raise OSError(ctypes.get_errno(), "unshare")
                mount(f"{self.folder}/node", "/sys/devices/system/node")
                mount(f"{self.folder}/pci", "/sys/bus/pci/devices")
            if policy:
                nodes = ctypes.c_ulong(1)
                if LIBC.syscall(SYS_SET_MEMPOLICY, MPOL_BIND, ctypes.byref(nodes), 64) != 0:
                    raise OSError(ctypes.get_errno(), "set_mempolicy")
            os.sched_setaffinity(0, set(CPUS if allowed is None else allowed))
        if machine is not None:
            environment = {"LD_PRELOAD": os.path.abspath(f"{c.BUILD}/tests/faulty_opencl.so"), "FAULTY_PCI": "khr",
                           "FAULTY_PCI_AT": "0000:01:00.0 0000:02:00.0", **environment}
        return c.Daemon(self.folder, self.config(*device), before=before, environment=environment)

    def place(self, daemon):
        device = daemon.status()["device"]
        return device["node"], device["processors"]

    def assert_bound(self, daemon, cpus):
        """Loop and device thread run on these processors."""
        self.assertEqual(named(daemon.process.pid, "convolvd-device"), [set(cpus)], daemon.output())
        self.assertEqual(threads(daemon.process.pid)[0], ("convolvd", set(cpus)), daemon.output())

    def test_a_number(self):
        """On this machine as it is; what the service manager has narrowed stays narrow."""
        one = CPUS[1]
        with self.start("device = cpu", "node = 0", allowed=[one]) as daemon:
            pid = daemon.process.pid
            if policies(pid) is None:
                self.skipTest("a kernel without memory nodes")
            self.assert_bound(daemon, [one])
            self.assertEqual({name: cpus for name, cpus in threads(pid) if cpus != {one}}, {})
            self.assertIn("prefer:0", policies(pid))
            self.assertEqual(self.place(daemon), (0, str(one)))
            shown = subprocess.run([f"{c.BUILD}/convolvctl", "--socket", f"{self.folder}/observe.sock", "devices"],
                                   capture_output=True, text=True, check=False)
            self.assertIn(f"   memory node 0, processors {one}\n", shown.stdout, shown.stderr)
            self.assertTrue(daemon.said(f"on memory node 0, its thread on processors {one}"), daemon.output())
            self.assertTrue(daemon.said(f"loop 0: on memory node 0 with its device, on processors {one}"), daemon.output())
            daemon.stop()

    def test_none(self):
        for machine in (None, [CPUS[1:], CPUS[:1]]):
            with self.start("device = cpu", "node = none", machine=machine) as daemon:
                self.assert_bound(daemon, CPUS)
                self.assertNotIn("prefer:0", policies(daemon.process.pid) or ())
                self.assertEqual(self.place(daemon), (None, None))
                self.assertNotIn("memory node", daemon.output())
                daemon.stop()

    def test_auto_on_one_node(self):
        """The default where it makes no difference: nothing is bound, and nothing said."""
        with self.start("device = cpu", machine=[CPUS[1:]]) as daemon:
            self.assert_bound(daemon, CPUS)
            self.assertEqual(self.place(daemon), (None, None))
            self.assertNotIn("memory node", daemon.output())
            daemon.stop()

    def test_auto_on_two_nodes(self):
        """The default where it does: device thread, loop and memory on the node of the bus, computing anywhere."""
        with self.start("device = cpu", machine=[CPUS[1:], CPUS[:1]]) as daemon:
            self.assert_bound(daemon, CPUS[1:])
            self.assertIn(set(CPUS), [cpus for _, cpus in threads(daemon.process.pid)], "PoCL's threads are bound too")
            self.assertIn("prefer:0", policies(daemon.process.pid) or {"prefer:0"})
            self.assertEqual(self.place(daemon), (0, str(CPUS[1])))
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > 4096, "results")
            daemon.stop()

    def test_several_loops(self):
        with self.start("device = cpu", "loops = 2", machine=[CPUS[1:], CPUS[:1]]) as daemon:
            pid = daemon.process.pid
            c.wait_for(lambda: set(CPUS[1:]) in named(pid, "convolvd-loop"), "the loop of the stream on its node")
            self.assertEqual(sorted(map(sorted, named(pid, "convolvd-loop"))), sorted([CPUS, CPUS[1:]]))
            self.assertEqual(threads(pid)[0][1], set(CPUS), "the main loop has no device")
            daemon.stop()

    def test_devices_of_two_nodes(self):
        """The loop that they share stays; the second node is not there for the kernel, which refuses its memory."""
        with self.start("device = all", machine=[CPUS[1:], CPUS[:1]], POCL_DEVICES="pthread pthread") as daemon:
            self.assertEqual(sorted(map(sorted, named(daemon.process.pid, "convolvd-device"))), sorted([CPUS[1:], CPUS[:1]]), daemon.output())
            self.assertEqual(threads(daemon.process.pid)[0][1], set(CPUS), daemon.output())
            self.assertTrue(daemon.said("loop 0: its devices are on several memory nodes"), daemon.output())
            self.assertTrue(daemon.said("memory node 1: the memory of"), daemon.output())
            self.assertEqual([(d["node"], d["processors"]) for d in daemon.status()["devices"]],
                             [(0, str(CPUS[1])), (1, str(CPUS[0]))])
            daemon.stop()

    def test_a_reload_opens_a_device_of_another_node(self):
        """Its thread goes there although the loop, which starts the reload's thread, is bound to the first node; the
        loop comes back."""
        with self.start("device = 0", machine=[CPUS[1:], CPUS[:1]], POCL_DEVICES="pthread pthread") as daemon:
            pid = daemon.process.pid
            self.assert_bound(daemon, CPUS[1:])
            with open(daemon.path, "a", encoding="utf-8") as file:
                file.write("[stream b]\nsource = generator\nrate = 48 kHz\nchannels = 1\nfilter = f\ndevice = 1\n"
                           f"[sink b]\ntype = rtp\nstream = b\naddress = 127.0.0.1:{c.free_port()}\n")
            daemon.signal(signal.SIGHUP)
            daemon.wait_said("reloaded: 1 stream unchanged, 1 changed or new")
            self.assertEqual(sorted(map(sorted, named(pid, "convolvd-device"))), sorted([CPUS[1:], CPUS[:1]]))
            self.assertEqual(threads(pid)[0][1], set(CPUS), daemon.output())
            daemon.stop()

    def test_processors_of_another_node(self):
        """None of the node's processors is allowed: threads stay where they may be, and a warning says so."""
        with self.start("device = cpu", machine=[CPUS[1:], CPUS[:1]], allowed=CPUS[:1]) as daemon:
            self.assert_bound(daemon, CPUS[:1])
            self.assertEqual(self.place(daemon), (0, None))
            self.assertTrue(daemon.said(f"this process may run on none of its processors ({CPUS[1]})"), daemon.output())
            daemon.stop()

    def test_a_memory_policy_stays(self):
        with self.start("device = cpu", "node = 0", policy=True) as daemon:
            if policies(daemon.process.pid) is None:
                self.skipTest("a kernel without memory nodes")
            self.assertNotIn("prefer:0", policies(daemon.process.pid))
            self.assertTrue(daemon.said("the process has a memory policy (NUMAPolicy=)"), daemon.output())
            daemon.stop()

    def test_a_device_that_tells_none(self):
        """auto on two nodes, and a driver without a PCI address."""
        with self.start("device = cpu", machine=[CPUS[1:], CPUS[:1]], LD_PRELOAD="") as daemon:
            self.assert_bound(daemon, CPUS)
            self.assertTrue(daemon.said("its driver tells no memory node, so nothing is bound to one"), daemon.output())
            daemon.stop()


if __name__ == "__main__":
    unittest.main()
