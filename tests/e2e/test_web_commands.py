#!/usr/bin/python3
# parallel: yes
"""Every command line of docs/web.md, with ports and addresses of this test's: convolv-web as it finds the daemon by
itself, a token and its file, TLS, and what curl asks."""
import os
import re
import shlex
import shutil
import signal as signals
import subprocess
import unittest

import convolvd as c

# What needs systemd (tests/systemd/packages.sh has the service running) or a second machine (ssh says what it would do).
TUNNEL = "ssh -L 8470:127.0.0.1:8470 user@measuring-machine"
ELSEWHERE = {"systemctl enable --now convolv-web", TUNNEL}

CONFIG = """[stream vessel]
source = generator
rate = 20 kHz
channels = 1
block = 200
filter = f
[filter f]
type = lowpass
cutoff = 5 kHz
[daemon]
runtime directory = {folder}
"""


def lines():
    """Its command lines, those with a backslash joined."""
    with open(os.path.join(c.ROOT, "docs", "web.md"), encoding="utf-8") as page:
        text = page.read().replace("\\\n", " ")
    return re.findall(r"^    ((?:convolv-web|curl|ssh|systemctl|openssl)\b.*)$", text, re.M)


class Commands(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.port = str(c.free_port())
        self.environment = {**os.environ, "PATH": c.BUILD + ":" + os.environ["PATH"], "RUNTIME_DIRECTORY": self.folder}
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout",
                        "key.pem", "-out", "chain.pem", "-days", "1", "-subj", "/CN=vessel.example"], cwd=self.folder,
                       capture_output=True, check=True)
        os.chmod(os.path.join(self.folder, "key.pem"), 0o600)
        self.token = ""

    def start(self, line):
        """convolv-web until the test ends; what it says first."""
        words = shlex.split(line.replace("8470", self.port))
        if "--listen" not in words:
            words += ["--listen", f"127.0.0.1:{self.port}"]
        web = subprocess.Popen(words, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, text=True,
                               preexec_fn=c.chosen_priority)
        self.addCleanup(web.stdout.close)
        self.addCleanup(web.wait)
        self.addCleanup(web.kill)

        def stop():
            web.send_signal(signals.SIGTERM)
            self.assertEqual(web.wait(c.PATIENCE_S), 0)

        return web.stdout.readline(), stop

    def run_line(self, line):
        line = line.replace("8470", self.port).replace("TOKEN", self.token)
        done = subprocess.run(["bash", "-c", line], cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=c.PATIENCE_S, check=False)
        self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
        return done.stdout

    def test_the_tunnel(self):
        """Its end here is the port that the page's address names, its end there where convolv-web listens."""
        if shutil.which("ssh") is None:
            self.skipTest("no ssh")
        said = self.run_line(TUNNEL.replace("ssh ", "ssh -F none -G ", 1)).splitlines()
        self.assertIn(f"localforward {self.port} [127.0.0.1]:{self.port}", said)
        self.assertIn("hostname measuring-machine", said)

    def test_every_line(self):
        commands = lines()
        self.assertGreaterEqual(len(commands), 7)
        self.assertLessEqual(ELSEWHERE, set(commands))
        plain, new_token, public = (line for line in commands if line.startswith("convolv-web"))
        asked = [line for line in commands if line.startswith("curl")]
        self.assertEqual(set(commands), ELSEWHERE | {plain, new_token, public, *asked})
        with c.Daemon(self.folder, CONFIG.format(folder=self.folder)) as daemon:
            told = self.run_line(new_token)
            self.token = re.search(r"^([0-9a-f]{64})$", told, re.M).group(1)
            path = os.path.join(self.folder, "web.tokens")
            with open(path, "w", encoding="ascii") as file:
                file.write(re.search(r"^(anna control [0-9a-f]{64})$", told, re.M).group(1) + "\n")
            os.chmod(path, 0o600)
            said, stop = self.start(plain)
            self.assertEqual(said, f"convolv-web: http://127.0.0.1:{self.port}/\n")
            c.wait_for(lambda: '"daemon":true' in self.run_line("curl -s http://127.0.0.1:8470/healthz").replace(" ", ""), "the daemon")
            self.assertIn('"vessel"', self.run_line(asked[0]))
            stop()
            said, stop = self.start(public)
            self.assertEqual(said, f"convolv-web: https://vessel.example:{self.port}/\n")
            self.assertIn('"holder":"anna"', self.run_line(
                "curl -sk -H 'Authorization: Bearer TOKEN' https://127.0.0.1:8470/api/v1/session").replace(" ", ""))
            stop()
            _, stop = self.start(plain + " --tokens web.tokens --allow-control")
            c.wait_for(lambda: '"daemon":true' in self.run_line("curl -s http://127.0.0.1:8470/healthz").replace(" ", ""), "the daemon")
            self.assertIn('"ok":true', self.run_line(asked[1]).replace(" ", ""))
            # Via the user that convolv-web runs as; the unit's is called convolv-web.
            c.wait_for(lambda: "(asked by anna via " in daemon.output(), "who asked, in the log")
            stop()
            daemon.stop()


if __name__ == "__main__":
    unittest.main(verbosity=2)
