#!/usr/bin/python3
# parallel: yes
# takes: 0 s CPU in 3 s
"""Pure Data as the other side: a patch of vanilla objects ([oscformat], [netsend], [netreceive], [oscparse])
sends blocks as lists of floats, asks, exchanges the filter, and writes down what comes back. Pd has no
64-bit numbers, so they come as two i; its samples come as a blob.
"""
import os
import re
import subprocess
import unittest

import numpy as np

import convolvd as c
import test_osc as osc

RATE = 100000
BLOCK = 256
PIECE = 64
FRAMES = 2048

# Objects by number, then who is connected to whom.
PATCH = """#N canvas 0 0 800 600 12;
#X obj 10 10 loadbang;
#X obj 10 40 t b b b;
#X msg 200 40 connect 127.0.0.1 {port};
#X obj 200 70 netsend -u -b;
#X msg 100 40 read {folder}/events.txt;
#X obj 10 70 qlist;
#X obj 10 130 r block;
#X obj 10 160 oscformat convolvd pd block;
#X obj 10 300 list prepend send;
#X obj 10 330 list trim;
#X obj 400 10 netreceive -u -b {back};
#X obj 400 40 oscparse;
#X obj 400 70 list prepend add;
#X obj 400 100 list trim;
#X obj 400 130 textfile;
#X obj 500 100 r save;
#X obj 200 130 r narrow;
#X obj 200 160 oscformat -f i convolvd narrow;
#X obj 200 190 r subscribe;
#X obj 200 220 oscformat -f si convolvd pd subscribe;
#X obj 400 190 r filter;
#X obj 400 220 oscformat -f ss convolvd pd filter;
#X obj 600 190 r ask;
#X obj 600 220 oscformat -f i convolvd pd info;
#X connect 0 0 1 0;
#X connect 1 0 5 0;
#X connect 1 1 4 0;
#X connect 1 2 2 0;
#X connect 2 0 3 0;
#X connect 4 0 5 0;
#X connect 6 0 7 0;
#X connect 7 0 8 0;
#X connect 8 0 9 0;
#X connect 9 0 3 0;
#X connect 3 1 11 0;
#X connect 10 0 11 0;
#X connect 11 0 12 0;
#X connect 12 0 13 0;
#X connect 13 0 14 0;
#X connect 15 0 14 0;
#X connect 16 0 17 0;
#X connect 17 0 8 0;
#X connect 18 0 19 0;
#X connect 19 0 8 0;
#X connect 20 0 21 0;
#X connect 21 0 8 0;
#X connect 22 0 23 0;
#X connect 23 0 8 0;
"""


def wide(high, low):
    return int(high) << 32 | int(low) & 0xFFFFFFFF


class PureData(unittest.TestCase):
    def events(self, folder, x, back):
        """What the patch does, and how many ms after what came before."""
        lines = ["300 narrow 1", f"0 subscribe list results {back}", f"0 subscribe list levels {back}"]
        for n in range(0, len(x), PIECE):
            if n == len(x) // 2:
                lines += ["300 filter list two hard", "500 ask " + str(back)]
            lines.append("3 block " + " ".join(f"{value:.9g}" for value in x[n:n + PIECE].ravel()))
        lines += [f"1000 save write {folder}/answers.txt", "100 pd quit"]
        with open(os.path.join(folder, "events.txt"), "w", encoding="ascii") as events:
            events.write(";\n".join(lines) + ";\n")

    def test_patch(self):
        with c.temporary() as folder:
            taps, taps2 = c.random_taps(11, 31), c.random_taps(12, 45)
            np.save(os.path.join(folder, "one.npy"), taps)
            np.save(os.path.join(folder, "two.npy"), taps2)
            port, back = c.free_port(), c.free_port()
            x = osc.signal(90, FRAMES, 1)
            self.events(folder, x, back)
            with open(os.path.join(folder, "patch.pd"), "w", encoding="ascii") as patch:
                patch.write(PATCH.format(port=port, back=back, folder=folder))
            text = (f"[osc]\naddress = 127.0.0.1:{port}\n"
                    f"[stream pd]\nsource = osc\nrate = {RATE} Hz\nchannels = 1\nblock = {BLOCK}\nfilter = one\nformat = f32be\n"
                    "[sink pd]\ntype = osc\nstream = pd\n"
                    "[filter one]\ntype = file\npath = one.npy\ndelay = 0\n"
                    "[filter two]\ntype = file\npath = two.npy\ndelay = 0\n")
            with c.Daemon(folder, text) as daemon:
                subprocess.run(["pd", "-nogui", "-noaudio", "-nomidi", "-noprefs", "-open", os.path.join(folder, "patch.pd")],
                               check=True, timeout=4 * c.PATIENCE_S, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
                daemon.stop()
            with open(os.path.join(folder, "answers.txt"), encoding="ascii") as answers:
                messages = [line.split() for line in re.sub(r"\\?\n", " ", answers.read()).split(";") if line.strip()]
        self.check(messages, x, taps, taps2)

    def check(self, messages, x, taps, taps2):
        y, levels, changed, sequence = np.zeros((0, 1)), 0, None, 0
        for folder, stream, what, *values in (m for m in messages if m[1] == "pd"):
            self.assertEqual((folder, stream), ("convolvd", "pd"))
            if what == "result":
                values = [float(v) for v in values]
                self.assertEqual(wide(*values[0:2]), sequence)
                self.assertEqual(wide(*values[2:4]), len(y))
                sequence += 1
                size, samples = int(values[9]), bytes(int(v) for v in values[10:])
                self.assertEqual(size, len(samples))
                y = np.concatenate([y, np.frombuffer(samples, ">f4").astype(float).reshape(-1, 1)])
            elif what == "levels":
                self.assertEqual(wide(float(values[0]), float(values[1])), levels)
                levels += int(float(values[2]))
            elif what == "changed":
                self.assertEqual(values[0], "filter")
                changed = wide(float(values[1]), float(values[2]))
            elif what == "info":
                self.assertEqual((values[0], values[5], values[14]), ("pd", "f32be", "undetectable"))
        self.assertEqual(changed, FRAMES // 2)
        self.assertEqual(len(y), FRAMES)
        self.assertEqual(levels, FRAMES)
        at = FRAMES // 2
        want = c.convolve(x, taps)[:FRAMES]
        want[at:] = c.convolve(x, taps2)[at:FRAMES]
        c.assert_within(y, want, x, taps2, what="Pure Data")


if __name__ == "__main__":
    unittest.main()
