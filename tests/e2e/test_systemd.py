#!/usr/bin/python3
# parallel: yes
# takes: 27 s CPU in 68 s
"""The daemon under a real systemd, booted in namespaces of its own (tests/systemd/boot): active only
after READY, restarted by the watchdog when a stage is wedged, started by its socket, no packet lost
across a restart, the sandbox, reload and stop; what is obtained of priority and memory is shown."""
# timeout: 300
# sanitizers: no, the units' sandbox is for the program as shipped
import grp
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import convolvd as c

RATE = 500000
TAPS = 129
CONF = "/etc/convolvd/convolvd.conf"
STATE = "/var/lib/convolvd"
DROPINS = "/run/systemd/system/convolvd.service.d"
PORT = 5004

BITE = """
import ctypes, os, socket
def tried(name, function):
    try:
        function()
        print(name, "done")
    except OSError as error:
        print(name, error.strerror)
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
tried("usr", lambda: open("/usr/bite", "w"))
tried("etc", lambda: open("/etc/convolvd/bite", "w"))
tried("home", lambda: os.listdir("/root"))
tried("state", lambda: open("bite", "w").write("x"))
tried("mount", lambda: call(165, b"none", b"/tmp", b"tmpfs", 0, 0))
tried("reboot", lambda: call(169, 0, 0, 0, 0))
tried("ptrace", lambda: call(101, 0, 0, 0, 0))
tried("unshare", lambda: call(272, 0x10000000))
tried("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
tried("disk", lambda: os.mknod("disk", 0o60600, os.makedev(8, 0)))
"""


def run(*arguments, check=True):
    result = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)
    if check and result.returncode != 0:
        raise AssertionError(f"{' '.join(arguments)}: {result.returncode}\n{result.stdout}{result.stderr}\n{journal()}")
    return result.stdout


def show(*names, unit="convolvd"):
    lines = run("systemctl", "show", unit, *(f"-p{name}" for name in names)).splitlines()
    values = dict(line.split("=", 1) for line in lines)
    return [values[name] for name in names]


def journal(*matches, since=None):
    run("journalctl", "--sync", check=False)
    return run("journalctl", "--no-pager", "-o", "cat", *(matches or ("-u", "convolvd")),
               *(("--after-cursor", since) if since else ()), check=False)


def cursor():
    run("journalctl", "--sync", check=False)
    return run("journalctl", "--no-pager", "-n", "0", "--show-cursor").rpartition("-- cursor: ")[2].strip()


def drop_in(text):
    os.makedirs(DROPINS, exist_ok=True)
    with open(f"{DROPINS}/test.conf", "w", encoding="utf-8") as file:
        file.write("[Unit]\nStartLimitIntervalSec=0\n[Service]\n" + text)
    run("systemctl", "daemon-reload")


def configure(extra="", rate=RATE, tap_port=6000):
    with open(CONF, "w", encoding="utf-8") as file:
        file.write(f"[daemon]\nstatus file = {STATE}/status.json\n[device]\ndevice = cpu\n"
                   f"[stream a]\nsource = rtp\naddress = 127.0.0.1:{PORT}\nrate = {rate} Hz\nchannels = 1\n"
                   f"format = s16be\nfull scale = 1\nblock = 1024\nfilter = f\n"
                   f"[filter f]\ntype = file\npath = /etc/convolvd/f.npy\ndelay = 64 frames\n"
                   f"[sink out]\ntype = rtp\nstream = a\naddress = 127.0.0.1:{tap_port}\nformat = f32be\n" + extra)


def rig(*arguments, wait=True):
    process = subprocess.Popen([os.path.join(c.BUILD, "convolv-rig"), "--to", f"127.0.0.1:{PORT}", *map(str, arguments)],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if not wait:
        return process
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 0, output
    return process


def ask(question):
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("/run/convolvd/observe.sock")
        s.settimeout(10)
        s.sendall(json.dumps(question).encode() + b"\n")
        return json.loads(s.makefile().readline())


def socket_owners(folder="convolvd"):
    """(role, user, group, mode) of each control socket."""
    stats = [(role, os.stat(f"/run/{folder}/{role}.sock")) for role in ("control", "observe")]
    return [(role, s.st_uid, grp.getgrgid(s.st_gid).gr_name, stat.S_IMODE(s.st_mode)) for role, s in stats]


# As the socket units say.
SOCKET_OWNERS = [("control", 0, "convolvd-control", 0o660), ("observe", 0, "convolvd", 0o660)]


def wait_for(condition, what, seconds=None):
    """Asks less often than others do: each question starts systemctl or journalctl."""
    c.wait_for(condition, what, seconds, pause_s=0.2)


def queued_ms():
    """Milliseconds that the daemon's threads waited for a processor."""
    tasks = f"/proc/{show('MainPID')[0]}/task"
    waits = []
    for task in os.listdir(tasks):
        with open(f"{tasks}/{task}/schedstat", encoding="ascii") as file:
            waits.append(int(file.read().split()[1]) / 1e6)
    return sum(waits)


def received():
    stream = ask({"command": "status", "format": "json"})["status"]["streams"][0]
    return stream["frames_in"]["received"]


class Systemd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        np.save("/etc/convolvd/f.npy", c.random_taps(1, TAPS))

    def setUp(self):
        shutil.rmtree(DROPINS, ignore_errors=True)
        drop_in("")
        configure()
        self.addCleanup(lambda: (run("systemctl", "stop", "convolvd.service", "convolvd.socket", check=False),
                                 run("systemctl", "reset-failed", check=False)))

    def test_1_active_only_after_ready(self):
        run("systemctl", "start", "--no-block", "convolvd")
        states, runs_since = [], None
        while True:
            state, status = show("ActiveState", "StatusText")
            states.append((state, status))
            if state not in ("activating", "inactive") or len(states) > 600:
                break
            # It tells systemd at once; the message takes a moment.
            if runs_since is None and "running:" in journal():
                runs_since = time.monotonic()
            self.assertLess(time.monotonic() - (runs_since or time.monotonic()), 2, journal())
            time.sleep(0.1)
        self.assertEqual(state, "active", journal())
        self.assertTrue(any("preparing" in status for _, status in states), states[:3])
        self.assertIn("1 stream, load 0 %", show("StatusText")[0])
        self.assertIn("ready after", journal())
        # Ready means that the very first packet is heard.
        rig("--rate", RATE, "--seconds", 0.1)
        self.assertEqual(received(), RATE // 10)
        # Warm: the kernels are in the cache.
        warm_ms = []
        for _ in range(3):
            run("systemctl", "restart", "convolvd")
            # What it waited for a processor is other work on this machine.
            queued = queued_ms()
            started, ready = map(int, show("ExecMainStartTimestampMonotonic", "ActiveEnterTimestampMonotonic"))
            warm_ms.append((ready - started) / 1000 - queued)
        c.note(f"systemd: warm start to READY {', '.join(f'{ms:.0f}' for ms in warm_ms)} ms")
        self.assertLess(min(warm_ms), 500)
        for line in journal().splitlines():
            if line.startswith(("priority:", "memory:")):
                obtained = line
                c.note(f"systemd: obtained {obtained}") if obtained not in self.noted else None
                self.noted.add(obtained)

    noted = set()

    def test_2_losses_are_told_in_sums(self):
        run("systemctl", "start", "convolvd")
        since = cursor()
        rig("--rate", RATE, "--seconds", 4, "--loss", 0.05, "--amplitude", 3)
        time.sleep(2)
        lost = [line for line in journal(since=since).splitlines() if "did not arrive" in line]
        self.assertGreaterEqual(len(lost), 1, journal())
        self.assertLessEqual(len(lost), 2)
        self.assertIn("network", lost[0])
        self.assertIn("did not arrive", journal("STREAM=a", "PRIORITY=4"))
        self.assertIn("at full scale", journal("STREAM=a", "CHANNEL=1"))
        self.assertIn("convolvd", run("journalctl", "--no-pager", "-t", "convolvd", "-n", "1"))
        self.assertIn("1 stream, load", show("StatusText")[0])

    def test_3_the_watchdog_restarts_what_is_wedged(self):
        shutil.copy(os.path.join(c.BUILD, "convolvd-test"), "/usr/bin")
        drop_in(f"WatchdogSec=2\nExecStart=\nExecStart=/usr/bin/convolvd-test --config {CONF}\n")
        configure(f"[sink file]\ntype = recording\nstream = a\npath = {STATE}/watched.wav\nqueue = 1 MiB\n")
        feeder = rig("--rate", RATE, "--signal", "noise", "--seconds", 100, wait=False)
        self.addCleanup(lambda: (feeder.kill(), feeder.wait(), feeder.stdout.close()))
        run("systemctl", "start", "convolvd")
        time.sleep(4)
        self.assertEqual(show("NRestarts"), ["0"], journal())
        for i, stage in enumerate(("device", "writer", "loop")):
            since = cursor()
            os.kill(int(show("MainPID")[0]), c.WEDGES[stage])
            began = time.monotonic()
            try:
                wait_for(lambda: show("NRestarts", "ActiveState") == [str(i + 1), "active"], f"a restart ({stage})", 30)
            except AssertionError as error:
                raise AssertionError(f"{error}\n{journal(since=since)}") from None
            c.note(f"systemd: {stage} wedged, restarted and ready after {time.monotonic() - began:.1f} s (WatchdogSec=2)")
            self.assertIn("Watchdog timeout", journal(since=since))
            time.sleep(0.5)
            self.assertGreater(received(), 0)

    def test_4_the_socket_starts_it(self):
        run("systemctl", "start", "convolvd.socket")
        self.assertEqual(show("ActiveState"), ["inactive"])
        rig("--rate", RATE, "--seconds", 0.5)
        wait_for(lambda: show("ActiveState") == ["active"], "the socket to start it", 30)
        wait_for(lambda: received() == RATE // 2, "every frame", 10)
        self.assertIn("reading on from a socket that was bound before", journal())
        self.assertIn("receive buffer: 16 MiB", journal())

    def test_5_no_packet_is_lost_across_a_restart(self):
        self.restart("convolvd.socket", "convolvd")

    def test_5a_nor_without_a_socket_unit(self):
        """The daemon's own socket waits in the descriptor store; its buffer is what `rmem_max` allows, so it is
        slower here."""
        self.restart("convolvd", rate=RATE // 25)
        self.assertIn("reading on from a socket that was bound before", journal())

    def restart(self, *units, rate=RATE):
        frames = 12 * rate
        codes = c.noise_codes(5, frames, 1)
        c.write_wav16("/run/in.wav", rate, codes)
        configure(f"[sink raw]\ntype = recording\nstream = a\nrecord = input\npath = {STATE}/restart-in.wav\n"
                  f"[sink done]\ntype = recording\nstream = a\npath = {STATE}/restart-out.wav\n", rate=rate)
        for name in os.listdir(STATE):
            if name.startswith("restart-"):
                os.unlink(f"{STATE}/{name}")
        run("systemctl", "start", *units)
        since = cursor()
        feeder = rig("--file", "/run/in.wav", wait=False)
        down_ms = []
        for _ in range(3):
            time.sleep(0.8)
            at = received()
            wait_for(lambda at=at: received() >= at + rate // 10, "frames in each of the daemon's lives")
            began = time.monotonic()
            run("systemctl", "restart", "convolvd")
            down_ms.append((time.monotonic() - began) * 1000)
        self.assertIsNone(feeder.poll(), "the rig ended before the last restart: this machine is too slow for its time")
        output, _ = feeder.communicate(timeout=60)
        self.assertEqual(feeder.returncode, 0, output)
        before = None
        while before != received():  # until it has read what is in the socket
            before = received()
            time.sleep(0.5)
        self.assertEqual(ask({"command": "status", "format": "json"})["status"]["streams"][0]["datagrams"]["kernel_drops"], 0)
        run("systemctl", "stop", *units)
        lives = sorted((f"{STATE}/{n}" for n in os.listdir(STATE) if n.startswith("restart-in") and n.endswith(".wav")),
                       key=os.path.getmtime)
        self.assertEqual(len(lives), 4)
        pieces = [c.read_recording(path) for path in lives]
        got = np.concatenate(pieces)
        self.assertEqual(len(got), frames, f"{frames - len(got)} frames lost")
        want = codes if got.dtype.kind == "i" else (codes / 32768).astype(np.float32)
        self.assertTrue(np.array_equal(got, want))
        c.note(f"systemd: {frames} frames at {rate} Hz through 3 restarts ({', '.join(f'{ms:.0f}' for ms in down_ms)} ms "
               f"each): 0 lost")
        # One epoch goes through all of them: its files are the convolution of the whole, and it settles once.
        self.assertEqual(journal(since=since).count("stream a goes on where the daemon before stopped"), 3)
        lives = sorted((f"{STATE}/{n}" for n in os.listdir(STATE) if n.startswith("restart-out") and n.endswith(".json")),
                       key=lambda path: c.load_json(path)["first_frame"])
        self.assertEqual(len(lives), 4)
        sidecars = [c.load_json(path) for path in lives]
        self.assertEqual(len({s["epoch"] for s in sidecars}), 1)
        got, at = np.concatenate([c.read_recording(path[:-len(".json")]) for path in lives]), 0
        for path, sidecar in zip(lives, sidecars):
            self.assertEqual(sidecar["first_frame"], at, path)
            at += sidecar["frames"]
            invalid = [(r["from"], r["until"], r["cause"]) for r in sidecar["invalid"]]
            wanted = ([(0, TAPS - 1, "settling")] if sidecar["first_frame"] == 0 else []) \
                + ([(frames, frames + TAPS - 1, "tail")] if path == lives[-1] else [])
            self.assertEqual(invalid, wanted, path)
        x = codes / 32768
        c.assert_within(got.reshape(-1, 1), c.convolve(x, np.load("/etc/convolvd/f.npy")), x, np.load("/etc/convolvd/f.npy"))

    def test_6_the_reach_of_the_buffer(self):
        run("systemctl", "start", "convolvd.socket", "convolvd")
        pid = int(show("MainPID")[0])
        # The daemon stands still while more comes than the buffer holds.
        os.kill(pid, signal.SIGSTOP)
        rig("--rate", RATE, "--seconds", 40, "--flat-out")
        os.kill(pid, signal.SIGCONT)
        time.sleep(1)
        stream = ask({"command": "status", "format": "json"})["status"]["streams"][0]
        read = stream["datagrams"]["read"]
        reach_ms = 1000 * stream["frames_in"]["received"] / RATE
        self.assertGreater(stream["datagrams"]["kernel_drops"], 0)
        c.note(f"systemd: a buffer of 16 MiB held {read} packets: {reach_ms:.0f} ms at {RATE} Hz, 16 bits")
        # Far longer than a restart takes.
        self.assertGreater(reach_ms, 2000)

    def test_7_the_sandbox_bites(self):
        os.makedirs("/usr/local/lib/bite", exist_ok=True)
        with open("/usr/local/lib/bite/bite.py", "w", encoding="utf-8") as file:
            file.write(BITE)
        drop_in("ExecStartPre=/usr/bin/python3 /usr/local/lib/bite/bite.py\n")
        since = cursor()
        run("systemctl", "start", "convolvd")
        said = dict(line.split(" ", 1) for line in journal(since=since).splitlines()
                    if line.split(" ", 1)[0] in ("usr", "etc", "home", "state", "mount", "reboot", "ptrace", "unshare",
                                                 "packet", "udp", "disk"))
        self.assertEqual((said["state"], said["udp"]), ("done", "done"), said)
        self.assertEqual(said["usr"], "Read-only file system", said)
        self.assertIn(said["etc"], ("Read-only file system", "Permission denied"))
        self.assertIn(said["home"], ("Permission denied", "No such file or directory"))
        for name in ("mount", "reboot", "ptrace", "unshare", "disk"):
            self.assertEqual(said[name], "Operation not permitted", said)
        self.assertIn(said["packet"], ("Address family not supported by protocol", "Operation not permitted"))
        with open(f"/proc/{show('MainPID')[0]}/status", encoding="utf-8") as file:
            status = dict(line.split(":\t", 1) for line in file if ":\t" in line)
        self.assertEqual(int(status["CapBnd"], 16), 0)
        self.assertEqual(int(status["CapEff"], 16), 0)
        self.assertEqual(status["NoNewPrivs"].strip(), "1")
        self.assertEqual(status["Seccomp"].strip(), "2")
        self.assertNotEqual(status["Uid"].split()[0], "0")

    def test_7a_memory_of_a_node_in_the_sandbox(self):
        with open(CONF, encoding="utf-8") as file:
            text = file.read()
        with open(CONF, "w", encoding="utf-8") as file:
            file.write(text.replace("device = cpu\n", "device = cpu\nnode = 0\n"))
        since = cursor()
        run("systemctl", "start", "convolvd")
        said = journal(since=since)
        self.assertIn("on memory node 0, its thread on processors", said)
        self.assertIn("loop 0: on memory node 0 with its device", said)
        with open(f"/proc/{show('MainPID')[0]}/numa_maps", encoding="ascii") as file:
            self.assertIn("prefer:0", {line.split()[1] for line in file}, said)

    def test_8_reload_and_stop(self):
        run("systemctl", "start", "convolvd")
        pid = show("MainPID")
        since = cursor()
        np.save("/etc/convolvd/f.npy", c.random_taps(2, TAPS))
        run("systemctl", "reload", "convolvd")  # waits until the configuration is in use
        self.assertIn("reloaded: 0 streams unchanged, 1 changed or new", journal(since=since))
        configure("[sink bad]\ntype = rtp\nstream = nobody\naddress = 127.0.0.1:6002\n")
        refused = subprocess.run(["systemctl", "reload", "convolvd"], capture_output=True, text=True, timeout=100, check=False)
        self.assertNotEqual(refused.returncode, 0, refused.stderr)
        said = journal(since=since)
        for words in ("reload refused", f"{CONF}:", "nobody", "the configuration has 1 error; the one in use stays"):
            self.assertIn(words, said)
        self.assertEqual(show("ActiveState"), ["active"])
        # Without a control socket SIGHUP does the same, and nothing waits for it.
        configure()
        run("systemctl", "stop", "convolvd-control.socket")
        since = cursor()
        run("systemctl", "reload", "convolvd")
        self.assertIn("got SIGHUP instead", journal(since=since))
        wait_for(lambda: "reloaded: " in journal(since=since), "the reload", 20)
        wait_for(lambda: show("ActiveState") == ["active"], "active again", 10)
        self.assertEqual((show("MainPID"), show("NRestarts")), (pid, ["0"]))
        rig("--rate", RATE, "--seconds", 0.2)
        self.assertIn("received 100000", run(f"{c.BUILD}/convolvd", "--status"))
        began = time.monotonic()
        run("systemctl", "stop", "convolvd")
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(show("Result", "ExecMainStatus", "ActiveState"), ["success", "0", "inactive"])
        self.assertIn("Terminated: stopping", journal(since=since))
        self.assertFalse(os.path.exists("/run/convolvd/observe.sock"))
        run("systemctl", "start", "convolvd-control.socket")

    def test_8c_check_as_service(self):
        """What the unit and its drop-ins hide from a configuration that root's own --check calls valid."""
        def check(folder, *arguments):
            os.makedirs(folder, exist_ok=True)
            configure(f"[sink r]\ntype = recording\nstream = a\npath = {folder}/x.wav\n")
            return subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", *arguments, CONF], capture_output=True, text=True, check=False)
        drop_in("")
        self.assertEqual(check("/root/recordings").returncode, 0)
        for folder, words in (("/root/recordings", "ProtectHome=yes in convolvd.service"), ("/tmp/r", "PrivateTmp=yes"),
                              ("/srv/r", "ProtectSystem=strict")):
            hidden = check(folder, "--as-service")
            self.assertEqual(hidden.returncode, 1, hidden.stderr)
            self.assertIn(words, hidden.stderr)
        drop_in("ReadWritePaths=/srv/r\n")
        closed = check("/srv/r", "--as-service")
        self.assertIn("user convolvd may not write into /srv/r", closed.stderr)
        shutil.chown("/srv/r", "convolvd")
        for folder in ("/srv/r", STATE):
            good = check(folder, "--as-service")
            self.assertEqual(good.returncode, 0, good.stderr)
        run("systemctl", "start", "convolvd.socket")
        self.assertEqual(check(STATE, "--as-service").returncode, 0)
        with open(CONF, encoding="utf-8") as file:
            text = file.read()
        with open(CONF, "w", encoding="utf-8") as file:
            file.write(text.replace(f":{PORT}\n", f":{PORT + 2}\n"))
        other = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", "--as-service", CONF], capture_output=True, text=True, check=False)
        self.assertIn(f"convolvd.socket holds 127.0.0.1:{PORT}, which no stream receives from", other.stderr)
        run("systemctl", "stop", "convolvd.socket")
        shutil.rmtree(DROPINS, ignore_errors=True)
        run("systemctl", "daemon-reload")
        configure()

    def test_8b_an_alarm_starts_a_program(self):
        """Through a file and a path unit: the daemon has no right to start anything, the program runs as a user of its
        own, what it gets is data, and no file stays."""
        os.makedirs("/etc/convolvd/alarm.d", exist_ok=True)
        with open("/etc/convolvd/alarm.d/gone", "w", encoding="utf-8") as file:
            file.write("#!/usr/bin/python3\nimport json, os, sys\nevent = json.load(sys.stdin)\n"
                       "print('handled', event['state'], os.environ['CONVOLVD_STREAM'], os.environ['CONVOLVD_QUANTITY'],\n"
                       "      os.environ['CONVOLVD_LIMIT'], os.geteuid() not in (0, os.stat('/var/lib/convolvd').st_uid))\n")
        os.chmod("/etc/convolvd/alarm.d/gone", 0o755)
        configure("[alarm gone]\nstream = a\nquantity = silence\nabove = 0.5 s\nexec = yes\n")
        run("systemctl", "enable", "--now", "convolv-alarm@gone.path")
        self.addCleanup(lambda: run("systemctl", "disable", "--now", "convolv-alarm@gone.path", check=False))
        run("systemctl", "start", "convolvd")
        rig("--rate", RATE, "--seconds", 0.3)

        def handled(state):
            return f"handled {state} a silence 0.5 True" in journal("-u", "convolv-alarm@gone")
        wait_for(lambda: handled("raised"), "the program to hear of the silence", 20)
        rig("--rate", RATE, "--seconds", 2)
        wait_for(lambda: handled("ended"), "the program to hear of its end", 20)
        wait_for(lambda: os.listdir(f"{STATE}/alarms/gone") == [], "no file", 10)
        self.assertEqual(show("Result", unit="convolv-alarm@gone.service"), ["success"])
        self.assertEqual(journal("-u", "convolv-alarm@gone").count("cannot"), 0)

    def test_8a_a_device_that_is_late(self):
        """As at a boot where the driver of the GPU is loaded minutes after the daemon has started."""
        shutil.rmtree(DROPINS, ignore_errors=True)
        run("systemctl", "daemon-reload")
        shutil.move("/etc/OpenCL/vendors", "/etc/OpenCL/late")
        since = cursor()
        try:
            run("systemctl", "start", "convolvd", check=False)
            wait_for(lambda: int(show("NRestarts")[0]) >= 7 or show("ActiveState") == ["failed"], "seven attempts", 30)
            self.assertNotEqual(show("ActiveState"), ["failed"], journal(since=since))
        finally:
            shutil.move("/etc/OpenCL/late", "/etc/OpenCL/vendors")
        wait_for(lambda: show("ActiveState") == ["active"], "a start with the device", 30)
        self.assertEqual(socket_owners(), SOCKET_OWNERS, journal(since=since))
        # What trying again does not mend is not tried again.
        run("systemctl", "stop", "convolvd")
        configure("[sink bad]\ntype = rtp\nstream = nobody\naddress = 127.0.0.1:6002\n")
        run("systemctl", "start", "convolvd", check=False)
        wait_for(lambda: show("ActiveState") == ["failed"], "the unit to fail", 20)
        self.assertEqual(show("NRestarts", "ExecMainStatus"), ["0", "78"])

    def test_8c_who_asks(self):
        """The socket units give each role its group, and the journal names the user behind a change."""
        self.assertFalse(os.path.exists("/run/convolvd"))  # as after a boot
        since = cursor()
        run("systemctl", "start", "convolvd")
        self.assertEqual(socket_owners(), SOCKET_OWNERS)
        tool = f"{c.BUILD}/convolvctl"

        def as_user(group, *words):
            return subprocess.run(["setpriv", "--reuid=nobody", f"--regid={group}", "--clear-groups", tool, *words],
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        self.assertIn("frame", run(tool, "mark", "by root"))
        self.assertEqual(as_user("convolvd-control", "mark", "by nobody").returncode, 0)
        refused = as_user("convolvd", "mark", "not allowed")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("needs the role control", refused.stderr)
        self.assertEqual(as_user("convolvd", "streams", "--names").stdout, "a\n")
        stranger = as_user("nogroup", "streams")
        self.assertEqual(stranger.returncode, 1)
        self.assertIn("Permission denied", stranger.stderr)
        wait_for(lambda: "mark: by nobody (asked by nobody (uid 65534))" in journal(since=since), "the mark of a user", 10)
        self.assertIn("mark: by root (asked by root (uid 0))", journal(since=since))
        # The sockets come back with a restart, and go with a stop.
        run("systemctl", "restart", "convolvd")
        self.assertEqual(run(tool, "streams", "--names"), "a\n")
        self.assertEqual(socket_owners(), SOCKET_OWNERS)
        run("systemctl", "stop", "convolvd")
        self.assertFalse(os.path.exists("/run/convolvd/control.sock"))

    def test_9_an_instance(self):
        configure()
        os.replace(CONF, "/etc/convolvd/two.conf")
        configure()
        with open("/etc/convolvd/two.conf", encoding="utf-8") as file:
            text = file.read().replace(f":{PORT}", ":5014").replace(":6000", ":6010").replace(STATE, STATE + "-two")
        with open("/etc/convolvd/two.conf", "w", encoding="utf-8") as file:
            file.write(text)
        run("systemctl", "start", "convolvd", "convolvd@two")
        self.addCleanup(lambda: run("systemctl", "stop", "convolvd@two", check=False))
        self.assertIn("stream a", run(f"{c.BUILD}/convolvd", "--status", "--socket", "/run/convolvd-two/observe.sock"))
        self.assertEqual(socket_owners("convolvd-two"), SOCKET_OWNERS)
        run("systemctl", "stop", "convolvd")
        self.assertEqual(show("ActiveState", unit="convolvd@two"), ["active"])

    def test_y_a_sound_card_in_the_sandbox(self):
        """The card's helper process starts, shares memory and talks to a JACK server; its priority is
        reported as it is."""
        run("systemd-run", "--unit=jackd", "--uid=convolvd", "-E", "JACK_NO_AUDIO_RESERVATION=1", "jackd", "-n", "booted", "-r",
            "-S", "-d", "dummy", "-r", "48000", "-p", "256", "-C", "2", "-P", "2")
        self.addCleanup(lambda: run("systemctl", "stop", "jackd", check=False))
        drop_in("Environment=JACK_DEFAULT_SERVER=booted\n")
        configure("[stream card]\nsource = portaudio\nhost api = jack\ncard = system\nrate = 48 kHz\nchannels = 2\n"
                  "block = 256\nfilter = f\nduplex = yes\n"
                  "[sink back]\ntype = portaudio\nstream = card\nhost api = jack\ncard = system\nduplex = yes\n"
                  "latency = 4096 frames\n")
        since = cursor()
        run("systemctl", "start", "convolvd")

        def card():
            return next(s for s in ask({"command": "status", "format": "json"})["status"]["streams"] if s["name"] == "card")
        wait_for(lambda: card()["sinks"][0]["delivered"] > 10000, "frames played")
        status = card()
        self.assertTrue(status["sound"]["running"])
        self.assertEqual(status["sound"]["counters"]["ring overrun"], 0)
        said = journal(since=since)
        self.assertIn("sound card `system` (jack): 48000 Hz, 2 in f32le, 2 out f32le", said)
        self.assertRegex(said, r"sound card's thread: period 256 frames, (real time, priority \d+|usual priority)")
        run("systemctl", "stop", "convolvd")
        self.assertEqual(show("Result", "ExecMainStatus"), ["success", "0"])
        self.assertNotIn("convolvd-sound", run("ps", "-eo", "comm"))

    def test_x_every_command_of_the_operations_page(self):
        with open(f"{c.ROOT}/docs/operations.md", encoding="utf-8") as page:
            commands = [line.strip() for line in page if line.startswith("    ")]
        self.assertGreater(len(commands), 25)
        os.makedirs("/usr/local/bin", exist_ok=True)
        for name, text in (("sudo", 'exec "$@"'), ("make", '[ "$*" = "install PREFIX=/usr" ]')):
            # root asks nobody, and what `make install` does was done before the boot.
            with open(f"/usr/local/bin/{name}", "w", encoding="utf-8") as shim:
                shim.write(f"#!/bin/sh\n{text}\n")
            os.chmod(f"/usr/local/bin/{name}", 0o755)
        shutil.rmtree(DROPINS, ignore_errors=True)
        for command in commands:
            watch = "--watch" in command
            try:
                result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False,
                                        timeout=3 if watch else 60)
            except subprocess.TimeoutExpired:
                self.assertTrue(watch, command)
                continue
            if "CHANNEL=" in command and "No entries" in result.stdout:
                continue # that channel was never overloaded
            self.assertEqual(result.returncode, 0, f"{command}\n{result.stdout}{result.stderr}\n{journal()}")
            self.assertFalse(watch, command)


def outside():
    folder = tempfile.mkdtemp()
    build = os.path.relpath(c.BUILD, c.ROOT)
    installed = subprocess.run(["make", "--no-print-directory", f"BUILD={build}", "install", f"DESTDIR={folder}/root",
                                "PREFIX=/usr"], cwd=c.ROOT, capture_output=True, text=True, check=False)
    if installed.returncode != 0:
        sys.exit(installed.stdout + installed.stderr)
    before = f"cp -a {folder}/root/. / && systemd-sysusers && systemd-tmpfiles --create convolvd.conf && " \
             f"mkdir -p /etc/systemd/system/convolvd.socket.d && printf '[Socket]\\nListenDatagram=\\n" \
             f"ListenDatagram=127.0.0.1:{PORT}\\n' >/etc/systemd/system/convolvd.socket.d/test.conf"
    result = subprocess.run([os.path.join(c.ROOT, "tests", "systemd", "boot"), "--out", folder, "--timeout", "280",
                             "--before", before, "env", f"CONVOLVD_BUILD={c.BUILD}", "PYTHONDONTWRITEBYTECODE=1",
                             "/usr/bin/python3", "-W", "ignore", os.path.abspath(__file__), "--inside", *sys.argv[1:]],
                            check=False)
    shutil.rmtree(folder, ignore_errors=True)
    sys.exit(result.returncode)


if __name__ == "__main__":
    if "--inside" in sys.argv:
        sys.argv.remove("--inside")
        unittest.main(verbosity=2)
    outside()
