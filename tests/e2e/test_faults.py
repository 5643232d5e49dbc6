#!/usr/bin/python3
# parallel: yes
# takes: 7 s CPU in 16 s
"""Loss, doubling, reordering, restarts, foreign and forged packets, jumps and overload: the three
ledgers against the rig's and the tap's own counts, exactly, and every frame that is not flagged
invalid against numpy. What is flagged is what the design says and nothing else."""
import os
import unittest

import numpy as np

import convolvd as c

RATE, CHANNELS, TAPS, PACKET = 48000, 2, 65, 240


def config(rx, tx, taps_path, stream=""):
    keys = {"rate": f"{RATE} Hz", "channels": CHANNELS, "block": "256 frames", "reorder": "200 ms", "max misorder": "200 ms", "format": "f32be"}
    keys.update(dict(line.split(" = ", 1) for line in stream.splitlines() if line))
    lines = "\n".join(f"{key} = {value}" for key, value in keys.items())
    return f"""
[daemon]
drain timeout = 100 s

[stream s]
source = rtp
address = 127.0.0.1:{rx}
filter = h
{lines}
""" + c.file_filter("h", taps_path) + c.rtp_sink("out", "s", tx)


def invalid_mask(frames, missing, taps):
    """Output frames of an epoch of so many input frames that do not depend on real input alone."""
    mask = np.zeros(frames + taps - 1, dtype=bool)
    mask[:taps - 1] = True
    mask[frames:] = True
    for begin, end in missing:
        mask[begin:end + taps - 1] = True
    return mask


class Result:
    """One run: what was sent, what the daemon counted, what came back."""

    def __init__(self, folder, rig_arguments, stream="", taps=TAPS, packet=PACKET, channels=CHANNELS):
        rx, tx = c.free_port(), c.free_port()
        self.h = c.random_taps(7, taps)
        self.taps = taps
        taps_path = os.path.join(folder, "h.npy")
        np.save(taps_path, self.h)
        x_path = os.path.join(folder, "x.npy")
        with c.Daemon(folder, config(rx, tx, taps_path, stream)) as daemon, \
                c.Tap(folder, tx, channels=channels, rate=RATE) as self.tap:
            self.sent = c.rig(folder, rx, "--signal", "noise", "--amplitude", 0.2, "--channels", channels, "--rate", RATE,
                              "--format", "f32be", "--packet", packet, "--write", x_path, *rig_arguments)
            self.x = np.load(x_path)

            def arrived():
                stream_now = daemon.stream()
                return (stream_now["datagrams"]["read"] + stream_now["datagrams"]["kernel_drops"]
                        >= self.sent["datagrams_sent"])
            c.wait_for(arrived, "the rig's datagrams")
            self.stream = daemon.stop()["streams"][0]
            # All results are in the tap's socket: it takes them and ends. What it lacks is judged below.
            self.got = self.tap.finish(code=None, number=c.signal.SIGTERM)
            self.epochs = {e["epoch"]: e for e in self.got["epochs"]}
            self.outputs = {e: self.tap.frames(e) for e in self.epochs}

    def rejected(self, name):
        return self.stream["datagrams"]["rejected"][name]


class Faults(unittest.TestCase):
    maxDiff = None

    def check_common(self, run):
        """What holds for every run without overload."""
        datagrams, sink = run.stream["datagrams"], run.stream["sinks"][0]
        self.assertEqual(datagrams["kernel_drops"], 0)
        self.assertEqual(datagrams["read"], run.sent["datagrams_sent"])
        self.assertEqual(datagrams["held"], 0)
        self.assertEqual(sum(run.stream["frames_out"]["shed"].values()), 0)
        self.assertEqual(sink["delivered"], run.stream["frames_out"]["out"])
        self.assertEqual(run.got["accepted"], sink["packets"])
        self.assertEqual(run.got["frames"], sink["delivered"])
        self.assertEqual([run.got["lost"], run.got["frames_lost"], run.got["undescribed"]], [0, 0, 0])
        self.assertEqual(run.got["frames_invalid"] >= run.stream["invalid_frames"], True)

    def check_epoch(self, run, epoch, begin, end, missing=()):
        """Epoch `epoch` carries the signal frames [begin, end), those of `missing` (signal frames) as zeros."""
        x = run.x[begin:end].copy()
        gaps = [(a - begin, b - begin) for a, b in missing if a >= begin and b <= end]
        for a, b in gaps:
            x[a:b] = 0
        frames = end - begin
        self.assertEqual(run.epochs[epoch]["first_frame"], 0)
        self.assertEqual(run.epochs[epoch]["end_frame"], frames + run.taps - 1)
        self.assertTrue(run.epochs[epoch]["start"] and run.epochs[epoch]["end"])
        c.assert_within(run.outputs[epoch], c.convolve(x, run.h), run.x, run.h, what=f"epoch {epoch}")
        mask = invalid_mask(frames, gaps, run.taps)
        seen = c.flagged(run.got, epoch, len(mask))
        self.assertFalse((mask & ~seen).any(), "frames that must be flagged and are not: %s" % c.runs(mask & ~seen)[:5])
        # A packet flags from its first to its last invalid frame: more only between two ranges in one packet.
        for a, b in c.runs(seen & ~mask):
            self.assertLess(b - a, 256, "flagged without a cause")
        return int(mask.sum())

    def check_single(self, run, missing=(), cause="network"):
        invalid = self.check_epoch(run, 0, 0, len(run.x), missing)
        self.assertEqual(run.stream["invalid_frames"], invalid)
        self.assertEqual(run.stream["epochs"], 1)
        gaps = sum(b - a for a, b in missing)
        self.assertEqual(run.stream["frames_in"]["timeline"], len(run.x))
        self.assertEqual(run.stream["frames_in"]["received"], len(run.x) - gaps)
        self.assertEqual(run.stream["frames_in"]["gap"][cause], gaps)
        self.assertEqual(sum(run.stream["frames_in"]["gap"].values()), gaps)
        self.assertEqual(run.stream["frames_out"]["out"], len(run.x) + run.taps - 1)

    def run_with(self, *rig_arguments, stream="", frames=24000, **more):
        with c.temporary() as folder:
            return Result(folder, ["--frames", frames, *rig_arguments], stream, **more)

    def test_clean_across_the_wraps(self):
        run = self.run_with("--wrap")
        self.check_common(run)
        self.check_single(run)
        self.assertEqual(sum(run.stream["datagrams"]["rejected"].values()), 0)

    def test_loss(self):
        run = self.run_with("--loss", "5 %", "--loss-burst", 2, "--seed", 3)
        self.assertGreater(run.sent["datagrams_dropped"], 3)
        self.assertTrue(run.sent["missing"][0][0] > 0 and run.sent["missing"][-1][1] < 24000, "choose another seed")
        self.check_common(run)
        self.check_single(run, run.sent["missing"])
        self.assertEqual(run.stream["datagrams"]["accepted"], run.sent["datagrams_gone"])
        self.assertEqual(run.stream["frames_in"]["gap"]["network"], run.sent["frames_dropped"])

    def test_doubled(self):
        run = self.run_with("--duplicate", "20 %", "--seed", 4)
        self.assertGreater(run.sent["duplicated"], 5)
        self.check_common(run)
        self.check_single(run)
        self.assertEqual(run.rejected("duplicate"), run.sent["duplicated"])
        self.assertEqual(run.stream["datagrams"]["accepted"], run.sent["datagrams_gone"])

    def test_reordered(self):
        run = self.run_with("--reorder", "20 %", "--reorder-depth", 4, "--seed", 5,
                            stream="reorder = 2 s\nmax misorder = 2 s")
        self.assertGreater(run.sent["reordered"], 5)
        self.check_common(run)
        self.check_single(run)
        self.assertEqual(sum(run.stream["datagrams"]["rejected"].values()), 0)

    def test_all_at_once(self):
        run = self.run_with("--loss", "3 %", "--duplicate", "5 %", "--reorder", "5 %", "--reorder-depth", 3, "--wrong-ssrc",
                            "4 %", "--garbage", "4 %", "--wrap", "--seed", 11, "--packet-min", 17,
                            stream="reorder = 2 s\nmax misorder = 2 s")
        self.assertTrue(run.sent["missing"][0][0] > 0 and run.sent["missing"][-1][1] < 24000, "choose another seed")
        self.check_common(run)
        self.check_single(run, run.sent["missing"])
        self.assertEqual(run.stream["datagrams"]["accepted"], run.sent["datagrams_gone"])
        self.assertEqual(run.rejected("duplicate"), run.sent["duplicated"])
        self.assertEqual(run.rejected("ssrc"), run.sent["wrong_ssrc"])
        self.assertEqual(run.rejected("version"), run.sent["garbage"])

    def test_late(self):
        """Beyond the reorder window: each late packet is a gap of its frames, by its name."""
        run = self.run_with("--reorder", "10 %", "--reorder-depth", 20, "--seed", 6,
                            stream="reorder = 1 ms\nmax misorder = 500 ms")
        self.check_common(run)
        late = run.rejected("late")
        self.assertGreater(late, 0)
        self.assertEqual(late + run.stream["datagrams"]["accepted"], run.sent["datagrams_gone"])
        inward = run.stream["frames_in"]
        self.assertEqual(sum(inward["gap"].values()), late * PACKET)
        self.assertEqual(inward["gap"]["late"], late * PACKET)
        self.assertEqual(inward["timeline"], len(run.x))
        # Which packets were late depends on the moment; what is not flagged must be right all the same.
        seen = c.flagged(run.got, 0, len(run.outputs[0]))
        want = c.convolve(run.x, run.h)
        c.assert_within(run.outputs[0][~seen], want[~seen], run.x, run.h)

    def test_restart(self):
        """Within `takeover` of the old sender's last packet the new one is refused. A rig that is late sends both at once:
        then the same again."""
        for _ in range(5):
            run = self.run_with("--restart-at", 9600, stream="takeover = 1 ms")
            self.check_common(run)
            if run.rejected("ssrc") == 0:
                break
            self.assertEqual(run.rejected("ssrc") + run.stream["datagrams"]["accepted"], run.sent["datagrams_gone"])
        self.assertEqual(run.stream["epochs"], 2)
        self.assertEqual(run.stream["datagrams"]["accepted"], run.sent["datagrams_gone"])
        invalid = self.check_epoch(run, 0, 0, 9600) + self.check_epoch(run, 1, 9600, 24000)
        self.assertEqual(run.stream["invalid_frames"], invalid)
        self.assertEqual(run.stream["frames_in"]["received"], 24000)
        self.assertTrue(run.epochs[1]["marker"])

    def test_forged_jump(self):
        """One forged packet an hour ahead: held, refused, and nothing is filled."""
        run = self.run_with("--forge", f"7200:{3600 * RATE}", "--forge", "12000:20000")
        self.assertEqual(run.sent["forged"], 2)
        self.check_common(run)
        self.check_single(run)
        self.assertEqual(run.rejected("unconfirmed jump"), 2)

    def test_jump_within_max_gap(self):
        run = self.run_with("--skip", "7200:4800", frames=24000)
        self.check_common(run)
        # Consecutive sequence numbers prove that no packet was lost: the sender left these frames out.
        self.check_single(run, run.sent["missing"], "sender")

    def test_jump_beyond_max_gap(self):
        run = self.run_with("--skip", "7200:19200", stream="max gap = 300 ms", frames=48000)
        self.check_common(run)
        self.assertEqual(run.stream["epochs"], 2)
        invalid = self.check_epoch(run, 0, 0, 7200) + self.check_epoch(run, 1, 26400, 48000)
        self.assertEqual(run.stream["invalid_frames"], invalid)
        self.assertEqual(sum(run.stream["frames_in"]["gap"].values()), 0)
        # Time stamps advance by elapsed time, as it was measured here.
        elapsed = run.epochs[1]["timestamp"] - run.epochs[0]["timestamp"]
        self.assertLess(abs(elapsed - 26400), 0.1 * RATE)

    def test_what_the_socket_drops_is_told_apart(self):
        """A daemon stopped for a moment: its receive buffer runs over, and the gap has that name, to the frame."""
        with c.temporary() as folder:
            rx, tx = c.free_port(), c.free_port()
            h = c.random_taps(7, TAPS)
            np.save(os.path.join(folder, "h.npy"), h)
            text = config(rx, tx, os.path.join(folder, "h.npy"), "receive buffer = 64 KiB")
            with c.Daemon(folder, text) as daemon, c.Tap(folder, tx, channels=CHANNELS, rate=RATE) as tap, \
                    c.Process("convolv-rig", ["--to", f"127.0.0.1:{rx}", "--signal", "noise", "--amplitude", 0.2, "--channels",
                                              CHANNELS, "--format", "f32be", "--packet", 48, "--frames", 48000, "--ledger",
                                              os.path.join(folder, "rig.json"), "--write", os.path.join(folder, "x.npy")]) as rig:
                c.wait_for(lambda: daemon.stream()["frames_in"]["received"] > 4800, "the start")
                daemon.signal(c.signal.SIGSTOP)
                c.time.sleep(0.5)
                daemon.signal(c.signal.SIGCONT)
                self.assertEqual(rig.wait(), 0)
                sent = c.load_json(os.path.join(folder, "rig.json"))["rigs"][0]

                def arrived():
                    datagrams = daemon.stream()["datagrams"]
                    return datagrams["read"] + datagrams["kernel_drops"] >= sent["datagrams_sent"]
                c.wait_for(arrived, "the rest")
                stream = daemon.stop()["streams"][0]
                got = tap.finish(code=None, number=c.signal.SIGTERM)
            dropped = stream["datagrams"]["kernel_drops"]
            c.note(f"socket: {dropped} datagrams dropped by the receive buffer")
            self.assertGreater(dropped, 0)
            self.assertEqual(stream["datagrams"]["read"] + dropped, 1000)
            gaps = {cause: frames for cause, frames in stream["frames_in"]["gap"].items() if frames}
            self.assertEqual(gaps, {"socket": 48 * dropped})
            self.assertEqual(stream["frames_in"]["timeline"], 48000)
            x = np.load(os.path.join(folder, "x.npy"))
            seen = c.flagged(got, 0, 48000 + TAPS - 1)
            self.assertGreaterEqual(int(seen.sum()), 48 * dropped + 3 * (TAPS - 1))
            c.assert_within(tap.frames()[~seen], c.convolve(x, h)[~seen], x, h)

    def test_overload(self):
        """More than can be computed: what is lost is counted by name, what is not flagged is right."""
        frames, rate = 4000000, 2000000
        for taps in (131072, 524288):
            run = self.run_with("--rate", rate, "--format", "L16", "--loss", "1 %", "--clean", 72000, "--seed", 2, frames=frames,
                                taps=taps, packet=360,
                                stream=f"rate = {rate} Hz\nformat = L16\nblock = 64 frames\nvariant = general\n"
                                       "max gap = 50 ms\nreorder = 50 ms\nmax misorder = 50 ms")
            if sum(run.stream["frames_out"]["shed"].values()) > 0:
                break  # else this machine can do that: give it more to do
        else:
            self.skipTest("this machine computes 2 channels, 2^19 taps and blocks of 64 frames at 2 MHz")
        datagrams, inward, outward = run.stream["datagrams"], run.stream["frames_in"], run.stream["frames_out"]
        gaps, shed = sum(inward["gap"].values()), sum(outward["shed"].values())
        c.note(f"overload: {taps} taps, {gaps} frames of gaps, {shed} frames shed")
        self.assertEqual(datagrams["read"] + datagrams["kernel_drops"], run.sent["datagrams_sent"])
        self.assertEqual(run.stream["epochs"], 1)
        # Missing frames of blocks that are shed before their reorder window has passed are gaps all the same.
        self.assertEqual([inward["awaited"], inward["gap"]["late"]], [0, 0])
        self.assertGreater(inward["gap"]["network"], 0)
        self.assertLessEqual(inward["gap"]["network"], run.sent["frames_dropped"])
        # The end of the last gap cannot be seen when it is the end of all.
        self.assertLessEqual(inward["timeline"], frames)
        self.assertEqual(run.got["kernel_drops"], 0)
        self.assertEqual(run.got["accepted"], run.stream["sinks"][0]["packets"])
        self.assertEqual(run.got["frames"], run.stream["sinks"][0]["delivered"])
        self.assertEqual(run.got["lost"], 0)
        # Shed blocks are frame numbers that never come; packets report each of them once, with the cause.
        holes = np.zeros(run.epochs[0]["end_frame"], dtype=int)
        for hole in run.got["holes"]:
            self.assertEqual(hole["causes"], ["overload"])
            holes[hole["from"]:hole["until"]] += 1
        self.assertTrue(np.array_equal(holes, np.isnan(run.outputs[0]).any(axis=1)[:len(holes)]))
        last = run.epochs[0]["end_frame"]
        self.assertEqual(run.got["frames"] + run.got["frames_lost"], last)
        self.assertEqual(run.got["frames_lost"], shed - (inward["timeline"] + taps - 1 - last))
        want = c.convolve(run.x, run.h)[:last]
        good = ~(c.flagged(run.got, 0, last) | np.isnan(run.outputs[0]).any(axis=1))
        if good.any():
            c.assert_within(run.outputs[0][good], want[good], run.x, run.h)
        self.assertEqual(sum(datagrams["rejected"].values()), datagrams["rejected"]["out of window"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
