#!/usr/bin/python3
# parallel: yes
# long: also, a virtual environment, mypy and the notebook of hits take 13 s of CPU, and no mutant needs them
# takes: 5 s CPU in 14 s
# takes-long: 17 s CPU in 34 s
"""The Python package as a user has it: the examples of its docstrings and of docs/python.md and its notebook run against
the daemon, and convolv-tap's pipe in a shell. With --long it is also installed into a virtual environment without
network, its types are checked, and the notebook of hits runs."""
import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
import threading
import unittest

import nbclient
import nbformat
import numpy as np

import convolvd as c

LONG = bool(os.environ.get("CONVOLVD_TEST_LONG"))
PACKAGE = os.path.join(c.ROOT, "clients", "python")
sys.path.insert(0, PACKAGE)
import convolv  # noqa: E402
import convolv.aio  # noqa: E402
from convolv import _format, _osc, _sdp  # noqa: E402


def page():
    with open(os.path.join(c.ROOT, "docs", "python.md"), encoding="utf-8") as file:
        return file.read()


def fences(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page(), re.S | re.M)


class Example:
    """A folder in which the daemon of docs/python.md runs, and the text of its examples with ports that are free."""

    def __init__(self, folder):
        self.folder = folder
        self.ports = {port: c.free_port() for port in ("5004", "5006", "9000")}

    def text(self, text):
        return re.sub(r"(?<=127\.0\.0\.1:)(5004|5006|9000)\b", lambda found: str(self.ports[found.group()]), text)

    def daemon(self):
        return c.Daemon(self.folder, self.text(fences("ini")[0]))

    @contextlib.contextmanager
    def running(self, feeds):
        """The daemon, and the current folder its own; `feeds`: a rig sends to it."""
        before, ends = os.getcwd(), threading.Event()
        os.environ["RUNTIME_DIRECTORY"] = self.folder  # where Control() looks
        os.chdir(self.folder)
        rig = threading.Thread(target=self._feed, args=(ends,), daemon=True)
        try:
            with self.daemon() as daemon:
                if feeds:
                    rig.start()
                    c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > 4096, "results")
                yield daemon
                ends.set()
                if feeds:
                    rig.join(c.PATIENCE_S)
        finally:
            ends.set()
            os.chdir(before)

    def _feed(self, ends):
        with convolv.Stream(f"udp://127.0.0.1:{self.ports['5004']}", rate_hz=48e3, channels=2, full_scale=10) as stream:
            while not ends.is_set():
                stream.send(np.sin(2 * np.pi * 4000 / 48e3 * np.arange(4800))[:, None] * [1.0, 2.0])


class Package(unittest.TestCase):
    def setUp(self):
        self.enterContext(folder := c.temporary())
        self.folder = folder.name

    def copy(self):
        """The package without what a build or a checker leaves beside it."""
        to = os.path.join(self.folder, "python")
        shutil.copytree(PACKAGE, to, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".mypy_cache"))
        return to

    def run_in(self, folder, *command):
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                timeout=4 * c.PATIENCE_S, check=False)
        self.assertEqual(result.returncode, 0, f"{command}:\n{result.stdout}{result.stderr}")
        return result.stdout

    @unittest.skipUnless(LONG, "in check-long")
    def test_installed_into_a_virtual_environment(self):
        """The two lines of the documentation, in a namespace without network."""
        self.copy()
        os.makedirs(os.path.join(self.folder, "clients"))
        shutil.move(os.path.join(self.folder, "python"), os.path.join(self.folder, "clients", "python"))
        lines = re.findall(r"^    (python3 -m venv .*)\n    (venv/bin/pip .*)$", page(), re.M)[0]
        apart = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--net", "--map-root-user"]
        for line in lines:
            self.run_in(self.folder, *apart, "sh", "-c",
                        line.replace("python3 ", sys.executable + " ", 1) if line.startswith("python3") else line)
        said = self.run_in("/", os.path.join(self.folder, "venv", "bin", "python"), "-c",
                           "import convolv; print(convolv.__version__, convolv.__file__)").split()
        self.assertTrue(said[1].startswith(os.path.join(self.folder, "venv")), said)
        self.assertTrue(os.path.exists(os.path.join(os.path.dirname(said[1]), "py.typed")))
        version = self.run_in("/", os.path.join(c.BUILD, "convolvd"), "--version")
        self.assertIn(said[0], version)
        with open(os.path.join(PACKAGE, "pyproject.toml"), encoding="utf-8") as file:
            self.assertIn(f'version = "{said[0]}"', file.read())

    @unittest.skipUnless(LONG, "in check-long")
    def test_types_and_names(self):
        folder = self.copy()
        self.run_in(folder, sys.executable, "-m", "mypy", "--cache-dir", os.path.join(self.folder, "cache"))
        self.run_in(folder, sys.executable, "-m", "pyflakes", "convolv")
        for name in convolv.__all__:
            self.assertTrue(getattr(convolv, name).__doc__, f"convolv.{name} has no docstring")

    def run_doctest(self, name, thing, feeds, example=None):
        runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS)
        text = thing.__doc__ if example is None else example.text(thing.__doc__)
        names = {**vars(convolv), **vars(sys.modules[getattr(thing, "__module__", thing.__name__)]), "numpy": np}
        test = doctest.DocTestParser().get_doctest(text, names, name, name, 0)
        self.assertTrue(test.examples, f"{name} has no example")
        out = io.StringIO()
        with contextlib.ExitStack() as stack:
            if example is not None:
                stack.enter_context(example.running(feeds))
            runner.run(test, out=out.write)
        self.assertEqual(runner.summarize(verbose=False).failed, 0, out.getvalue())

    def test_levels_as_the_daemon_reads_them(self):
        for text, unit, full_scale, want in c.levels():
            with self.subTest(text=text, unit=unit):
                if want is None:
                    self.assertRaises(ValueError, convolv.level, text, unit, full_scale)
                else:
                    self.assertAlmostEqual(convolv.level(text, unit, full_scale), want, delta=1e-8 * abs(want))

    def test_examples_of_docstrings(self):
        for name, thing in (("sample_format", _format.sample_format), ("message", _osc.message), ("parse_sdp", _sdp.parse_sdp)):
            with self.subTest(name):
                self.run_doctest(name, thing, False)
        for name, thing, feeds in (("convolv", convolv, False), ("Stream", convolv.Stream, False), ("results", convolv.results, True),
                                   ("aio", convolv.aio, False), ("Control", convolv.Control, False),
                                   ("aio.Control", convolv.aio.Control, False)):
            with self.subTest(name):
                self.run_doctest(name, thing, feeds, Example(self.enterContext(c.temporary())))
        with self.subTest("collect"):
            example = Example(self.folder)
            with example.running(True) as daemon:
                daemon.stop()
                self.run_doctest("collect", convolv.collect, False)

    def test_examples_of_the_page(self):
        """Every block of docs/python.md, each against a daemon of its own; those that send none with a rig."""
        for number, block in enumerate(fences("python")):
            with self.subTest(block=number):
                example, said = Example(self.enterContext(c.temporary())), io.StringIO()
                with example.running("Stream(" not in block) as daemon, contextlib.redirect_stdout(said):
                    if "filtered.wav" in block:
                        daemon.stop()
                    exec(compile(example.text(block), f"docs/python.md block {number}", "exec"), {"__name__": "__main__"})
                if number == 0:
                    first, peaks = said.getvalue().splitlines()
                    self.assertEqual(first, "0 (8192, 2)")
                    for peak, want in zip(map(float, peaks.strip("[]").split()), (2.0, 1.0), strict=True):
                        self.assertAlmostEqual(peak, want, delta=0.05 * want)

    def execute(self, notebook):
        """As Jupyter does, in the test's folder: (what its cells print, how many pictures they draw)."""
        nbformat.validate(notebook)
        self.assertFalse([cell for cell in notebook.cells if cell.get("outputs")])
        os.environ.update(HOME=self.folder, JUPYTER_RUNTIME_DIR=os.path.join(self.folder, "runtime"), PYTHONPATH=PACKAGE,
                          IPYTHONDIR=os.path.join(self.folder, "ipython"), MPLCONFIGDIR=self.folder)
        nbclient.NotebookClient(notebook, timeout=4 * c.PATIENCE_S, kernel_name="python3",
                                resources={"metadata": {"path": self.folder}}).execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
        return "".join(output.get("text", "") for output in outputs), sum("image/png" in output.get("data", {}) for output in outputs)

    @unittest.skipUnless(LONG, "in check-long")
    def test_the_notebook_of_hits(self):
        """docs/hits.ipynb: from a recording to located sources, by the daemon, each held against the truth."""
        notebook = nbformat.read(os.path.join(c.ROOT, "docs", "hits.ipynb"), as_version=4)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{c.BUILD}:{path}"
        self.addCleanup(os.environ.update, PATH=path)
        said, pictures = self.execute(notebook)
        self.assertEqual(pictures, 2)
        self.assertIn("sigma_mm", said)
        self.assertIn("ticks a second", said)

    def test_the_notebook(self):
        """docs/python.ipynb as Jupyter executes it, every assertion in it included; it is kept without outputs."""
        example = Example(self.folder)
        with open(os.path.join(c.ROOT, "docs", "python.ipynb"), encoding="utf-8") as file:
            notebook = nbformat.reads(example.text(file.read()), as_version=4)
        with example.running(False):
            said, pictures = self.execute(notebook)
        self.assertEqual(pictures, 2)
        self.assertIn("epoch 0, ", said)
        self.assertIn("largest difference", said)
        self.assertIn("-6 dB holds from frame", said)

    def test_a_shell_pipe(self):
        """The line of docs/tools.md: the tap writes records, a program reads them from its standard input, and the tap
        ends well when its reader leaves."""
        example = Example(self.folder)
        with open(os.path.join(c.ROOT, "docs", "tools.md"), encoding="utf-8") as file:
            line = re.search(r"^    (convolv-tap .*--pipe \| .*)$", file.read(), re.M).group(1)
        with open(os.path.join(self.folder, "watch.py"), "w", encoding="utf-8") as file:
            file.write(f"import sys\nsys.path.insert(0, {PACKAGE!r})\nfrom convolv import collect, results\n"
                       "with results(sys.stdin.buffer, timeout=20) as blocks:\n"
                       "    got = collect(blocks, frames=4800)\n"
                       "    print(got.samples.shape, got.valid.all(), blocks.rate_hz, abs(got.samples).max(axis=0).round(1))\n")
        with example.running(True):
            shell = f"set -o pipefail; PATH={c.BUILD}:$PATH; " + line.replace("python3", sys.executable)
            result = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=2 * c.PATIENCE_S,
                                    stdin=subprocess.DEVNULL, check=False)
        self.assertEqual(result.stdout.strip(), "(4800, 2) True 48000.0 [1. 2.]", result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("listening on", result.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
