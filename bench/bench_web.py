#!/usr/bin/python3
"""What four viewers of the live page cost: CPU time of the daemon's loop and of convolv-web, watched and not
watched in alternating pairs.

    bench/bench_web.py [--build build/gcc] [--channels 64] [--rate 1e6] [--pairs 8] [--seconds 5]

A generator feeds one stream. A viewer wants what the page shows at most: the envelope of all channels of both
sides, a scope of four channels before and after the filter, and a spectrum. Prints a line a pair and the medians,
as shares of a core; `skipped` says whether the daemon's own limit took effect (then the cost is that limit).
"""
import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import websockets

CONFIG = """[device]
device = {device}
[daemon]
runtime directory = {folder}
[stream wide]
source = generator
rate = {rate} Hz
channels = {channels}
format = s16le
waveform = sine
frequency = {frequency} Hz
amplitude = 500 mV
full scale = 1 V
block = {block} frames
filter = pass
[filter pass]
type = lowpass
high = {high} Hz
transition = {transition} Hz
"""


def cpu_s(path):
    """User and system time of a process or thread."""
    with open(path, encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def view(port, until, counts):
    async with websockets.connect(f"ws://127.0.0.1:{port}/api/v1/live", subprotocols=["convolv.v1"], max_size=None) as live:
        wants = [dict(view="envelope", side=side, seconds=10, points=600) for side in ("input", "output")]
        wants += [dict(view="scope", side=side, channels=[1, 2, 3, 4], frames=2000) for side in ("input", "output")]
        wants += [dict(view="spectrum", side="output", channels=[1], fft=4096, average=16)]
        for number, want in enumerate(wants, 1):
            await live.send(json.dumps({"type": "want", "id": number, "stream": "wide", **want}))
        while time.monotonic() < until:
            try:
                message = await asyncio.wait_for(live.recv(), 1)
            except asyncio.TimeoutError:
                continue
            counts["pictures"] += isinstance(message, bytes)
            counts["shed"] = max(counts["shed"], json.loads(message)["pictures"]) \
                if isinstance(message, str) and '"shed"' in message[:20] else counts["shed"]


async def watch(port, seconds, counts):
    await asyncio.gather(*(view(port, time.monotonic() + seconds, counts) for _ in range(4)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build/gcc")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--channels", type=int, default=64)
    parser.add_argument("--rate", type=float, default=1e6)
    parser.add_argument("--block", type=int, default=4096)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "wide.conf")
        with open(path, "w", encoding="ascii") as file:
            file.write(CONFIG.format(folder=folder, frequency=arguments.rate / 50, high=arguments.rate / 8,
                                     transition=arguments.rate / 16, **vars(arguments)))
        daemon = subprocess.Popen([os.path.join(arguments.build, "convolvd"), path], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        web = subprocess.Popen([os.path.join(arguments.build, "convolv-web"), "--directory", folder, "--listen",
                                "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            port = int(re.search(r":(\d+)/", web.stdout.readline()).group(1))
            time.sleep(15)
            measure(arguments, daemon.pid, web.pid, port)
        finally:
            web.kill()
            daemon.kill()
            daemon.wait()
            web.wait()


def measure(arguments, daemon, web, port):
    loop, whole = f"/proc/{daemon}/task/{daemon}/stat", f"/proc/{web}/stat"
    differences, costs, quiet = [], [], []
    print("pair  loop alone  loop watched  difference  convolv-web  (% of a core)")
    for pair in range(arguments.pairs):
        shares = {}
        for watched in (False, True) if pair % 2 == 0 else (True, False):
            counts = {"pictures": 0, "shed": 0}
            before, web_before, began = cpu_s(loop), cpu_s(whole), time.monotonic()
            if watched:
                asyncio.run(watch(port, arguments.seconds, counts))
            else:
                time.sleep(arguments.seconds)
            passed = time.monotonic() - began
            shares[watched] = 100 * (cpu_s(loop) - before) / passed
            if watched:
                costs.append(100 * (cpu_s(whole) - web_before) / passed)
            time.sleep(0.5)
        differences.append(shares[True] - shares[False])
        quiet.append(shares[False])
        print(f"{pair:4}  {shares[False]:10.2f}  {shares[True]:12.2f}  {differences[-1]:10.2f}  {costs[-1]:11.2f}"
              f"  {counts['pictures'] if watched else ''}", flush=True)
    print(f"median: loop alone {statistics.median(quiet):.2f} %, watched {statistics.median(differences):+.2f} %, "
          f"convolv-web {statistics.median(costs):.2f} %")


if __name__ == "__main__":
    sys.exit(main())
