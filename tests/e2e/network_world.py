"""Hosts in network namespaces of their own, on networks whose cables can be pulled: what is sent then is lost, and
nobody is told. Needs root. The process that makes a Network leaves this machine's network for good."""
import ctypes
import os
import subprocess
import time

CLONE_NEWNET = 0x40000000
DISABLED, FORWARDING = "0", "3"  # states of a bridge's port
LIBC = ctypes.CDLL(None, use_errno=True)


def enter(descriptor):
    if LIBC.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def missing():
    """What this machine lacks, or None."""
    if os.geteuid() != 0:
        return "only root may make network namespaces"
    for program in ("ip", "bridge"):
        if subprocess.run(["sh", "-c", f"command -v {program}"], capture_output=True, check=False).returncode != 0:
            return f"no {program} (iproute2)"
    return None


class Host:
    """A namespace with a cable to each of some networks."""

    def __init__(self, number, name, networks):
        self.name, self.networks, self.number = name, networks, number
        self.holder = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        own, path = os.readlink("/proc/self/ns/net"), f"/proc/{self.holder.pid}/ns/net"
        while os.readlink(path) == own or self.command() != b"sleep":
            time.sleep(0.005)
        self.namespace = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.run("ip", "link", "set", "lo", "up")
        for network in networks:
            cable, inside = self.cable(network), f"net{network}"
            ip("link", "add", cable, "type", "veth", "peer", "name", inside, "netns", str(self.holder.pid))
            self.run("ip", "addr", "add", f"{self.address(network)}/24", "dev", inside)
            self.run("ip", "link", "set", inside, "up")
            ip("link", "set", cable, "master", f"br{network}", "up")

    def command(self):
        with open(f"/proc/{self.holder.pid}/cmdline", "rb") as file:
            return file.read().split(b"\0")[0]

    def run(self, *words):
        subprocess.run(words, check=True, capture_output=True, preexec_fn=self.enter)

    def enter(self):
        """In a child: it is on this host from now on."""
        enter(self.namespace)

    def address(self, network):
        return f"10.77.{network}.{self.number}"

    def cable(self, network):
        return f"v{self.number}n{network}"

    def pull(self, network, out=True):
        subprocess.run(["bridge", "link", "set", "dev", self.cable(network), "state", DISABLED if out else FORWARDING], check=True)

    def plug(self, network):
        self.pull(network, out=False)

    def close(self):
        os.close(self.namespace)
        self.holder.kill()
        self.holder.wait()


class Network:
    """Networks 0, 1, …: 10.77.N.0/24. This process has the address .254 on each."""

    def __init__(self, count):
        if LIBC.unshare(CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "unshare")
        ip("link", "set", "lo", "up")
        for network in range(count):
            ip("link", "add", f"br{network}", "type", "bridge", "forward_delay", "0")
            ip("link", "set", f"br{network}", "up")
            ip("addr", "add", f"10.77.{network}.254/24", "dev", f"br{network}")
        self.hosts = []

    def host(self, name, networks=(0,)):
        self.hosts.append(Host(len(self.hosts) + 1, name, networks))
        return self.hosts[-1]

    def close(self):
        for host in self.hosts:
            host.close()
