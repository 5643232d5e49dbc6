#!/usr/bin/python3
"""The rates that the Python package keeps up with, and what they cost.

    results   another process sends packets as the daemon's sink builds them (32-bit floats, Ethernet size); this one
              iterates over `results` and reads every sample, straight from RTP and through convolv-tap --pipe
    send      `Stream` sends arrays as fast as it can to a socket that nobody reads

The rate of `results` doubles until packets are lost here. Costs are CPU times, so that other programs of the machine
matter less than in a rate: of this program by the packet and in shares of a core, and of the tap.

    bench/bench_python.py [--seconds S] [--out CSV]
"""
import argparse
import multiprocessing
import os
import platform
import socket
import struct
import sys
import time

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tests", "e2e"), os.path.join(ROOT, "clients", "python")]
import convolv  # noqa: E402
import convolvd as c  # noqa: E402
from rows import append  # noqa: E402

TAP = os.path.join(c.BUILD, "convolv-tap")
RATES = {1: [500e3 * 2**n for n in range(8)], 8: [125e3 * 2**n for n in range(8)]}
HEADER = struct.Struct(">BBHIIHHBQB4IBBBHIIIBQIIBHHBH")
MTU_PAYLOAD, GROUP = 1472, 32
TICK_S = 0.001


def urgent():
    """Before other programs of the machine, where that is granted."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -10)
    except OSError:
        pass


def cpu_of(pid):
    """CPU seconds of a process so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        user, system = file.read().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def replay(port, channels, rate_hz, seconds):
    """Sends result packets at a rate: groups of them that the kernel cuts, every millisecond what is due."""
    frames = (MTU_PAYLOAD - HEADER.size) // (4 * channels)
    packets = 1 << 16  # then the sequence numbers begin again, and the frames with them
    size = HEADER.size + 4 * frames * channels
    rows = np.zeros((packets, size), np.uint8)
    now_ns = time.time_ns()
    for n in range(packets):
        ntp = (2208988800 << 32) + (now_ns + round(n * frames * 1e9 / rate_hz) << 32) // 10**9
        HEADER.pack_into(rows[n].data, 0, 0x90, 96, n, n * frames & 0xFFFFFFFF, 9, 0xBEDE, 17, 0x17, ntp, 0x2F, 1, 2, 3, 4, 0x3F, 0,
                         0, 0, 1000, 5, 0, 0x4F, n * frames, 0, 30, 0x53, 0, 0, 0x61, 1)
    flat = rows.reshape(-1).data
    control = [(socket.IPPROTO_UDP, 103, struct.pack("=H", size))]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect(("127.0.0.1", port))
        begin, sent, end = time.monotonic(), 0, packets // GROUP * GROUP
        while (now := time.monotonic()) < begin + seconds and sent < end:
            due = min(end, int((now - begin) * rate_hz / frames))
            while sent + GROUP <= due:
                out.sendmsg([flat[sent * size:(sent + GROUP) * size]], control)
                sent += GROUP
            time.sleep(TICK_S)


def receive(channels, rate_hz, tap, seconds):
    """One row: what came, and what it cost."""
    port = c.free_port()
    with convolv.results(f"udp://127.0.0.1:{port}", channels=channels, rate_hz=rate_hz, tap=TAP if tap else False,
                         timeout=0.5) as results:
        sender = multiprocessing.get_context("fork").Process(target=replay, args=(port, channels, rate_hz, seconds))
        sender.start()
        block, total = results.next(30), 0.0
        begin = last = time.monotonic()
        other = cpu_of(results._process.pid) if tap else 0.0
        own = time.process_time()
        while block is not None:
            total += float(block.samples[0, 0])
            last = time.monotonic()
            block = results.next(0.5)
        own = time.process_time() - own
        other = (cpu_of(results._process.pid) if tap else 0.0) - other
        sender.join()
        ledger = results.ledger
    elapsed = last - begin
    return {"what": "results through convolv-tap" if tap else "results from RTP", "channels": channels, "rate_hz": rate_hz,
            "sent_rate_hz": (ledger.frames + ledger.frames_lost) / elapsed, "packets_per_s": ledger.accepted / elapsed,
            "samples_per_s": ledger.frames * channels / elapsed, "lost_packets": ledger.lost, "cpu": own / elapsed,
            "tap_cpu": other / elapsed, "us_per_packet": own / max(1, ledger.accepted) * 1e6}


def send(channels, form, seconds, **options):
    """One row: arrays of 64 Ki frames, as fast as they go."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sink:
        sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sink.bind(("127.0.0.1", 0))
        values = np.random.default_rng(1).normal(0, 0.2, (1 << 16, channels))
        with convolv.Stream(f"udp://127.0.0.1:{sink.getsockname()[1]}", rate_hz=1e6, channels=channels, format=form,
                            pace=False, **options) as stream:
            begin, own = time.monotonic(), time.process_time()
            while time.monotonic() - begin < seconds:
                stream.send(values)
            elapsed, own = time.monotonic() - begin, time.process_time() - own
            sent = stream.ledger
            name = f"send {form}" + (", segment" if options.get("segment") else "") + (", key" if options.get("key") else "")
            return {"what": name, "channels": channels, "rate_hz": sent.frames / elapsed,
                    "sent_rate_hz": sent.frames / elapsed, "packets_per_s": sent.datagrams / elapsed,
                    "samples_per_s": sent.frames * channels / elapsed, "lost_packets": 0, "cpu": own / elapsed,
                    "tap_cpu": 0.0, "us_per_packet": own / sent.datagrams * 1e6}


def show(row):
    print(f"{row['what']:28} {row['channels']} ch {row['rate_hz'] / 1e6:7.3f} MHz {row['packets_per_s']:8.0f} packets/s "
          f"{row['samples_per_s'] / 1e6:7.2f} MS/s {row['us_per_packet']:6.2f} us/packet  CPU {100 * row['cpu']:5.1f} %"
          + (f"  tap {100 * row['tap_cpu']:4.1f} %" if row["tap_cpu"] else "")
          + (f"  lost {row['lost_packets']}" if row["lost_packets"] else ""), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--out", help="CSV to append to")
    arguments = parser.parse_args()
    urgent()
    rows = []
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
          f"numpy {np.__version__}")
    for channels, form, options in ((1, "L16", {}), (8, "L16", {}), (8, "f32be", {}), (8, "L16", {"segment": True}),
                                    (8, "L16", {"key": bytes(32)})):
        rows.append(send(channels, form, min(2.0, arguments.seconds), **options))
        show(rows[-1])
    for tap in (False, True):
        for channels, rates in RATES.items():
            for rate_hz in rates:
                rows.append(receive(channels, rate_hz, tap, arguments.seconds))
                show(rows[-1])
                if rows[-1]["lost_packets"] or rows[-1]["sent_rate_hz"] < 0.9 * rate_hz:
                    break
    if arguments.out:
        append(arguments.out, rows, list(rows[0]))


if __name__ == "__main__":
    main()
