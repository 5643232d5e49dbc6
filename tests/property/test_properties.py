#!/usr/bin/python3
# timeout: 300
# parallel: yes
# takes: 8 s CPU in 9 s
# long: also, each property is explored for 25 s instead of 6
"""Hypothesis drives the real daemon: random formats, channels, blocks, filters, packet sizes, loss,
doubling and reordering, decimation. For each example the definition is held against every frame that came, by
frame number, and the ledgers against the rig's and the tap's own counts.

Loss on the way into the daemon is accounted for, never assumed away: only where the sender is
paced by the results (--credit) must nothing at all be missing.

The seed is fixed and printed; CONVOLVD_PROPERTY_SEED changes it, CONVOLVD_PROPERTY_SECONDS the time
each property may take (default 6, in `make check-long` 25), CONVOLVD_PROPERTY_SHRINK=1 looks for a smaller failing example,
which takes minutes.
"""
import os
import sys
import time
import unittest
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import convolvd as c  # noqa: E402  (found by the line above)

SEED = int(os.environ.get("CONVOLVD_PROPERTY_SEED", "20261121"))
SECONDS = float(os.environ.get("CONVOLVD_PROPERTY_SECONDS", "25" if os.environ.get("CONVOLVD_TEST_LONG") else "6"))
RATE = 100000
FORMAT_BYTES = {"L16": 2, "L24": 3, "s32be": 4, "f32be": 4, "u8": 1, "s16le": 2, "u16be": 2, "s24le": 3, "f32le": 4}


@st.composite
def cases(draw, framings, decimates=False):
    framing = draw(st.sampled_from(framings))
    form = draw(st.sampled_from(["L16", "L24", "s32be", "f32be"] if framing == "rtp" else sorted(FORMAT_BYTES)))
    channels = draw(st.sampled_from([1, 2, 3, 5, 16]))
    largest = min(700, 1400 // (FORMAT_BYTES[form] * channels))
    packet = draw(st.integers(min(8, largest), largest))
    return {
        "framing": framing,
        "format": form,
        "channels": channels,
        "packet": packet,
        "packet_min": draw(st.one_of(st.none(), st.integers(min(8, packet), packet))) if framing != "udp-seq" else None,
        "block": draw(st.one_of(st.sampled_from([64, 256, 1000, 2048]), st.integers(16, 3000))),
        "taps": draw(st.one_of(st.sampled_from([1, 2, 63, 257]), st.integers(1, 4000))),
        "output": draw(st.sampled_from(["real", "real", "complex", "envelope"])),
        "tail": draw(st.booleans()),
        # At least five packets: two prove the sender, and the first four are left without faults.
        "packets": draw(st.integers(5, max(6, min(200, 20000 // packet)))),
        "duplicate": draw(st.sampled_from([0, 0, 0.05, 0.3])),
        "reorder": draw(st.sampled_from([0, 0, 0.05, 0.3])),
        "depth": draw(st.integers(1, 8)),
        "wrap": draw(st.booleans()),
        "order": draw(st.sampled_from(["little", "big"])),
        "decimate": draw(st.one_of(st.just(1), st.sampled_from([2, 8, 64]), st.integers(2, 700))) if decimates else 1,
        "seed": draw(st.integers(0, 2**32 - 1)),
    }


def config(case, rx, tx, taps_path):
    # Long where packets are reordered, so that a busy machine makes none of them late.
    window = "2 s" if case["reorder"] else "20 ms"
    return f"""
[stream s]
source = {case['framing']}
address = 127.0.0.1:{rx}
rate = {RATE} Hz
format = {case['format']}
channels = {case['channels']}
block = {case['block']} frames
{f"reorder = {window}" if case['framing'] != "udp" else ""}
{f"max misorder = {window}" if case['framing'] != "udp" else ""}
{f"sequence order = {case['order']}" if case['framing'] == "udp-seq" else ""}
filter = h
output = {case['output']}
tail = {"yes" if case['tail'] else "no"}
decimate = {case['decimate']}
""" + c.file_filter("h", taps_path) + c.rtp_sink("out", "s", tx)


def definition(case, x, h):
    """Output frames of input x, in the order in which the stream sends them."""
    y = c.convolve(x, h)
    if not case["tail"]:
        y = y[:len(x)]
    if case["output"] == "real":
        return y.real
    if case["output"] == "envelope":
        return np.abs(y)
    return np.stack([y.real, y.imag], axis=2).reshape(len(y), -1)


def run_case(case, *rig_arguments, credit=False):
    """One rig through one daemon to one tap; checks all that can be said, returns whether no
    frame was lost but those that the rig left out."""
    rx, tx = c.free_port(), c.free_port()
    with c.temporary() as folder:
        h = c.random_taps(case["seed"], case["taps"], case["output"] != "real")
        taps_path, x_path = os.path.join(folder, "h.npy"), os.path.join(folder, "x.npy")
        np.save(taps_path, h)
        floats = case["channels"] * (2 if case["output"] == "complex" else 1)
        arguments = ["--framing", case["framing"], "--format", case["format"], "--channels", case["channels"], "--rate", RATE,
                     "--signal", "noise", "--amplitude", 0.2, "--packet", case["packet"], "--frames",
                     case["packets"] * case["packet"], "--seed", case["seed"], "--clean", 4 * case["packet"], "--write", x_path]
        if case["packet_min"]:
            arguments += ["--packet-min", case["packet_min"]]
        if case["framing"] == "udp-seq":
            arguments += ["--sequence-order", case["order"]]
        if case["framing"] != "udp":
            arguments += ["--duplicate", case["duplicate"], "--reorder", case["reorder"], "--reorder-depth", case["depth"]]
        if case["framing"] == "rtp" and case["wrap"]:
            arguments += ["--wrap"]
        tap_arguments = []
        if credit:
            port = c.free_port()
            room = 3 * case["block"] + 40 * case["packet"]
            arguments += ["--flat-out", "--credit", f"127.0.0.1:{port}", "--in-flight", room]
            tap_arguments = ["--credit", f"127.0.0.1:{port}"]
        with c.Daemon(folder, config(case, rx, tx, taps_path)) as daemon, \
                c.Tap(folder, tx, *tap_arguments, channels=floats, rate=RATE / case['decimate']) as tap:
            sent = c.rig(folder, rx, *arguments, *rig_arguments)

            def arrived():
                datagrams = daemon.stream()["datagrams"]
                return datagrams["read"] + datagrams["kernel_drops"] >= sent["datagrams_sent"]
            c.wait_for(arrived, "the rig's datagrams")
            stream = daemon.stop()["streams"][0]
            got = tap.finish(code=None, number=c.signal.SIGTERM)
            return check(case, np.load(x_path), h, sent, stream, got, tap, credit)


def check(case, x, h, sent, stream, got, tap, credit):
    datagrams, inward, outward, sink = stream["datagrams"], stream["frames_in"], stream["frames_out"], stream["sinks"][0]
    # Sent = read + dropped by the socket; each of them accepted or refused by name.
    assert datagrams["read"] + datagrams["kernel_drops"] == sent["datagrams_sent"]
    assert got["accepted"] == sink["packets"] and got["frames"] == sink["delivered"], (got, sink)
    assert got["lost"] == 0 and got["kernel_drops"] == 0
    assert stream["epochs"] == 1, stream["epochs"]
    clean = datagrams["kernel_drops"] == 0 and sum(outward["shed"].values()) == outward["shed"]["decimated"]
    if credit:
        assert clean, (datagrams, outward)
        assert sum(inward["gap"].values()) == 0, inward
    missing = [tuple(pair) for pair in sent["missing"]]
    frames = len(x)
    if missing and missing[-1][1] == frames:
        frames = missing.pop()[0]  # what is lost at the very end cannot be known
    x = x[:frames].copy()
    for begin, end in missing:
        x[begin:end] = 0
    if clean:
        refused = datagrams["rejected"]
        assert refused["duplicate"] + refused["late"] == sent["duplicated"], (refused, sent["duplicated"])
        assert datagrams["accepted"] == sent["datagrams_gone"]
        assert inward["timeline"] == frames and inward["received"] == frames - sum(b - a for a, b in missing), inward
        assert sum(inward["gap"].values()) == inward["gap"]["network"]
        assert got["frames_lost"] == 0
    want = definition(case, x, h)[::case["decimate"]]
    result = tap.frames()
    mask = c.flagged(got, 0, len(want))
    if clean:
        c.assert_within(result, want, x, h)
        expected = np.zeros(outward["timeline"], dtype=bool)
        expected[:case["taps"] - 1] = True
        expected[frames:] = True
        for begin, end in missing:
            expected[begin:end + case["taps"] - 1] = True
        expected = expected[::case["decimate"]]
        assert len(expected) == len(want) == outward["out"], outward
        assert stream["invalid_frames"] == expected.sum(), (stream["invalid_frames"], expected.sum())
        assert not (expected & ~mask).any(), f"not flagged: {c.runs(expected & ~mask)[:3]}"
    else:
        good = ~mask[:len(result)] & ~np.isnan(result).any(axis=1)
        c.assert_within(result[good], want[:len(result)][good], x, h)
    return clean


class Watch:
    """Ends a property in time: examples after it are taken as passed, unless one has failed (then
    they are needed to shrink it)."""

    def __init__(self):
        self.until, self.examples, self.whole, self.failed = time.monotonic() + SECONDS, 0, 0, False

    def run(self, function):
        if time.monotonic() > self.until and not self.failed:
            return
        self.examples += 1
        try:
            self.whole += function()
        except BaseException:
            self.failed = True
            raise


PHASES = [Phase.explicit, Phase.generate] + [Phase.shrink] * bool(os.environ.get("CONVOLVD_PROPERTY_SHRINK"))
LIMITS = settings(phases=PHASES, max_examples=150, deadline=None, database=None, print_blob=True, report_multiple_bugs=False,
                  suppress_health_check=list(HealthCheck))


def lossy(watch):
    @LIMITS
    @seed(SEED)
    @given(cases(["rtp", "rtp", "udp-seq"]), st.sampled_from([0, 0.02, 0.1, 0.3]), st.integers(1, 5))
    def holds(case, loss, burst):
        watch.run(lambda: run_case(case, "--loss", loss, "--loss-burst", burst))
    holds()


def decimated(watch):
    @LIMITS
    @seed(SEED)
    @given(cases(["rtp", "udp-seq"], decimates=True), st.sampled_from([0, 0, 0.05]), st.integers(1, 5))
    def holds(case, loss, burst):
        watch.run(lambda: run_case(case, "--loss", loss, "--loss-burst", burst))
    holds()


def paced(watch):
    @LIMITS
    @seed(SEED)
    @given(cases(["rtp", "udp", "udp-seq"]))
    def holds(case):
        watch.run(lambda: run_case(case, credit=True))
    holds()


PROPERTIES = (lossy, decimated, paced)


def explore(number):
    """One property, in a process of its own; what it has tried."""
    c.share_ports(number, len(PROPERTIES))
    watch = Watch()
    PROPERTIES[number](watch)
    return (f"{PROPERTIES[number].__name__}: {watch.examples} examples, {watch.whole} of them with every frame "
            f"accounted for, seed {SEED}")


class Stream(unittest.TestCase):
    """An example mostly waits: for a daemon to start, for packets that never come. So the properties
    are explored at each other's side."""

    @classmethod
    def setUpClass(cls):
        cls.pool = ProcessPoolExecutor(len(PROPERTIES))
        cls.explored = {PROPERTIES[n]: cls.pool.submit(explore, n) for n in range(len(PROPERTIES))}

    @classmethod
    def tearDownClass(cls):
        cls.pool.shutdown()

    def test_loss_is_accounted_for(self):
        c.note(self.explored[lossy].result())

    def test_decimated_streams_keep_every_dth_frame(self):
        c.note(self.explored[decimated].result())

    def test_paced_by_the_receiver_nothing_is_lost(self):
        c.note(self.explored[paced].result())


if __name__ == "__main__":
    unittest.main(verbosity=2)
