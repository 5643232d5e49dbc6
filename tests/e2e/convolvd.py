"""Drives the built programs for the tests: a daemon on loopback, a rig that sends to it, a tap
that receives from it, and the arithmetic their results are held against.

Nothing here aligns, scales or searches: frame n of a result is compared with frame n of the
definition y[n] = sum h[k] x[n-k], under the error bound of the design. The three ledgers are
checked as identities whenever a status is read.

The build under test is $CONVOLVD_BUILD (default build/gcc).
"""
import atexit
import json
import os
import random
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import wave

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("CONVOLVD_BUILD", os.path.join(ROOT, "build", "gcc")))
SANITIZED = bool(os.environ.get("CONVOLVD_SANITIZED"))
PATIENCE_S = 120 if SANITIZED else 30
SO_RCVBUFFORCE = 33  # linux/include/uapi/asm-generic/socket.h; Python has no name for it
# Runs every stream of a test on one of so many loops (`loops` in [device]).
LOOPS = os.environ.get("CONVOLVD_TEST_LOOPS")
DEVICE = os.environ.get("CONVOLVD_TEST_DEVICE", "cpu")

_ports_given = set()
# Share N of M of the ports, so that tests side by side take none from each other.
_ports_given_share = tuple(map(int, os.environ.get("CONVOLVD_TEST_PORTS", "0/1").split("/")))
_ports_share = _ports_given_share
_notes = []


def note(text):
    """A figure worth seeing: printed after the tests' own lines."""
    if not _notes:
        atexit.register(lambda: print("\n".join(_notes), flush=True))
    _notes.append(text)


def share_ports(number, count):
    """For process `number` of `count` that one test runs side by side: each gets ports of its own."""
    global _ports_share
    own, tests = _ports_given_share
    _ports_share = (own + tests * number, tests * count)


def free_port(kind=socket.SOCK_DGRAM):
    """A port, of UDP unless told otherwise, that nobody is bound to, even (RTP) and never given twice. From below
    the range out of which the kernel gives ports to senders: one of those could take it before its test does."""
    number, count = _ports_share
    while True:
        port = 2 * random.SystemRandom().randrange(5500 + number, 16000, count)
        if port in _ports_given:
            continue
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _ports_given.add(port)
        return port


def temporary():
    return tempfile.TemporaryDirectory(prefix="convolvd-e2e-")


def children(pid):
    """Process ids of the children of a process, whichever of its threads started them."""
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found += [int(child) for child in file.read().split()]
    return found


def wait_for(condition, what, seconds=None, pause_s=0.02):
    deadline = time.monotonic() + (seconds or PATIENCE_S)
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain for {what}")
        time.sleep(pause_s)


# ---- the definition ---------------------------------------------------------------------------

def convolve(x, h):
    """Linear convolution in double, x of shape (frames, channels), h of shape (taps,) or one
    column per channel; frames + taps - 1 frames come out."""
    x = np.asarray(x, dtype=np.float64)
    h = np.asarray(h)
    h = h.reshape(len(h), -1)
    columns = []
    for c in range(x.shape[1]):
        taps = h[:, c if h.shape[1] > 1 else 0]
        if len(taps) * len(x) <= 1 << 24:
            columns.append(np.convolve(x[:, c], taps))
        else:
            n = 1 << (len(x) + len(taps) - 2).bit_length()
            y = np.fft.ifft(np.fft.fft(x[:, c], n) * np.fft.fft(taps, n))[:len(x) + len(taps) - 1]
            columns.append(y if np.iscomplexobj(taps) else y.real)
    return np.stack(columns, axis=1)


def peak_response(h):
    """max |H(f)| on a dense grid, over all columns."""
    h = np.asarray(h)
    h = h.reshape(len(h), -1)
    return float(np.abs(np.fft.fft(h, 8 * max(64, len(h)), axis=0)).max())


def bound(want, x, h, lsb=0.0):
    """The design's bound on (||e||_2, max|e|); lsb of an integer output in physical units."""
    gain = peak_response(h)
    norm = 1e-6 * max(np.linalg.norm(want), gain * np.linalg.norm(x)) + lsb / 2 * np.sqrt(want.size)
    peak = 5e-6 * max(np.abs(want).max(initial=0), gain * np.abs(x).max(initial=0)) + lsb / 2
    return norm, peak


def assert_within(got, want, x, h, lsb=0.0, what="result"):
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    assert not np.isnan(got).any(), f"{what}: {np.isnan(got).any(axis=1).sum()} frames never came"
    limit2, limit_max = bound(want, x, h, lsb)
    error = got - want
    e2, e_max = float(np.linalg.norm(error)), float(np.abs(error).max(initial=0))
    worst = np.unravel_index(int(np.abs(error).argmax()), error.shape) if error.size else None
    assert e2 <= limit2 and e_max <= limit_max, (
        f"{what}: ||e||2 {e2:.3g} (allowed {limit2:.3g}), max|e| {e_max:.3g} at {worst} (allowed {limit_max:.3g})")
    return e2, e_max


def runs(mask):
    """[from, until) runs of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], np.asarray(mask, dtype=np.int8), [0]))))
    return [(int(a), int(b)) for a, b in zip(edges[::2], edges[1::2])]


# ---- files ------------------------------------------------------------------------------------

def write_wav16(path, rate, codes):
    """Codes of shape (frames, channels), int16."""
    with wave.open(path, "wb") as out:
        out.setnchannels(codes.shape[1])
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(codes.astype("<i2").tobytes())


def noise_codes(seed, frames, channels, amplitude=0.25):
    random = np.random.default_rng(seed)
    return np.clip(np.round(random.normal(0, amplitude * 32768, (frames, channels))), -32768, 32767).astype(np.int16)


def random_taps(seed, count, complex_taps=False):
    random = np.random.default_rng(seed)
    h = random.normal(0, 1, count)
    if complex_taps:
        h = h + 1j * random.normal(0, 1, count)
    return h / np.abs(h).sum()


def read_recording(path):
    """Samples of a WAV or RF64 file, [frames][channels]: floats as they are, integers as codes. By the
    container's definition alone."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:4] in (b"RIFF", b"RF64") and data[8:12] == b"WAVE", f"{path}: no WAV"
    at, kind, channels, bits, long_data = 12, None, 0, 0, 0
    while at + 8 <= len(data):
        tag, size = data[at:at + 4], struct.unpack_from("<I", data, at + 4)[0]
        if tag == b"ds64":
            long_data = struct.unpack_from("<Q", data, at + 16)[0]
        elif tag == b"fmt ":
            kind, channels, _, _, _, bits = struct.unpack_from("<HHIIHH", data, at + 8)
            if kind == 0xFFFE:
                kind = struct.unpack_from("<H", data, at + 32)[0]
        elif tag == b"data":
            size = long_data if size == 0xFFFFFFFF else size
            body = np.frombuffer(data, np.uint8, min(size, len(data) - at - 8), at + 8)
            break
        at += 8 + size + size % 2
    else:
        raise AssertionError(f"{path}: no data chunk")
    width = bits // 8
    body = body[:len(body) // (width * channels) * width * channels]
    if kind == 3:
        samples = body.view(f"<f{width}")
    elif width == 3:
        wide = np.zeros((len(body) // 3, 4), np.uint8)
        wide[:, 1:] = body.reshape(-1, 3)
        samples = wide.view("<i4")[:, 0] >> 8
    else:
        samples = body.view({1: "u1", 2: "<i2", 4: "<i4"}[width])
    return samples.reshape(-1, channels)


# Stages of convolvd-test that a signal stops for ever (tests/seams/wedge.c).
WEDGES = {"loop": signal.SIGRTMIN + 1, "device": signal.SIGRTMIN + 2, "writer": signal.SIGRTMIN + 3,
          "reader": signal.SIGRTMIN + 4, "prepare": signal.SIGRTMIN + 5, "close": signal.SIGRTMIN + 6,
          "plan": signal.SIGRTMIN + 8, "filters": signal.SIGRTMIN + 10, "free": signal.SIGRTMIN + 12,
          "filter": signal.SIGRTMIN + 13, "state": signal.SIGRTMIN + 14}
UNWEDGE = signal.SIGRTMIN + 11  # those that hang in plan, filters, free, filter or state go on
NO_THREADS = signal.SIGRTMIN + 9  # no thread can be created until the next one (tests/seams/threads.c)


def load_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


# ---- sections of a configuration ----------------------------------------------------------------

def file_filter(name, path, delay="0 frames"):
    return f"[filter {name}]\ntype = file\npath = {path}\ndelay = {delay}\n"


def taps_file(folder, name, taps, delay="0 frames"):
    """Writes the taps; returns their filter's section."""
    path = os.path.join(folder, f"{name}.npy")
    np.save(path, taps)
    return file_filter(name, path, delay)


def rtp_sink(name, stream, port, keys=""):
    return f"[sink {name}]\ntype = rtp\nstream = {stream}\naddress = 127.0.0.1:{port}\n{keys}\n"


# ---- programs ---------------------------------------------------------------------------------

def chosen_priority():
    """Before a program starts: a priority that convolv-web keeps. At the idle one that it takes by itself it gets
    nothing beside tests that use every core."""
    os.nice(1)


class Process:
    """A program with its output collected line by line."""

    def __init__(self, name, arguments, environment=None, before=None, descriptors=()):
        self.name = name
        self.lines = []
        self.process = subprocess.Popen([os.path.join(BUILD, name), *map(str, arguments)], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        env={**os.environ, **(environment or {})}, preexec_fn=before,
                                        pass_fds=descriptors)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))

    def output(self):
        return "\n".join(self.lines)

    def said(self, text):
        return any(text in line for line in list(self.lines))

    def wait_said(self, text, seconds=None):
        def condition():
            if self.said(text):
                return True
            if self.process.poll() is not None:
                self.reader.join(5)
                if self.said(text):
                    return True
                raise AssertionError(f"{self.name} ended with {self.process.returncode} before '{text}'")
            return False
        try:
            wait_for(condition, f"'{text}' from {self.name}", seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.output()}") from None

    def wait(self, seconds=None):
        try:
            code = self.process.wait(seconds or PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end:\n{self.output()}") from None
        self.reader.join(5)
        return code

    def signal(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(5)
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


def check_ledgers(status):
    """The identities of the three ledgers, of every stream at one instant."""
    for stream in status["streams"]:
        name = stream["name"]
        datagrams = stream.get("datagrams")
        if datagrams is not None:
            assert datagrams["read"] == datagrams["accepted"] + datagrams["held"] + sum(datagrams["rejected"].values()), \
                f"{name}: datagrams do not add up: {datagrams}"
        inward = stream["frames_in"]
        assert inward["timeline"] == inward["received"] + inward["awaited"] + sum(inward["gap"].values()), \
            f"{name}: frames in do not add up: {inward}"
        packets = inward["in_packets"]
        assert packets["frames"] == inward["received"] + packets["overlap"] + packets["late"], \
            f"{name}: frames in packets do not add up: {inward}"
        outward = stream["frames_out"]
        assert outward["timeline"] == (outward["out"] + outward["waiting"] + outward["submitted"]
                                       + sum(outward["shed"].values())), f"{name}: frames out do not add up: {outward}"
        for sink in stream["sinks"]:
            assert sink["frames"] == sink["delivered"] + sink["pending"] + sum(sink["dropped"].values()), \
                f"{name}: sink {sink['name']} does not add up: {sink}"
            # Beside a log of a partition it gets the frames of its daemon's terms.
            of_terms = any(other["type"] == "nats" and other["partition"]["log"] == "log" for other in stream["sinks"])
            if sink["type"] == "rtp":
                assert sink["frames"] == outward["out"] or of_terms and sink["frames"] < outward["out"], \
                    f"{name}: out and put differ: {outward} {sink}"
    return status


class Daemon(Process):
    """convolvd with a configuration; ready when the constructor returns. `program`: convolvd-test where a
    test needs one of the faults of tests/seams/; `environment`: more of it; `descriptors`: open in it too."""

    def __init__(self, folder, config, *arguments, wait=True, program="convolvd", environment=None,
                 before=None, descriptors=()):
        self.path = os.path.join(folder, "convolvd.conf")
        self.status_path = os.path.join(folder, "status.json")
        if "[device]" not in config:
            config = f"[device]\ndevice = {DEVICE}\n\n{config}"
        if LOOPS is not None and "loops =" not in config:
            config = config.replace("[device]\n", f"[device]\nloops = {LOOPS}\n", 1)
        with open(self.path, "w", encoding="utf-8") as file:
            file.write(config)
        super().__init__(program, ["--config", self.path, "--status-json", self.status_path, *arguments],
                         {"RUNTIME_DIRECTORY": folder, **(environment or {})}, before, descriptors)
        if wait:
            try:
                self.wait_said("running:", 4 * PATIENCE_S)
            except AssertionError:
                self.kill()
                raise

    def status(self):
        """The status now, its ledgers checked."""
        try:
            before = os.stat(self.status_path).st_ino
        except FileNotFoundError:
            before = None

        def written():
            assert self.process.poll() is None, f"convolvd ended:\n{self.output()}"
            try:
                return os.stat(self.status_path).st_ino != before
            except FileNotFoundError:
                return False
        # Keep the old file's inode in use: a new one must differ.
        keep = open(self.status_path, encoding="utf-8") if before is not None else None
        try:
            self.signal(signal.SIGUSR1)
            try:
                wait_for(written, "the status file")
            except AssertionError as error:
                raise AssertionError(f"{error}\n{self.output()}") from None
        finally:
            if keep is not None:
                keep.close()
        return check_ledgers(load_json(self.status_path))

    def stream(self, name=None):
        streams = self.status()["streams"]
        return next(s for s in streams if name is None or s["name"] == name)

    def stop(self, number=signal.SIGTERM, code=0):
        """Drains; returns the last status, its ledgers checked. `code`: 3 where something is cut off."""
        self.signal(number)
        got = self.wait()
        assert got == code, f"convolvd ended with {got}:\n{self.output()}"
        return check_ledgers(load_json(self.status_path))


class Tap(Process):
    """convolv-tap; listens when the constructor returns."""

    def __init__(self, folder, port, *arguments, channels=1, rate=48000, name="tap", write=True):
        self.ledger_path = os.path.join(folder, f"{name}.json")
        self.npy_path = os.path.join(folder, f"{name}.npy")
        extra = ["--write", self.npy_path] if write else []
        super().__init__("convolv-tap", ["--listen", f"127.0.0.1:{port}", "--channels", channels, "--rate", rate,
                                         "--ledger", self.ledger_path, *extra, *arguments])
        try:
            self.wait_said("listening")
        except AssertionError:
            self.kill()
            raise

    def finish(self, code=0, number=None):
        """Waits for its end (or asks for it), checks the exit status, returns the ledger."""
        if number is not None:
            self.signal(number)
        got = self.wait()
        assert code is None or got == code, f"convolv-tap ended with {got}:\n{self.output()}"
        ledger = load_json(self.ledger_path)
        assert ledger["datagrams"] == ledger["accepted"] + ledger["heartbeats"] + sum(ledger["rejected"].values())
        return ledger

    def frames(self, epoch=0, first_epoch=0):
        """What came of an epoch, (frames, channels); frames that never came are NaN."""
        path = self.npy_path if epoch == first_epoch else self.npy_path.replace(".npy", f"-epoch{epoch}.npy")
        return np.load(path)


def header_elements(packet):
    """An RTP packet's header extension, elements with one-byte headers (RFC 8285), by number; and where its payload begins."""
    at, end, elements = 16, 16 + 4 * struct.unpack_from(">xxH", packet, 12)[0], {}
    while at < end and packet[at] != 0:
        number, size = packet[at] >> 4, (packet[at] & 15) + 1
        elements[number] = packet[at + 1:at + 1 + size]
        at += 1 + size
    return elements, end


def make_receive_buffer(receiver, size=4 << 20):
    """A socket's, so that nothing is lost in front of a test that a busy machine holds up; only root goes beyond
    net.core.rmem_max, which is 208 KiB by default."""
    try:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, size)
    except PermissionError:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


class Results(threading.Thread):
    """Every packet that an RTP sink sends to a port: (sequence, time stamp, SSRC, epoch, first frame, frames, causes,
    (invalid from, until), payload)."""

    def __init__(self, port, frame_bytes=4):
        super().__init__(daemon=True)
        self.packets = []
        self.senders = set()  # where they come from
        self.frame_bytes = frame_bytes
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        make_receive_buffer(self.socket)
        self.socket.bind(("127.0.0.1", port))
        self.socket.settimeout(0.2)
        self.ends = False
        self.start()

    def run(self):
        while not self.ends:
            try:
                packet, sender = self.socket.recvfrom(65536)
            except socket.timeout:
                continue
            self.senders.add(sender)
            elements, end = header_elements(packet)
            causes, epoch = struct.unpack(">xxH8xI", elements[3])
            first = struct.unpack_from(">Q", elements[4])[0]
            self.packets.append((*struct.unpack_from(">xxHII", packet), epoch, first, (len(packet) - end) // self.frame_bytes,
                                 causes, struct.unpack(">HH", elements[5]), packet[end:]))

    def finish(self):
        """Those with frames."""
        self.ends = True
        self.join()
        self.socket.close()
        return [p for p in self.packets if p[5] > 0]


def rig(folder, port, *arguments, name="rig", code=0):
    """Runs convolv-rig to its end; returns the ledger of its (only) rig."""
    ledger_path = os.path.join(folder, f"{name}.json")
    result = subprocess.run([os.path.join(BUILD, "convolv-rig"), "--to", f"127.0.0.1:{port}", "--ledger", ledger_path,
                             *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=4 * PATIENCE_S, check=False)
    assert result.returncode == code, f"convolv-rig ended with {result.returncode}:\n{result.stdout}{result.stderr}"
    ledger = load_json(ledger_path)["rigs"][0]
    assert ledger["datagrams_built"] == ledger["datagrams_gone"] + ledger["datagrams_dropped"]
    assert ledger["failed"] == 0
    return ledger


def flagged(ledger, epoch, frames):
    """Mask of the frames of an epoch that lie in an invalid range of the tap's ledger."""
    mask = np.zeros(frames, dtype=bool)
    for piece in ledger["invalid"]:
        if piece["epoch"] == epoch:
            mask[piece["from"]:piece["until"]] = True
    return mask


def levels():
    """The rows of tests/support/levels.txt, which every parser of levels takes: (text, unit, full scale, amplitude or None)."""
    rows = []
    with open(os.path.join(ROOT, "tests", "support", "levels.txt"), encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                text, unit, full_scale, want = (part.strip() for part in line.rstrip("\n").split("|"))
                rows.append((text, unit, float(full_scale), None if want.startswith("!") else float(want)))
    return rows
