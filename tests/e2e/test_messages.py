#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 6 s
"""What people wrote in trials, and what the programs answer: one table, each row an input and the words that the
answer must hold. Rows that need no file stand in tests/unit/config/test_config_combinations.c too."""
import os
import re
import subprocess
import unittest
import wave

import numpy as np

import convolvd as c

STREAM = "[stream a]\nsource = generator\nrate = 500 kHz\nchannels = 2\nfull scale = 10 V\nfilter = f\n"
SINK = "[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:6000\n"
IDENTITY = "[filter f]\ntype = identity\n"
TAPS = "[filter f]\ntype = file\npath = {}\n"
BAND = "[filter f]\ntype = bandpass\nlow = 50 kHz\nhigh = 100 kHz\ntransition = 2 kHz\n"


def whole(keys="", filter_section=IDENTITY, sink=SINK):
    return STREAM + keys + filter_section + sink


def taps(name):
    return whole("", TAPS.format(name))


def sound(path, rate, values):
    with wave.open(path, "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes((np.asarray(values) * 32767).astype("<i2").tobytes())


# Files that rows name: what to write where.
FILES = {
    "matlab.mat": lambda path: write(path, b"MATLAB 5.0 MAT-file, Platform: GLNXA64" + bytes(100)),
    "matlab4.mat": lambda path: write(path, bytes(60)),
    "arrays.npz": lambda path: np.savez(path, h=np.ones(5)),
    "noise.bin": lambda path: write(path, bytes(range(256)) * 8),
    "comma.txt": lambda path: write(path, b"0,5\n0,25\n"),
    "comma-exponent.txt": lambda path: write(path, b"1,25e-3\n"),
    "complex.txt": lambda path: write(path, b"0.5,0.25\n1,-2\n3, 4\n"),
    "transposed.npy": lambda path: np.save(path, np.ones((512, 2))),
    "column.npy": lambda path: np.save(path, np.ones((512, 1))),
    "four-sets.npy": lambda path: np.save(path, np.ones((4, 64))),
    "other-rate.wav": lambda path: sound(path, 48000, [0.9, 0.3, 0.1]),
    "symmetric.wav": lambda path: sound(path, 48000, [0.1, 0.9, 0.1]),
}


def write(path, data):
    with open(path, "wb") as file:
        file.write(data)


# (configuration, what `--check` must say, whether it accepts it)
CHECKS = [
    ("[device]\nnode = 99\n" + whole(), "`node = 99`: this machine has memory node", False),
    (whole().replace("500 kHz", "2000000"), "`rate = 2000000` has no unit, `rate` takes a frequency: write 2000000 Hz or 2 MHz", False),
    (whole(sink=SINK + "[sink r]\ntype = recording\nstream = a\npath = r.wav\nrotate = 10\n"),
     "`rotate = 10` has no unit, `rotate` takes a time or a size: write 10 min, 10 h, 10 MiB or 10 GiB", False),
    (taps("matlab.mat"), "matlab.mat is a MATLAB file, which is not read; in MATLAB or Octave write taps h as text", False),
    (taps("matlab4.mat"), "matlab4.mat is a MATLAB file", False),
    (taps("arrays.npz"), "numpy.save('taps.npy', h)", False),
    (taps("noise.bin"), "this is not text", False),
    (taps("comma.txt"), "comma.txt:1: the comma may be a decimal one; write decimals with a point", False),
    (taps("comma-exponent.txt"), "the comma may be a decimal one", False),
    (taps("complex.txt"), "is valid", True),
    (taps("transposed.npy"), "its file has taps for 512 channels (2 each), and stream a has 2; the shape of an .npy is "
     "(channels, taps): save its transpose", False),
    (taps("column.npy"), "save its transpose", False),
    (taps("four-sets.npy"), "its file has taps for 4 channels (64 each), and stream a has 2; save one set for all, or one for "
     "each channel", False),
    (taps("other-rate.wav"), "the file says its taps are for 48000 Hz and the stream runs at 500000 Hz: every frequency of the "
     "filter moves by that ratio; the taps are not symmetric", True),
    (taps("symmetric.wav"), "the file says its taps are for 48000 Hz and the stream runs at 500000 Hz", True),
    (whole(filter_section=BAND + "taps = 63\n"), "which is no filter; write taps = ", False),
    (whole(filter_section=BAND + "taps = 501\n"), "not by the usual 60 dB; write taps = ", True),
    (whole(filter_section=BAND + "taps = 951\n"), "is valid", True),
    (whole("unit = Pa\n"), "as in sensitivity = 50 mV/Pa, or the full scale in Pa", False),
    (whole(sink="[sink r]\ntype = recording\nstream = a\npath = missing/r.wav\n"), "mkdir -p ", False),
    (whole(sink="[sink r]\ntype = recording\nstream = a\npath = /tmp\n"), "/tmp is a directory; write a file in it, as /tmp/r.wav",
     False),
    (whole("latency = 1 ms\nblock = 8 ms\n"), "`latency = 1 ms` cannot be: collecting one block (`block`) takes 8 ms", True),
    (whole().replace("source = generator", "source = rtp\naddress = 239.1.2.3:5004"),
     "the kernel joins it by the interface of its default route", True),
    (whole().replace("source = generator", "source = rtp\naddress = *:6000"),
     "sink s sends to `127.0.0.1:6000`, where stream a receives: its results would come back as its input", False),
]


class Messages(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for name, make in FILES.items():
            make(os.path.join(self.folder, name))

    def run_program(self, program, *arguments):
        result = subprocess.run([os.path.join(c.BUILD, program), *arguments], stdin=subprocess.DEVNULL, cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=c.PATIENCE_S, check=False)
        return result.returncode, result.stdout

    def test_check_answers(self):
        for number, (text, words, accepted) in enumerate(CHECKS):
            with self.subTest(number=number, words=words):
                write(os.path.join(self.folder, "a.conf"), text.encode())
                code, said = self.run_program("convolvd", "--check", "a.conf")
                self.assertIn(words, said)
                self.assertEqual(code == 0, accepted, said)

    def test_the_readme_example_pasted_at_once(self):
        """All its lines at once into a shell, with ports of this test's: each waits for what it needs."""
        with open(os.path.join(c.ROOT, "README.md"), encoding="utf-8") as file:
            readme = file.read()
        config = re.search(r"```ini\n(.*?)```", readme, re.DOTALL).group(1)
        lines = re.search(r"    make && sudo make install\n((?:    .*\n)+)", readme).group(1)
        for port in ("5004", "5006"):
            free = str(c.free_port())
            config, lines = config.replace(port, free), lines.replace(port, free)
        write(os.path.join(self.folder, "bearing.conf"), config.encode())
        script = "set -m\n" + "\n".join(line.strip() for line in lines.splitlines()) + "\nwait\n"
        result = subprocess.run(["bash"], input=script, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True, timeout=4 * c.PATIENCE_S, check=False,
                                env={**os.environ, "PATH": c.BUILD + ":" + os.environ["PATH"]})
        said = result.stdout
        self.assertEqual(result.returncode, 0, said)
        self.assertIn("bearing.conf is valid", said)
        self.assertIn("sent 2500000 frames", said)
        self.assertRegex(said, r"all stages +\d", said)
        self.assertLessEqual(config.count("\n"), 20)
        self.assertIn("lost 0, reordered", said)

    def test_a_file_that_does_not_come(self):
        code, said = self.run_program("convolv-tap", "--sdp", "nowhere.sdp", "--wait", "50 ms")
        self.assertEqual(code, 2)
        self.assertIn("convolv-tap: waiting up to 0.05 s for nowhere.sdp, which the daemon writes when it starts", said)
        self.assertIn("--sdp nowhere.sdp: ", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
