#!/usr/bin/python3
# long: yes, it builds the packages twice and makes a minimal system
# turns: yes
# takes-long: 455 s CPU in 417 s
# timeout: 3000
# parallel: yes
"""The Debian packages: built twice and equal, without a word from lintian, and in a minimal system under a booted
systemd installed, used, upgraded in the middle of a stream, and purged (tests/systemd/packages.sh). What the packages
depend on comes from the mirror that this machine uses; building needs none."""
import glob
import os
import platform
import re
import shutil
import subprocess
import unittest

import convolvd as c

PACKAGES = ("convolv-tools", "convolv-web", "convolvd", "convolvd-doc", "libconvolv-dev", "python3-convolv")
SYSTEM = "systemd,systemd-sysv,dbus,man-db,python3-minimal"


def run(*command, **options):
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **options)
    if result.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: {result.returncode}\n{(result.stdout + result.stderr)[-6000:]}")
    return result.stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = c.temporary()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.debs = os.path.join(cls.folder.name, "debs")
        # In a namespace without network.
        cls.said = run("unshare", "--net", "sh", os.path.join(c.ROOT, "clients", "packaging", "deb"), "--twice", cls.debs)

    def test_1_built_twice_and_equal(self):
        self.assertIn("built twice, equal", self.said)
        names = sorted(os.path.basename(path).split("_")[0] for path in glob.glob(os.path.join(self.debs, "*.deb")))
        self.assertEqual(names, sorted(PACKAGES))

    def test_2_lintian(self):
        changes, = glob.glob(os.path.join(self.debs, "*.changes"))
        result = subprocess.run(["lintian", "--no-cfg", "--allow-root", "--fail-on", "error,warning", changes],
                                capture_output=True, text=True, check=False)
        self.assertEqual([line for line in result.stdout.splitlines() if line.startswith(("E:", "W:"))], [])
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_3_installed_upgraded_purged(self):
        if os.geteuid() != 0:
            self.skipTest("a minimal system needs root")
        root, upgrade = os.path.join(self.folder.name, "root"), os.path.join(self.folder.name, "upgrade")
        self.make_system(root)
        self.make_upgrade(upgrade)
        boot = os.path.join(c.ROOT, "tests", "systemd", "boot")
        result = subprocess.run([boot, "--lower", root, "--out", self.folder.name, "--timeout", "400",
                                 os.path.join(c.ROOT, "tests", "systemd", "packages.sh"), self.debs, upgrade],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if result.returncode == 77:
            self.skipTest(result.stdout.strip().splitlines()[-1])
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("nothing is left", result.stdout)
        self.assertNotIn("not ok", result.stdout)

    def make_system(self, root):
        """A minimal Debian of this machine's release with the packages' dependencies, and none of the packages."""
        release = platform.freedesktop_os_release()["VERSION_CODENAME"]
        targets = run("apt-get", "indextargets", "--format", "$(CODENAME) $(ORIGIN) $(REPO_URI)", "Identifier: Packages")
        mirrors = [line.split()[2] for line in targets.splitlines() if line.startswith(f"{release} Debian ")]
        mirror = mirrors[0] if mirrors else "http://deb.debian.org/debian"
        run("debootstrap", "--variant=minbase", f"--include={SYSTEM}", release, root, mirror)
        shutil.copytree(self.debs, os.path.join(root, "debs"))
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        names = [f"./debs/{os.path.basename(path)}" for path in glob.glob(os.path.join(self.debs, "*.deb"))]
        for command in (["apt-get", "install", "-y", "-q", "--no-install-recommends", *names],
                        ["dpkg", "--purge", *PACKAGES], ["rm", "-rf", "/debs"]):
            run("chroot", root, *command, env=environment, cwd=root)

    def make_upgrade(self, folder):
        """The same packages with a higher version."""
        os.makedirs(folder)
        for path in glob.glob(os.path.join(self.debs, "*.deb")):
            tree = os.path.join(self.folder.name, "unpacked")
            run("dpkg-deb", "-R", path, tree)
            control = os.path.join(tree, "DEBIAN", "control")
            with open(control, encoding="utf-8") as file:
                text = re.sub(r"^Version: (.*)$", r"Version: \1+1", file.read(), flags=re.M)
                text = re.sub(r"\(= ([^)]+)\)", r"(= \1+1)", text)
            with open(control, "w", encoding="utf-8") as file:
                file.write(text)
            run("dpkg-deb", "--root-owner-group", "-Zgzip", "-b", tree, folder)
            shutil.rmtree(tree)


if __name__ == "__main__":
    unittest.main(verbosity=2)
