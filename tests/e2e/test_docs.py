#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 5 s
"""The command lines of README.md and docs/: each is run by a test, or the tables below say why it is not. Tests that
take their lines from a page do it themselves; those of the filters, the quickstart and the tools run here."""
import glob
import os
import re
import shlex
import socket
import subprocess
import unittest

import numpy as np
import soundfile

import convolvd as c

# Pages whose lines a test takes from the page itself.
READ_BY = {
    "README.md": "tests/e2e/test_messages.py", "docs/acoustic-emission.md": "tests/e2e/test_located_sources.py",
    "docs/alarms.md": "tests/e2e/test_alarms.py", "docs/bearing.md": "tests/e2e/test_condition.py",
    "docs/cluster.md": "tests/e2e/test_cluster_commands.py",
    "docs/control.md": "tests/e2e/test_control.py", "docs/operations.md": "tests/e2e/test_systemd.py",
    "docs/osc.md": "tests/e2e/test_osc.py", "docs/packages.md": "tests/systemd/packages.sh",
    "docs/python.md": "tests/e2e/test_python_package.py", "docs/sound-cards.md": "tests/e2e/test_jack.py",
    "docs/web.md": "tests/e2e/test_web_commands.py", "docs/filters.md": "tests/e2e/test_docs.py",
    "docs/fk.md": "tests/e2e/test_docs.py", "docs/quickstart.md": "tests/e2e/test_docs.py",
    "docs/tools.md": "tests/e2e/test_docs.py",
}

# Lines, by how they begin, that run in a test of their own with other addresses, files or servers: (test, what it says).
ELSEWHERE = {
    "ffmpeg -re -i": ("tests/e2e/test_media.py", '"ffmpeg", "-hide_banner", "-nostdin", "-re", "-i"'),
    "gst-launch-1.0 filesrc": ("tests/e2e/test_media.py", '"gst-launch-1.0", "-q", "filesrc"'),
    "ffmpeg -i x.wav": ("tests/e2e/test_pipes.py", "ffmpeg -v error -i x.wav -f f32le - | convolvd"),
    "sox x.wav": ("tests/e2e/test_pipes.py", "sox x.wav -t raw -e signed -b 16 -L - | convolvd"),
    "arecord -t raw": ("tests/e2e/test_pipes.py", "arecord -q -D recorded -t raw -f FLOAT_LE"),
    "NATS_ADMINISTRATOR=": ("tests/e2e/test_nats_config.py", 'os.environ[f"NATS_{role.upper()}"]'),
    "convolv-rig --to 192.0.2.1:5004 --key": ("tests/e2e/test_tags.py", '"--key"'),
    "convolv-tap --listen *:5006 --key": ("tests/e2e/test_tags.py", '"--key"'),
    "convolv-tap --sdp bearing.sdp --pipe": ("tests/e2e/test_python_package.py", "tools.md"),
    "convolv-tap --log": ("tests/e2e/test_nats_config.py", '"--log"'),
    "convolvd --tune": ("tests/e2e/test_tuning.py", '"--tune"'),
    "convolvd --explain": ("tests/e2e/test_tuning.py", '"--explain"'),
    "sh tests/e2e/oclgrind.sh": ("tests/e2e/oclgrind.sh", "long: "),
}

# What measures speed takes too long: only that its options exist is looked at. Of `make TARGET`, that the Makefile has the
# target: it installs, or runs these tests.
OPTIONS_ONLY = ("bench/bench_", "build/gcc/bench/")
UNITS = re.compile(r"^(?:CONVOLVD_TEST_\w+=\S+ )?build/gcc/tests/(\w+)")

PROGRAM = re.compile(r"(?:sudo |[A-Z_]+=\S+ )*(?:convolv[-\w]*|curl|ssh|systemctl|journalctl|ffmpeg|gst-launch-1\.0|sox|arecord|"
                     r"make|python3|sh|nats-server|venv/bin/pip|bench/\S+|build/gcc/\S+)(?: |$)")


def read(page):
    with open(os.path.join(c.ROOT, page), encoding="utf-8") as file:
        return file.read()


def lines(page):
    """Its command lines, of indented blocks and of those marked `sh`, without their comments."""
    fence, found = None, []
    for line in re.sub(r"\\\n\s*", "", read(page)).splitlines():
        if line.startswith("```"):
            fence = (line[3:] or "text") if fence is None else None
        elif fence == "sh" or (fence is None and line.startswith("    ")):
            line = re.sub(r"\s+#.*", "", line.strip())
            if PROGRAM.match(line):
                found.append(line)
    return found


MAKEFILES = ("Makefile", "bench/bench.mk", "docs/docs.mk", "clients/packaging/install.mk")


class Accounts(unittest.TestCase):
    def test_every_line_has_its_test(self):
        used, makefile = set(), "\n".join(read(name) for name in MAKEFILES)
        for page in ["README.md", *sorted(os.path.relpath(path, c.ROOT) for path in glob.glob(f"{c.ROOT}/docs/*.md"))]:
            for line in lines(page):
                with self.subTest(page=page, line=line):
                    begin = next((begin for begin in ELSEWHERE if line.startswith(begin)), None)
                    unit = UNITS.match(line)
                    if begin is not None:
                        used.add(begin)
                        self.assertIn(ELSEWHERE[begin][1], read(ELSEWHERE[begin][0]))
                    elif unit:
                        self.assertTrue(glob.glob(f"{c.ROOT}/tests/unit/*/{unit.group(1)}.c"))
                    elif line.removeprefix("sudo ").startswith("make") or "=" in line.split()[0]:
                        target = re.search(r"make (?:\w+=\S+ )*([a-z-]+)", line)
                        self.assertTrue(target is None or re.search(rf"^{target.group(1)}:", makefile, re.M))
                    elif line.startswith(OPTIONS_ONLY):
                        self.options_exist(line)
                    else:
                        self.assertIn(page, READ_BY)
        self.assertEqual(used, set(ELSEWHERE), "rows of no line")

    def options_exist(self, line):
        program, *words = shlex.split(line.replace("[", " ").replace("]", " "))
        name = os.path.basename(program)
        source = program if program.endswith(".py") else \
            f"bench/published/{name}.c" if name == "bench_published" else f"bench/{name}.c"
        for word in words:
            if word.startswith("--"):
                self.assertIn(word, read(source))

    def test_the_tests_read_the_pages(self):
        for page, test in READ_BY.items():
            self.assertIn(os.path.basename(page), read(test), page)


class Lines(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.port = str(c.free_port())
        for name in ("config", *{name.split("/")[0] for name in MAKEFILES}):
            os.symlink(os.path.join(c.ROOT, name), os.path.join(self.folder, name))

    def run_line(self, line):
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.folder, capture_output=True, text=True, check=False,
                              timeout=2 * c.PATIENCE_S, env={**os.environ, "PATH": c.BUILD + ":" + os.environ["PATH"]})
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def record(self, name, rate, seconds=0.5, channels=1):
        soundfile.write(os.path.join(self.folder, name), 0.1 * np.random.default_rng(1).standard_normal((int(rate * seconds), channels)),
                        rate, "PCM_16")

    def test_filters(self):
        commands = lines("docs/filters.md") + lines("docs/fk.md")
        self.assertGreaterEqual(len(commands), 6)
        for line in commands:
            self.run_line(line)
        for name in ("taps.txt", "taps.npy", "pulser.png", "outward.npy", "outward.png"):
            self.assertGreater(os.path.getsize(os.path.join(self.folder, name)), 0, name)

    def test_quickstart(self):
        """Both configurations of the page, each with the lines behind it."""
        page = read("docs/quickstart.md")
        file, live = re.findall(r"```ini\n(.*?)```", page, re.DOTALL)
        commands = [line for line in lines("docs/quickstart.md") if not re.match(r"(sudo )?make", line)]
        self.record("recording.wav", 500000)
        self.write("mine.conf", file)
        check, run, design, draw, send, start, tap = commands
        for line in (check, run, design, draw):
            self.run_line(line)
        self.assertGreater(soundfile.info(os.path.join(self.folder, "filtered.wav")).frames, 250000)
        other = str(c.free_port())
        self.write("mine.conf", live.replace("5004", self.port).replace("5006", other))
        self.assertIn("rtp://127.0.0.1:5004", send)  # ffmpeg's own test is test_media; here the rig sends
        said = self.run_line(f"{start} until [ -e mine.sdp ]; do sleep 0.1; done; {tap} & tap=$!; convolv-rig --wait-for mine.sdp "
                             f"--to 127.0.0.1:{self.port} --rate '500 kHz' --full-scale 10 --seconds 0.5 && sleep 0.5 && kill %1 && wait $tap")
        self.assertIn("lost 0, reordered", said)

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def test_tools(self):
        """The rig's lines, each a moment long, and the plot of a filter."""
        commands = [line for line in lines("docs/tools.md") if line.startswith("convolv-rig")]
        self.assertGreaterEqual(len(commands), 5)
        self.record("bearing.wav", 48000, 0.2)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as heard:
            heard.bind(("", 0))
            port = str(heard.getsockname()[1])
            for line in commands:
                self.run_line(line.replace("5004", port).replace("eth1", "lo") + ("" if "--file" in line else " --seconds 0.1"))
        draw, = (line for line in lines("docs/tools.md") if line.startswith("convolv-design"))
        self.run_line(draw.replace("/etc/convolvd/convolvd.conf", "config/ae-vessel.conf").replace("--filter band ", "--filter sensor-band "))
        self.assertGreater(os.path.getsize(os.path.join(self.folder, "band.png")), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
