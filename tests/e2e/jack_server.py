"""A JACK server for one test, and the JACK client that is the rig: what it plays goes into the
daemon's ports, what the daemon plays it captures, in the same cycles.

The server runs `-d dummy` without real time, in JACK's synchronous mode: a cycle waits for its
clients, so a busy machine delays samples but loses none.
"""
import ctypes
import fcntl
import functools
import json
import os
import subprocess
import time

import numpy as np

import convolvd as c

try:
    # Sound has deadlines that the tests beside it have not. Servers, clients and daemons inherit it. Linux weighs
    # sessions against each other first (autogroup), and each test has one of its own.
    os.setpriority(os.PRIO_PROCESS, 0, -11)
    with open("/proc/self/autogroup", "w", encoding="ascii") as group:
        group.write("-11")
except OSError:
    pass

CLONE_NEWNS, CLONE_NEWIPC = 0x00020000, 0x08000000
MS_REC, MS_PRIVATE = 0x4000, 0x40000


def take_registry():
    """A /dev/shm of this test's own, where the kernel grants one. JACK lists servers there by name and process, those
    too that were killed; a process that has got the number of a dead one since makes its name unusable, and in another
    system on the same /dev/shm (.ci/minimal-root) any may have it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS | CLONE_NEWIPC) == 0:
        libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
        libc.mount(b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"mode=1777")


take_registry()

CLIENT = os.path.join(c.BUILD, "tests", "jack_client")


def take_name():
    """A server's name that no other test on the same /dev/shm has now. JACK counts eight servers at most, those too that were
    killed, but takes a dead one's place for a new one of its name: so there are few names."""
    while True:
        for number in range(6):
            lock = open(f"/dev/shm/convolvd-jack-{number}.lock", "w", encoding="utf-8")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                continue
            _locks.append(lock)  # until the process ends
            return f"convolvd-{number}"
        time.sleep(0.5)


_disturbed = []  # accounts of clients that ran while JACK lost cycles
_locks = []
_names = []  # taken by this process, of servers that are closed


class Server:
    """jackd with a name of its own; ends with the test, by its process. steady: its clock counts, so
    it waits for no client and has real-time priority where it may."""

    def __init__(self, ports, period=256, rate=48000, steady=False):
        self.manner = ["-R", "-P", "60"] if steady else ["-r", "-S"]
        self.name = _names.pop() if _names else take_name()
        self.ports, self.period, self.rate = ports, period, rate
        self.environment = {"JACK_DEFAULT_SERVER": self.name, "JACK_NO_AUDIO_RESERVATION": "1"}
        self.process = None
        self.start()

    def start(self):
        if self.name in _names:
            _names.remove(self.name)
        for _ in range(3):
            if self.launch():
                return
            self.close()
            _names.remove(self.name)
            self.name = take_name()  # somebody left a server of that name running
            self.environment["JACK_DEFAULT_SERVER"] = self.name
        raise AssertionError("jackd did not start")

    def launch(self):
        ports = str(self.ports)
        self.process = subprocess.Popen(
            ["jackd", "-n", self.name, *self.manner, "-p", "1024", "-d", "dummy", "-r", str(self.rate), "-p", str(self.period),
             "-C", ports, "-P", ports], env={**os.environ, **self.environment}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        done = subprocess.run(["jack_wait", "-s", self.name, "-w", "-t", "20"], env={**os.environ, **self.environment},
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        return done.returncode == 0 and self.process.poll() is None

    def kill(self):
        """As a server dies that is out of memory, or whose card was pulled."""
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:  # jackd waits for clients that have died
                self.kill()
        if self.name not in _names:
            _names.append(self.name)

    def has_port(self, port):
        listed = subprocess.run(["jack_lsp", "-s", self.name], env={**os.environ, **self.environment}, capture_output=True,
                                text=True, check=False)
        return port in listed.stdout.split()


def through(card_inputs, card_outputs):
    """Connections that put what the rig plays into a client's inputs, and capture its outputs."""
    return ([f"rig:out_{i + 1}>{port}" for i, port in enumerate(card_inputs)]
            + [f"{port}>rig:in_{i + 1}" for i, port in enumerate(card_outputs)])


def daemon_ports(client, channels, direction):
    """PortAudio's names of a card's ports."""
    return [f"{client}:{direction}_{i}" for i in range(channels)]


def play(server, folder, samples, connections, frames=None, inputs=None, name="rig"):
    """Plays [frames][outputs] into the connected ports and captures [frames][inputs] meanwhile; the
    rig's own account comes with it."""
    samples = np.asarray(samples, dtype="<f4")
    in_path, out_path = os.path.join(folder, f"{name}-in.f32"), os.path.join(folder, f"{name}-out.f32")
    samples.tofile(in_path)
    inputs = samples.shape[1] if inputs is None else inputs
    command = [CLIENT, "--name", name, "--play", in_path, "--outputs", str(samples.shape[1]), "--frames",
               str(frames or len(samples))]
    if inputs:
        command += ["--capture", out_path, "--inputs", str(inputs)]
    for connection in connections:
        command += ["--connect", connection]
    done = subprocess.run(command, env={**os.environ, **server.environment}, capture_output=True, text=True,
                          timeout=4 * c.PATIENCE_S, check=False)
    assert done.returncode == 0, f"jack_client ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    account = json.loads(done.stdout.strip().splitlines()[-1])
    if not undisturbed(account):
        _disturbed.append(account)
    captured = np.fromfile(out_path, "<f4").reshape(-1, inputs) if inputs else None
    return captured, account


def undisturbed(account):
    """Whether JACK left no cycle out and ended none before its clients had run."""
    return account["xruns"] == 0 and account["missed_frames"] == 0


def repeats_disturbed(case):
    """Class decorator: a test that fails while JACK reports a cycle lost, as it does where other work on this machine
    kept a client from running, is run again, three times at most. What fails without such a report fails at once."""
    def repeating(test):
        @functools.wraps(test)
        def run(self):
            for again in range(4):
                before = len(_disturbed)
                try:
                    test(self)
                    return
                except AssertionError as failure:
                    if again == 3 or len(_disturbed) == before:
                        raise
                    c.note(f"JACK lost a cycle ({_disturbed[-1]}): {test.__name__} is run again after: {failure}")
                self.doCleanups()
                self.setUp()
        return run
    for name in [name for name in vars(case) if name.startswith("test_")]:
        setattr(case, name, repeating(getattr(case, name)))
    return case


def baseline(server, folder, channels):
    """Frames that a client which only copies adds on this server: the round trip's own delay. Where other work on
    this machine ends a cycle before the copying client has run, JACK reports it: then it is measured again."""
    with subprocess.Popen([CLIENT, "--name", "copy", "--through", str(channels)], env={**os.environ, **server.environment},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL) as copy:
        try:
            c.wait_for(lambda: server.has_port("copy:in_1"), "the copying client")
            mark = np.zeros((8 * server.period, channels), np.float32)
            mark[0] = np.linspace(0.1, 0.9, channels)
            for _ in range(8):
                got, account = play(server, folder, mark, through([f"copy:in_{i + 1}" for i in range(channels)],
                                                                  [f"copy:out_{i + 1}" for i in range(channels)]), name="rig")
                at = np.flatnonzero(np.abs(got).max(axis=1) > 0)
                if undisturbed(account):
                    break
        finally:
            copy.terminate()
            copy.wait(20)
    assert len(at) == 1 and np.array_equal(got[at[0]], mark[0]), f"the copying client does not copy: {at[:5]}, {account}"
    time.sleep(0.1)
    return int(at[0])
