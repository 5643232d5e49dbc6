"""What the end-to-end tests share: the daemon as a child, its table and JSON, ports, recordings.

    with Daemon(CONFIG) as daemon:        # waits until it runs
        …send…
        status = daemon.stop()            # SIGTERM; the last JSON status

The build under test is $CONVOLVD_BUILD (build/gcc by default). A child's log and table are
printed when its test fails.
"""
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("CONVOLVD_BUILD", os.path.join(ROOT, "build", "gcc")))
SANITIZED = bool(os.environ.get("CONVOLVD_SANITIZED"))
# Compilers and sanitizers take their time; only waiting is stretched, never a result.
PATIENCE_S = 240 if SANITIZED else 60
DEVICE = os.environ.get("CONVOLVD_TEST_DEVICE", "cpu")


def program(name):
    return os.path.join(BUILD, name)


def run(name, *arguments, **options):
    """Runs one of our programs to its end: (exit status, stdout, stderr)."""
    result = subprocess.run([program(name), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                            timeout=PATIENCE_S, check=False, **options)
    return result.returncode, result.stdout.decode(), result.stderr.decode()


def free_ports(count=1, family=socket.AF_INET, host="127.0.0.1"):
    """UDP ports that nobody uses just now."""
    sockets = [socket.socket(family, socket.SOCK_DGRAM) for _ in range(count)]
    try:
        for one in sockets:
            one.bind((host, 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def wait_for(condition, what, seconds=None):
    limit = time.monotonic() + (seconds or PATIENCE_S)
    while time.monotonic() < limit:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited in vain for {what}")


class Daemon:
    """convolvd as a child. `config` is the text of its configuration; a [device] section is added
    when it has none, so that tests run on the device under test."""

    def __init__(self, config, *arguments, folder=None, wait=True, env=None):
        self.folder = folder or tempfile.mkdtemp(prefix="daemon-")
        self.config_path = os.path.join(self.folder, "test.conf")
        self.json_path = os.path.join(self.folder, "status.json")
        if "[device]" not in config:
            config = f"[device]\ndevice = {DEVICE}\n" + config
        with open(self.config_path, "w", encoding="utf-8") as file:
            file.write(config)
        self.process = subprocess.Popen(
            [program("convolvd"), "--config", self.config_path, "--status-json", self.json_path, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.folder,
            env={**os.environ, **(env or {})})
        self._table, self._log = [], []
        self._readers = [self._read(self.process.stdout, self._table), self._read(self.process.stderr, self._log)]
        if wait:
            self.wait_running()

    @staticmethod
    def _read(pipe, lines):
        thread = threading.Thread(target=lambda: lines.extend(iter(pipe.readline, b"")), daemon=True)
        thread.start()
        return thread

    # extend() on an iterator appends line by line, so both can be read while the daemon runs.
    @property
    def table(self):
        return b"".join(self._table).decode("utf-8", "replace")

    @property
    def log(self):
        return b"".join(self._log).decode("utf-8", "replace")

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.kill()
        self._finish()
        if kind is not None:
            print(f"--- log of the daemon\n{self.log}--- its table\n{self.table}", file=sys.stderr)

    def _finish(self):
        status = self.process.wait(PATIENCE_S)
        for reader in self._readers:
            reader.join(PATIENCE_S)
        self.process.stdout.close()
        self.process.stderr.close()
        return status

    def wait_running(self):
        def state():
            if self.process.poll() is not None:
                raise AssertionError(f"the daemon left with {self._finish()}:\n{self.log}")
            return "running: " in self.log
        wait_for(state, "the daemon to run")

    def signal(self, number):
        self.process.send_signal(number)

    def read_status(self):
        with open(self.json_path, encoding="utf-8") as file:
            return json.load(file)

    def status(self):
        """SIGUSR1: the status at this instant."""
        before = os.stat(self.json_path).st_mtime_ns if os.path.exists(self.json_path) else 0
        self.signal(signal.SIGUSR1)
        wait_for(lambda: os.path.exists(self.json_path) and os.stat(self.json_path).st_mtime_ns != before,
                 "the status file")
        return self.read_status()

    def wait_end(self):
        """Waits until it leaves by itself: its exit status."""
        return self._finish()

    def stop(self):
        """SIGTERM; asserts exit status 0 and returns the last status."""
        self.signal(signal.SIGTERM)
        status = self._finish()
        assert status == 0, f"exit status {status}\n{self.log}"
        return self.read_status()


def stream_of(status, name):
    return next(stream for stream in status["streams"] if stream["name"] == name)


def sink_of(status, name):
    return next(sink for stream in status["streams"] for sink in stream["sinks"] if sink["name"] == name)


def assert_ledgers(status):
    """The three ledgers of every stream, and that of every sink, hold exactly."""
    for stream in status["streams"]:
        name = stream["name"]
        if "datagrams" in stream:
            ledger = stream["datagrams"]
            total = ledger["accepted"] + ledger["held"] + sum(ledger["rejected"].values())
            assert ledger["read"] == total, f"{name}: datagrams {ledger}"
        ledger = stream["frames_in"]
        total = ledger["received"] + ledger["awaited"] + sum(ledger["gap"].values())
        assert ledger["timeline"] == total, f"{name}: frames in {ledger}"
        ledger = stream["frames_out"]
        total = ledger["out"] + ledger["waiting"] + ledger["submitted"] + sum(ledger["shed"].values())
        assert ledger["timeline"] == total, f"{name}: frames out {ledger}"
        for sink in stream["sinks"]:
            total = sink["delivered"] + sink["pending"] + sum(sink["dropped"].values())
            assert sink["frames"] == total, f"{name}: sink {sink}"


def read_recording(path):
    """Samples of a WAV or RF64 file, [frames][channels]: floats as they are, integers as codes."""
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


def assert_within_bound(got, want, x, response_peak):
    """The design's error bound: got float32, want and the input x in double."""
    got = np.asarray(got, np.float64)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    assert np.isfinite(got).all(), "a result is not finite"
    error = np.abs(got - want)
    limit2 = 1e-6 * max(np.linalg.norm(want), response_peak * np.linalg.norm(x))
    limit_max = 5e-6 * max(np.abs(want).max(), response_peak * np.abs(x).max())
    assert np.linalg.norm(error) <= limit2, f"error {np.linalg.norm(error):.3g}, allowed {limit2:.3g}"
    assert error.max() <= limit_max, f"largest error {error.max():.3g}, allowed {limit_max:.3g}"


def response_peak(taps):
    """max |H| on a dense grid."""
    return np.abs(np.fft.fft(taps, 8 * max(64, 1 << (len(taps) - 1).bit_length()))).max()
