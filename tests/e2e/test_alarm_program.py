#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 7 s
"""convolv-alarm among hostile files: whoever writes into its folder (a daemon that somebody has taken over) gets no
file of others read, nothing run but the program, no line of its own into the journal, and keeps no event from it."""
import json
import os
import resource
import subprocess
import time
import unittest

import convolvd as c

ALARM = os.path.join(c.BUILD, "convolv-alarm")

# Appends what it was given to a file, and fails where the event says so.
PROGRAM = r"""#!/usr/bin/python3
import json, os, sys
with open(sys.argv[1], "a", encoding="utf-8") as out:
    json.dump({"input": sys.stdin.read(), **{k: v for k, v in os.environ.items() if k.startswith("CONVOLVD_")}}, out)
    out.write("\n")
sys.exit(3 if os.environ["CONVOLVD_ALARM"] == "fails" else 0)
"""


def event(**members):
    return json.dumps({"alarm": "quiet", "state": "raised", "stream": "vessel", "channels": [1, 3], "quantity": "level", "value": 0.0012,
                       "limit": 0.002, "unit": "V", "realtime_ns": 1763820000000000000, "text": "level is low", **members})


class Program(unittest.TestCase):
    def setUp(self):
        temporary = c.temporary()
        self.addCleanup(temporary.cleanup)
        self.folder = os.path.join(temporary.name, "events")
        self.program, self.heard = os.path.join(temporary.name, "program"), os.path.join(temporary.name, "heard")
        self.outside = os.path.join(temporary.name, "outside.json")
        os.mkdir(self.folder)
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        os.chmod(self.program, 0o755)

    def put(self, name, text):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)

    def run_program(self, code, **more):
        done = subprocess.run([ALARM, self.folder, self.program, self.heard], capture_output=True, text=True, timeout=c.PATIENCE_S, check=False, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr

    def events(self):
        if not os.path.exists(self.heard):
            return []
        with open(self.heard, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_values_are_data(self):
        """No shell, no format, no variable but its own: whatever the values hold."""
        nasty = "$(touch pwned) `id` %n%s ; \n LD_PRELOAD=x \\ \" é"
        self.put("1.json", event(alarm=nasty, text=nasty, unit="V\n", channels=["x", None, 3], value="no number", limit=[1, [2]], realtime_ns=2**62))
        self.put("2.json", event(extra={"LD_PRELOAD": "x"}, LD_PRELOAD="x", stream=None))
        self.run_program(0, cwd=self.folder)
        first, second = self.events()
        self.assertEqual((first["CONVOLVD_ALARM"], first["CONVOLVD_TEXT"], first["CONVOLVD_UNIT"]), (nasty, nasty, "V\n"))
        self.assertEqual((first["CONVOLVD_CHANNELS"], first["CONVOLVD_VALUE"]), ("0,0,3", "no number"))
        self.assertEqual(json.loads(first["input"])["alarm"], nasty)
        self.assertEqual((second["CONVOLVD_STREAM"], second["CONVOLVD_CHANNELS"], second["CONVOLVD_TIME"]), ("", "1,3", "2025-11-22T14:00:00Z"))
        self.assertNotIn("LD_PRELOAD", second)
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_is_no_event(self):
        """Links, pipes, sockets, folders and garbage reach no program; those behind them do."""
        with open(self.outside, "w", encoding="utf-8") as file:
            file.write(event(alarm="of somebody else"))
        os.symlink(self.outside, os.path.join(self.folder, "1.json"))
        os.symlink(self.folder, os.path.join(self.folder, "2.json"))
        os.mkfifo(os.path.join(self.folder, "3.json"))
        os.mkdir(os.path.join(self.folder, "4.json"))
        self.put("5.json", b"\xff\xfe{")
        self.put("6.json", "[" * 60000)
        self.put("7.json", "{" + " " * 70000 + "}")
        self.put("8.json", "")
        self.put("9.json", "[1]")
        self.put("another name", "{}")
        self.put(".being-written", event())
        self.put("9a.json", '{"alarm": "a\\u0000b"}')
        self.put("z.json", event(alarm="true"))
        said = self.run_program(1)
        self.assertEqual([heard["CONVOLVD_ALARM"] for heard in self.events()], ["", "true"])
        self.assertEqual(said.count("was no event of convolvd; it is removed"), 10, said)
        self.assertEqual(os.listdir(self.folder), [".being-written"])
        self.assertTrue(os.path.exists(self.outside))

    def test_what_cannot_be_removed(self):
        """A folder with something in it stays, is told once, and keeps no event from the program."""
        os.makedirs(os.path.join(self.folder, "1.json", "inside"))
        self.put("2.json", event(alarm="behind it"))
        begun = time.monotonic()
        said = self.run_program(1)
        self.assertGreater(time.monotonic() - begun, 1, "the path unit would be started again at once, and give up")
        self.assertEqual([heard["CONVOLVD_ALARM"] for heard in self.events()], ["behind it"])
        self.assertEqual(said.count("cannot be removed"), 1, said)
        self.assertEqual(os.listdir(self.folder), ["1.json"])

    def test_names_forge_no_line(self):
        """Of the journal: a name goes there without its control characters."""
        self.put("a\nconvolv-alarm: all is well\x1b[2J.json", "garbage")
        said = self.run_program(1)
        self.assertEqual(said.count("\n"), 1, repr(said))
        self.assertNotIn("\x1b", said)

    def test_a_program_that_fails_is_told_and_the_next_one_runs(self):
        self.put("1.json", event(alarm="fails"))
        self.put("2.json", event(alarm="works"))
        said = self.run_program(1)
        self.assertEqual([heard["CONVOLVD_ALARM"] for heard in self.events()], ["fails", "works"])
        self.assertIn("failed (exit status 3)", said)
        os.chmod(self.program, 0o644)
        self.put("3.json", event())
        if os.geteuid() != 0 or not os.access(self.program, os.X_OK):
            self.assertIn("cannot be started: Permission denied", self.run_program(1))

    def test_ten_thousand_files(self):
        """Of no event: handled in bounded memory and time."""
        for number in range(10000):
            os.mknod(os.path.join(self.folder, f"{number:05}.json"))
        self.run_program(1, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (64 << 20, 64 << 20)) if not c.SANITIZED else None)
        self.assertEqual((os.listdir(self.folder), self.events()), ([], []))


if __name__ == "__main__":
    unittest.main(verbosity=2)
