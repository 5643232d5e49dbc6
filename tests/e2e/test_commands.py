#!/usr/bin/python3
# parallel: yes
# takes: 4 s CPU in 4 s
"""The commands that print and leave: what they say, and their exit status."""
import os
import subprocess
import tempfile
import unittest

import convolvd as c

CONFIG = """[device]
device = {device}
[stream g]
source = generator
rate = 1 MHz
pace = fast
duration = 1000 frames
filter = i
[filter i]
type = identity
"""


def run(*arguments, stdout=subprocess.PIPE, **environment):
    result = subprocess.run([os.path.join(c.BUILD, "convolvd"), *arguments], stdin=subprocess.DEVNULL, stdout=stdout,
                            stderr=subprocess.PIPE, text=True, timeout=c.PATIENCE_S, check=False,
                            env={**os.environ, **environment})
    return result.returncode, result.stdout, result.stderr


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()

    def write(self, text):
        path = os.path.join(self.folder, "a.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def with_home(self, home, *arguments):
        """Runs a command where PoCL's own choice of a cache is inside `home`."""
        environment = {key: value for key, value in os.environ.items() if key not in ("POCL_CACHE_DIR", "XDG_CACHE_HOME")}
        return subprocess.run([os.path.join(c.BUILD, "convolvd"), *arguments], capture_output=True, text=True,
                              timeout=c.PATIENCE_S, check=False, env={**environment, "HOME": home})

    def test_a_home_that_cannot_be_written(self):
        """PoCL shows no device then: its cache goes elsewhere, with a warning that says why."""
        home = os.path.join(self.folder, "home")
        with open(home, "w", encoding="utf-8"):
            pass
        result = self.with_home(home, "--list-devices")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("0: ", result.stdout)
        self.assertIn(f"{home}/.cache/pocl: nothing can be written there (Not a directory); PoCL compiles in", result.stderr)

    def test_the_cache_of_the_configuration_is_pocls(self):
        """From its first call on: before, PoCL had taken a directory of its own."""
        home, cache = os.path.join(self.folder, "home"), os.path.join(self.folder, "cache")
        os.mkdir(home)
        path = self.write(CONFIG.format(device=f"cpu\ncache = {cache}"))
        os.mkdir(cache)
        result = self.with_home(home, "--explain", "--config", path)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(os.listdir(home), [])
        self.assertIn("pocl", os.listdir(cache))

    def test_texts(self):
        for arguments, words in ((["--help"], ["usage: convolvd", "--list-devices", "SIGUSR1"]),
                                 (["--help-config"], ["[stream", "full scale", "receive buffer"]),
                                 (["--man", "convolvd"], [".TH ", "list\\-devices"]),
                                 (["--man", "convolvd.conf"], [".TH ", "full scale"]),
                                 (["--version"], ["convolvd 0."]),
                                 (["--list-variants"], ["local\n", "general\n"])):
            code, out, log = run(*arguments)
            self.assertEqual((code, log), (0, ""), arguments)
            for word in words:
                self.assertIn(word, out, arguments)

    def test_devices(self):
        code, out, _ = run("--list-devices")
        self.assertEqual(code, 0)
        self.assertTrue(out.startswith("0: "), out)
        # What is listed can be named; what is not is answered with the list.
        name = out.splitlines()[0][3:]
        self.assertEqual(run(self.write(CONFIG.format(device=name[:20])))[0], 0)
        self.assertEqual(run(self.write(CONFIG.format(device="0")))[0], 0)
        code, _, log = run(self.write(CONFIG.format(device="no such device")))
        self.assertEqual(code, 1)
        self.assertIn('"no such device"', log)
        self.assertIn(name, log)

    def test_devices_by_their_pci_address(self):
        """What the driver tells by either extension; the memory node is the kernel's."""
        library = os.path.abspath(f"{c.BUILD}/tests/faulty_opencl.so")
        here = sorted(os.listdir("/sys/bus/pci/devices")) if os.path.isdir("/sys/bus/pci/devices") else []
        first = next((name for name in here if os.path.exists(f"/sys/bus/pci/devices/{name}/numa_node")), "0000:fe:1d.3")
        node = -1
        if here and first in here:
            with open(f"/sys/bus/pci/devices/{first}/numa_node", encoding="ascii") as file:
                node = int(file.read())
        for way in ("khr", "nv"):
            system = {"LD_PRELOAD": library, "FAULTY_PCI": way, "FAULTY_PCI_AT": f"{first} 00ab:3b:1f.2",
                      "POCL_DEVICES": "pthread pthread"}
            code, out, log = run("--list-devices", **system)
            self.assertEqual(code, 0, log)
            line = f"   PCI {first}" + (f", memory node {node}" if node >= 0 else "")
            self.assertIn(line, out.splitlines(), way)
            self.assertIn("   PCI 00ab:3b:1f.2", out.splitlines(), way)
            names = [first, "00AB:3b:1F.2"] + ([first[5:]] if first.startswith("0000:") else [])
            for name in names:
                self.assertEqual(run(self.write(CONFIG.format(device=name)), **system)[0], 0, (way, name))
            code, _, log = run(self.write(CONFIG.format(device="3b:1f.2")), **system)  # of domain 0: not there
            self.assertEqual(code, 1)
            self.assertIn('"3b:1f.2"', log)
        self.assertNotIn("PCI", run("--list-devices")[1])  # a CPU has none

    def test_no_opencl_names_the_package(self):
        for arguments in (["--list-devices"], [self.write(CONFIG.format(device="auto"))]):
            code, _, log = run(*arguments, OCL_ICD_VENDORS=os.path.join(self.folder, "none"))
            self.assertEqual(code, 1)
            self.assertIn("install pocl-opencl-icd", log)

    def test_what_is_wrong_is_said(self):
        path = self.write(CONFIG.format(device="cpu"))
        for arguments, words in ((["--chek", path], "no such option; see convolvd --help"),
                                 (["--man", "convolv"], "--man convolvd.conf"),
                                 (["--design", "nope", "-c", path], "has: i"),
                                 (["--check", os.path.join(self.folder, "none.conf")], "none.conf"),
                                 (["--variant", "magic", path], 'no variant is named "magic"'),
                                 ([path, path], ".conf.d/")):
            code, _, log = run(*arguments)
            self.assertEqual(code, 1, arguments)
            self.assertIn(words, log, arguments)

    def test_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            self.assertEqual(run("--help", stdout=full)[0], 1)

    def test_check_touches_no_device(self):
        path = self.write(CONFIG.format(device="cpu"))
        code, out, _ = run("-c", path, "--check", OCL_ICD_VENDORS=os.path.join(self.folder, "none"))
        self.assertEqual(code, 0)
        self.assertIn("filter delay     0 frames", out)


if __name__ == "__main__":
    unittest.main(verbosity=2)
