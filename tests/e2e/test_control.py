#!/usr/bin/python3
# parallel: yes
# threads: yes
# takes: 3 s CPU in 9 s
"""The control sockets: roles, the table of commands, changes and who asked for them, events."""
import getpass
import glob
import json
import os
import pty
import re
import select
import shlex
import shutil
import socket
import stat
import subprocess
import termios
import time
import unittest

import numpy as np

import convolvd as c

RATE = 48000
# A build that is ten times slower has a tenth of the blocks to compute: a change is refused where the load is too high.
BLOCK = 2048 if c.SANITIZED else 256


class Link:
    """A connection to one control socket."""

    def __init__(self, folder, role):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(c.PATIENCE_S)
        self.socket.connect(os.path.join(folder, f"{role}.sock"))
        self.lines = self.socket.makefile()
        self.events = []

    def read(self):
        return json.loads(self.lines.readline())

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({"command": command, **arguments}).encode() + b"\n")
        while "ok" not in (answer := self.read()):
            self.events.append(answer)
        return answer

    def event(self, kind, **wanted):
        """The next event of this kind."""
        while True:
            line = self.events.pop(0) if self.events else self.read()
            event = line.get("event", {})
            if event.get("kind") == kind and all(event.get(k) == v for k, v in wanted.items()):
                return event

    def close(self):
        self.lines.close()
        self.socket.close()


def config(port, out, extra=""):
    return (f"[filter one]\ntype = lowpass\ncutoff = 4 kHz\ntaps = 63\n"
            f"[filter two]\ntype = lowpass\ncutoff = 9 kHz\ntaps = 63\n"
            f"[stream s]\nsource = rtp\naddress = 127.0.0.1:{port}\nrate = 48 kHz\nchannels = 2\nblock = {BLOCK}\nfilter = one\n"
            + c.rtp_sink("out", "s", out) + extra)


class Case(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.port = c.free_port()

    def daemon(self, extra=""):
        daemon = c.Daemon(self.folder, config(self.port, c.free_port(), extra))
        self.addCleanup(daemon.__exit__, None, None, None)
        daemon.__enter__()
        return daemon

    def rig(self):
        """Sends until the test ends: a change waits for its frame."""
        rig = c.Process("convolv-rig", ["--to", f"127.0.0.1:{self.port}", "--rate", RATE, "--channels", 2, "--seconds", 600])
        self.addCleanup(rig.__exit__, None, None, None)
        rig.__enter__()

    def link(self, role):
        link = Link(self.folder, role)
        self.addCleanup(link.close)
        return link


class Control(Case):
    def test_roles(self):
        self.daemon()
        observe, control = self.link("observe"), self.link("control")
        self.assertEqual(stat.S_IMODE(os.stat(f"{self.folder}/control.sock").st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(os.stat(f"{self.folder}/observe.sock").st_mode), 0o660)
        self.assertEqual(observe.ask("commands")["role"], "observe")
        table = control.ask("commands", id=[1, "x"])
        self.assertEqual((table["role"], table["id"]), ("control", [1, "x"]))
        for row in table["commands"]:
            if row["role"] == "control":
                answer = observe.ask(row["name"])
                self.assertEqual((answer["ok"], answer["code"]), (False, "role"), row["name"])
        # Whoever asks for somebody else has the lower of the two roles.
        self.assertEqual(control.ask("gain", stream="s", gain_db=1, holder="anna", role="observe")["code"], "role")
        self.assertEqual(observe.ask("gain", stream="s", gain_db=1, holder="anna", role="control")["code"], "role")
        self.assertEqual(control.ask("gain", stream="s", gain_db=1, role="root")["code"], "syntax")
        self.assertEqual(control.ask("gain", stream="s", gain_db=1, holder="a\nb")["code"], "syntax")
        self.assertEqual(control.ask("streams")["streams"][0]["name"], "s")

    def test_arguments_are_proven(self):
        self.daemon()
        control = self.link("control")
        for arguments in ({}, {"stream": "s"}, {"stream": "s", "gain_db": "6"}, {"stream": "s", "gain_db": 201},
                          {"stream": "s", "gain_db": "6 Hz"}, {"stream": "s", "gain_db": "-6 dBFS"}, {"stream": "s", "gain_db": "201 dB"},
                          {"stream": "s", "gain_db": 0, "output": 0}, {"stream": "s", "gain_db": 0, "output": 1.5},
                          {"stream": "s", "gain_db": 0, "frame": -1}, {"stream": "s", "gain_db": 0, "frame": 2**60},
                          {"stream": "s", "gain_db": 0, "more": 1}, {"stream": "s\x1b[2J", "gain_db": 0},
                          {"stream": "", "gain_db": 0}, {"stream": "s" * 65, "gain_db": 0}, {"stream": ["s"], "gain_db": 0}):
            answer = control.ask("gain", **arguments)
            self.assertEqual((answer["ok"], answer["code"]), (False, "argument"), arguments)
        self.assertEqual(control.ask("gain", stream="t", gain_db=0)["code"], "stream")
        self.assertIn("2 outputs", control.ask("gain", stream="s", gain_db=0, output=3)["error"])
        self.assertEqual(control.ask("filter", stream="s", filter="one", how="slowly")["code"], "argument")
        self.assertIn("no filter three", control.ask("filter", stream="s", filter="three")["error"])
        self.assertEqual(control.ask("none such")["code"], "command")
        self.rig()
        self.assertTrue(control.ask("gain", stream="s", gain_db="-6 dB")["ok"])

    def test_who_changed_what(self):
        daemon = self.daemon()
        me = f"{getpass.getuser()} (uid {os.getuid()})"
        observe, control = self.link("observe"), self.link("control")
        self.assertTrue(observe.ask("events")["ok"])
        self.rig()
        frame = control.ask("gain", stream="s", gain_db=-6, output=2)["frame"]
        event = observe.event("gain")
        self.assertEqual((event["stream"], event["frame"], event["who"]), ("s", frame, me))
        self.assertIn("output 2 gain -6.00 dB", event["text"])
        self.assertTrue(control.ask("mute", stream="s", holder="anna")["ok"])
        self.assertEqual(observe.event("mute")["who"], f"anna via {me}")
        self.assertTrue(control.ask("filter", stream="s", filter="two", how="hard")["ok"])
        self.assertEqual(observe.event("filter-change")["who"], me)
        marks = control.ask("mark", text="load step 2")["marks"]
        event = observe.event("mark")
        self.assertEqual((event["text"], event["frame"]), ("mark: load step 2", marks[0]["frame"]))
        # One who comes later hears of it too.
        late = self.link("observe")
        self.assertGreater(late.ask("events", since=0)["next"], event["number"])
        self.assertEqual(late.event("mark")["number"], event["number"])
        self.assertTrue(daemon.said("stream s: filter two from output frame"))
        self.assertTrue(daemon.said(f"(asked by {me})"))

    def test_a_cancelling_event_follows_a_change_that_did_not_take_place(self):
        self.daemon()
        me = f"{getpass.getuser()} (uid {os.getuid()})"
        observe, control = self.link("observe"), self.link("control")
        self.assertTrue(observe.ask("events")["ok"])
        self.rig()
        far, later = 1 << 40, 1 << 41
        self.assertTrue(control.ask("filter", stream="s", filter="two", how="hard", frame=later)["ok"])
        self.assertTrue(control.ask("filter", stream="s", filter="two", how="hard", frame=far)["ok"])
        at = control.ask("filter", stream="s", filter="two", how="hard")["frame"]
        wanted = [(later, "filter two from output frame 2199023255552 on"),
                  (later, "filter two is cancelled: it does not begin with output frame 2199023255552"),
                  (far, "filter two from output frame 1099511627776 on"),
                  (far, "filter two is cancelled: it does not begin with output frame 1099511627776"),
                  (at, f"filter two from output frame {at} on")]
        for frame, text in wanted:
            event = observe.event("filter-change")
            self.assertEqual((event["frame"], event["who"]), (frame, me))
            self.assertTrue(event["text"].startswith(text), event["text"])
        # A gain goes first: what waits is cancelled, and published once more.
        self.assertTrue(control.ask("filter", stream="s", filter="one", how="hard", frame=far)["ok"])
        self.assertTrue(control.ask("gain", stream="s", gain_db=-6)["ok"])
        texts = [observe.event("filter-change")["text"] for _ in range(3)]
        self.assertEqual([text.split(":")[0] for text in texts],
                         [f"filter one from output frame {far} on", "filter one is cancelled", f"filter one from output frame {far} on"])

    def test_a_transaction_takes_one_frame(self):
        self.daemon(f"[stream t]\nsource = generator\nrate = 24 kHz\nchannels = 1\nblock = {BLOCK // 4}\nfilter = one\npace = realtime\n"
                    + c.rtp_sink("more", "t", c.free_port()))
        self.rig()
        control = self.link("control")
        commands = [{"command": "gain", "stream": "s", "gain_db": -6, "output": 1}, {"command": "mute", "stream": "s", "output": 2},
                    {"command": "filter", "stream": "s", "filter": "two"}]
        answer = control.ask("transaction", commands=commands)
        self.assertTrue(answer["ok"], answer)
        self.assertEqual(len({change["frame"] for change in answer["changes"]}), 1)
        stream = control.ask("status", format="json")["status"]["streams"][0]
        self.assertEqual(stream["filter"]["name"], "two")
        self.assertEqual(stream["gains"]["muted"], [False, True])
        self.assertEqual(stream["gains"]["since_frame"], answer["changes"][0]["frame"])
        self.assertIn(f"(uid {os.getuid()})", stream["changed_by"])
        # Two streams, and a frame still to come for both.
        both = [{"command": "gain", "stream": name, "gain_db": 0} for name in "st"]
        for _ in range(20):  # a busy machine may prepare it too late for one of them, and says so
            answer = control.ask("transaction", commands=both)
            if "while the change was prepared" not in answer.get("error", ""):
                break
        self.assertEqual({change["stream"] for change in answer.get("changes", ())}, {"s", "t"}, answer)
        # One that is wrong keeps the others from happening.
        before = control.ask("status", format="json")["status"]["streams"][0]["gains"]["changes"]
        for wrong in ({"command": "gain", "stream": "u", "gain_db": 0}, {"command": "gain", "stream": "s", "gain_db": 300},
                      {"command": "reload"}, {"command": "gain", "stream": "s", "gain_db": 0, "frame": 1}, 7,
                      {"command": "filter", "stream": "s", "filter": "three"}):
            self.assertFalse(control.ask("transaction", commands=[commands[0], wrong])["ok"], wrong)
        self.assertEqual(control.ask("transaction", commands=[commands[0]] * 33)["code"], "argument")
        self.assertEqual(control.ask("status", format="json")["status"]["streams"][0]["gains"]["changes"], before)

    def test_marks_lie_in_the_sidecars(self):
        recordings = "".join(f"[sink {name}]\ntype = recording\nstream = s\npath = {self.folder}/{name}.wav\n{keys}" for name, keys in
                             (("out-file", ""), ("in-file", "record = input\n")))
        daemon = self.daemon(recordings + "")
        self.rig()
        control = self.link("control")
        c.wait_for(lambda: control.ask("status", format="json")["status"]["streams"][0]["frames_out"]["out"] > 4800, "frames")
        mark = control.ask("mark", text="load step 2", holder="anna")["marks"][0]
        c.wait_for(lambda: control.ask("status", format="json")["status"]["streams"][0]["frames_out"]["out"] > mark["frame"] + 4800, "more")
        control.ask("mark", text="load step 3", stream="s")
        daemon.stop()
        for name in ("out-file", "in-file"):
            with open(f"{self.folder}/{name}.wav.json", encoding="utf-8") as file:
                marks = json.load(file)["marks"]
            self.assertEqual([m["text"] for m in marks][:1], ["load step 2"], name)
            self.assertEqual((marks[0]["frame"], marks[0]["realtime_ns"]), (mark["frame"], mark["realtime_ns"]))
            self.assertTrue(marks[0]["who"].startswith("anna via "))

    def test_levels_and_held_peaks(self):
        self.daemon()
        self.rig()
        control = self.link("control")

        def channel():
            return control.ask("status", format="json")["status"]["streams"][0]["channels"][0]
        c.wait_for(lambda: (channel()["rms_1s"] or 0) > 0, "a level")
        now = channel()
        self.assertGreaterEqual(now["peak_held"], now["peak_1s"])
        self.assertGreaterEqual(now["peak_1s"], now["rms_1s"])
        self.assertEqual(now["full_scale"], 1)
        self.assertTrue(control.ask("reset-counters", stream="s")["ok"])
        stream = control.ask("status", format="json")["status"]["streams"][0]
        self.assertIn("held_since_realtime_ns", stream)
        self.assertGreaterEqual(stream["channels"][0]["peak"], now["peak_held"])
        self.assertEqual(control.ask("reset-counters", stream="t")["code"], "stream")

    def test_reload_answers(self):
        daemon = self.daemon()
        control = self.link("control")
        answer = control.ask("reload")
        self.assertEqual((answer["ok"], answer["kept"], answer["changed"]), (True, 1, 0))
        with open(daemon.path, "a", encoding="utf-8") as file:
            file.write("[stream broken]\nnonsense = 1\n")
        answer = control.ask("reload")
        self.assertEqual((answer["ok"], answer["code"]), (False, "config"))
        self.assertNotIn("above", answer["error"])
        checked = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "check", daemon.path, "--json"], capture_output=True,
                                 text=True, check=False)
        self.assertEqual(answer["problems"], json.loads(checked.stdout)["problems"])
        self.assertIn("nonsense", " ".join(problem["text"] for problem in answer["problems"]))

    def test_no_socket_is_told(self):
        daemon = self.daemon()
        with c.temporary() as folder:
            second = c.Daemon(folder, config(c.free_port(), c.free_port(), f"[daemon]\nruntime directory = {self.folder}\n"))
            with second:
                self.assertTrue(second.said("belongs to another daemon"))
                self.assertTrue(second.said("no control socket could be opened"))
                second.stop()
        self.assertTrue(self.link("observe").ask("streams")["ok"])
        daemon.stop()
        self.assertFalse(os.path.exists(f"{self.folder}/control.sock"))


class Record(Case):
    """record-start and record-stop."""

    def test_two_files_hold_what_lies_between(self):
        names = {"out-file": "", "in-file": "record = input\n", "later": "start = command\n"}
        daemon = self.daemon("".join(f"[sink {name}]\ntype = recording\nstream = s\npath = {self.folder}/{name}.wav\n{keys}"
                                     for name, keys in names.items()))
        self.rig()
        control, events = self.link("control"), self.link("observe")
        events.ask("events", since=0)

        def status():
            return control.ask("status", format="json")["status"]["streams"][0]

        def wait_frames():
            goal = status()["frames_out"]["out"] + 4800
            c.wait_for(lambda: status()["frames_out"]["out"] > goal, "frames")

        def states():
            return {r["name"]: (r["state"], r["running"]) for r in status()["recordings"]}

        def told(command, **arguments):
            return {r["name"]: r for r in control.ask(command, stream="s", **arguments)["recordings"]}
        wait_frames()
        self.assertEqual(control.ask("record-stop", stream="t")["code"], "stream")
        for sink in ("none", "out"):  # the latter is no recording
            self.assertEqual(control.ask("record-stop", stream="s", sink=sink)["code"], "sink")
        stop = told("record-stop", holder="anna")
        self.assertEqual({name: r["changed"] for name, r in stop.items()}, {"out-file": True, "in-file": True, "later": False})
        c.wait_for(lambda: set(states().values()) == {("stopped", False)}, "the files to end")
        first = {name: c.load_json(f"{self.folder}/{name}.wav.json") for name in ("out-file", "in-file")}
        wait_frames()
        self.assertFalse(any(r["changed"] for r in told("record-stop").values()))
        start = told("record-start", sink="later") | told("record-start")
        self.assertFalse(start["later"]["changed"])
        wait_frames()
        c.wait_for(lambda: set(states().values()) == {("recording", True)}, "all to record")
        shown = {r["name"]: r for r in status()["recordings"]}
        self.assertTrue(shown["out-file"]["path"].endswith("/out-file-0002.wav"))
        self.assertGreater(shown["out-file"]["disk_free_bytes"], 0)
        self.assertIn("  recording     recording; ", self.link("observe").ask("status")["table"])
        daemon.stop()
        ledgers = {sink["name"]: sink for sink in c.check_ledgers(c.load_json(daemon.status_path))["streams"][0]["sinks"]}
        for name, side in first.items():
            until, since = stop[name]["frame"], start[name]["frame"]
            later = c.load_json(f"{self.folder}/{name}-0002.wav.json")
            self.assertEqual((side["first_frame"] + side["frames"], later["first_frame"]), (until, since), name)
            self.assertTrue(side["complete"] and later["complete"])
            self.assertEqual((side["began"], side["ended"], later["began"], later["ended"]), ("open", "command", "command", "end"))
            self.assertTrue(side["ended_by"].startswith("anna via "))
            self.assertEqual(later["missing_before"], [{"from": until, "until": since, "cause": "stopped"}])
            frames = [len(c.read_recording(f"{self.folder}/{name}{number}.wav")) for number in ("", "-0002")]
            self.assertEqual(frames, [side["frames"], later["frames"]])
            self.assertEqual((ledgers[name]["delivered"], ledgers[name]["dropped"]["stopped"]), (sum(frames), since - until))
        self.assertEqual(c.load_json(f"{self.folder}/later.wav.json")["began"], "command")
        self.assertEqual(ledgers["later"]["packets"], 1)
        event = events.event("record")
        self.assertEqual((event["stream"], event["text"], event["frame"]), ("s", "sink out-file stops recording", stop["out-file"]["frame"]))
        self.assertTrue(event["who"].startswith("anna via "))
        for name in names:  # nobody listens to the sink `out`, which may say so
            self.assertFalse(any(f"sink {name}:" in line and "were not delivered" in line for line in daemon.lines),
                             daemon.output())


class Tool(Case):
    """convolvctl against the same daemon, and docs/control.md."""

    def ctl(self, *words, code=0, **more):
        done = subprocess.run([os.path.join(c.BUILD, "convolvctl"), *words], env={**os.environ, "RUNTIME_DIRECTORY": self.folder},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=c.PATIENCE_S, check=False, **more)
        self.assertEqual(done.returncode, code, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout if code == 0 else done.stderr

    def test_words(self):
        self.daemon()
        self.rig()
        self.assertIn("rate [Hz]", self.ctl("streams"))
        self.assertEqual(self.ctl("streams", "--names"), "s\n")
        self.assertIn("stream s: 2 channels", self.ctl("status"))
        self.assertEqual(json.loads(self.ctl("--json", "status"))["status"]["streams"][0]["name"], "s")
        self.assertRegex(self.ctl("gain", "s", "-6", "--output", "2"), r"stream s: from output frame \d+ on")
        self.assertTrue(json.loads(self.ctl("mute", "s", "off", "--json"))["ok"])
        self.assertIn("from output frame", self.ctl("filter", "s", "two", "--fade", "20ms"))
        self.assertIn("epoch 0, frame", self.ctl("mark", "load step 2"))
        events = self.ctl("events")
        for text in ("output 2 gain -6.00 dB", "no longer muted", "filter two from output frame", "mark: load step 2", f"(uid {os.getuid()})"):
            self.assertIn(text, events)
        self.assertIn("kept: 1", self.ctl("reload"))
        self.assertIn("takes no words but --or-signal", self.ctl("reload", "now", code=1))
        self.assertIn("levels in dB of full scale", self.ctl("watch", "--seconds", "0.1"))
        for words, text in ((("gain", "s"), "needs `gain_db`"), (("gain", "s", "loud"), "is a number in dB"), (("gain", "s", "1", "2"), "too many"),
                            (("gain", "s", "1", "--speed", "2"), "no such option"), (("sing",), "no such command"),
                            (("gain", "t", "1"), "there is no stream t"), (("filter", "s", "two", "--fade", "2 weeks"), "is a number in ms"),
                            (("watch", "s"), "takes nothing but")):
            self.assertIn(text, self.ctl(*words, code=1))

    def test_replies_for_people(self):
        """What is more than names and values is a line each, not the JSON that programs get."""
        self.daemon("[analysis loud]\ntype = hits\nstream = s\nthreshold = 0.1 FS\nmax record = 5 ms\n")
        self.rig()
        self.assertRegex(self.ctl("transaction", "gain s -6", "mute s --output 2"),
                         r"\A(stream s: from output frame \d+ on\n){2}\Z")
        self.assertRegex(self.ctl("noise-floor", "s"), r"\Achannel 1: [\d.e-]+\nchannel 2: [\d.e-]+\n\Z")
        self.assertRegex(self.ctl("response", "s"), r"(?m)^one +63 taps +delay 31 frames +[0-9a-f]{12}$")
        self.assertRegex(self.ctl("analyses"), r"\Aloud: hits of stream s, \d+ events")
        c.wait_for(lambda: "loud" in self.ctl("hits"), "a hit")
        self.assertRegex(self.ctl("transient", "loud", "1"), r"\A\S+ \S+ loud hit 1 channel \d.*\n\d+ samples at \d+ Hz")

    def test_json_of_what_fails(self):
        """Refused, or nobody there: an object for programs, the same sentence for people."""
        for place, text in ((self.folder, "there is no filter none"), (os.path.join(self.folder, "nobody"), "no daemon answers")):
            if place == self.folder:
                self.daemon()
                self.rig()
            done = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--json", "--socket", os.path.join(place, "control.sock"),
                                   "filter", "s", "none"], capture_output=True, text=True, timeout=c.PATIENCE_S, check=False)
            reply = json.loads(done.stdout)
            self.assertEqual((done.returncode, reply["ok"]), (1, False))
            self.assertIn(text, reply["error"])
            self.assertEqual(done.stderr, f"convolvctl: {reply['error']}\n")

    def test_json_everywhere(self):
        """What needs no daemon, too: problems with their place, and what people see as `report`."""
        with self.daemon() as daemon:
            self.rig()
            lines = self.ctl("watch", "--seconds", "0.1", "--json").splitlines()
            self.assertEqual([json.loads(line)["status"]["streams"][0]["name"] for line in lines], ["s"] * len(lines))
            self.assertEqual(json.loads(self.ctl("save", "--write", "--json")), {"ok": True, "path": None})
            self.ctl("gain", "s", "-6")
            saved = json.loads(self.ctl("save", "--write", "--json"))
            self.assertTrue(saved["ok"] and os.path.exists(saved["path"]), saved)
            path = daemon.path
        for words in (("check", path), ("explain", path), ("list-devices",)):
            answer = json.loads(self.ctl("--json", *words))
            self.assertTrue(answer["ok"], answer)
            first = self.ctl(*words).splitlines()[0]
            self.assertEqual(answer["report"].splitlines()[0], first)
        with open(path, "a", encoding="utf-8") as file:
            file.write("[stream broken]\n")
        done = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "check", path, "--json"], capture_output=True, text=True,
                              timeout=c.PATIENCE_S, check=False)
        answer = json.loads(done.stdout)
        self.assertEqual((done.returncode, done.stderr, answer["ok"]), (1, "", False))
        wrong = [problem for problem in answer["problems"] if problem["severity"] == "error"]
        self.assertEqual({problem["file"] for problem in wrong}, {path})
        self.assertTrue(all(problem["line"] > 0 and problem["text"] for problem in wrong), wrong)

    def test_a_refused_reload_prints_what_check_does(self):
        daemon = self.daemon()
        with open(daemon.path, encoding="utf-8") as file:
            good = file.read()

        def rewrite(text):
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(text)
        for text in (good + "[stream broken]\nnonsense = 1\n", good.replace("[filter ", "[filer "), ""):
            rewrite(text)
            checked = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", daemon.path], capture_output=True, text=True, check=False)
            lines = checked.stderr.splitlines()
            said = self.ctl("reload", code=1).splitlines()
            self.assertEqual(said[:-1], [line for line in lines if not line.startswith("convolvd:")], text)
            errors = sum(": error: " in line and not line.startswith("convolvd:") for line in lines)
            self.assertIn(f"the configuration has {errors} error", said[-1])
            done = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--json", "reload"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "RUNTIME_DIRECTORY": self.folder})
            answer = json.loads(done.stdout)
            self.assertEqual((done.returncode, answer["ok"], len(answer["problems"])), (1, False, len(said) - 1))
            checked = json.loads(self.json("check", daemon.path))
            self.assertEqual(answer["problems"], checked["problems"])
        # What only a restart takes over is named.
        def added(section, lines):
            return good.replace(f"[{section}]\n", f"[{section}]\n{lines}") if f"[{section}]\n" in good else good + f"[{section}]\n{lines}"
        for section, lines, names in (("device", "batches = 5\nself check = 3 s\n", "`batches` in [device], `self check` in [device] have changed"),
                                      ("cluster", "lease = 3 s\n", "`lease` in [cluster] has changed"),
                                      ("daemon", f"state directory = {self.folder}\n", "`state directory` in [daemon]")):
            rewrite(added(section, lines))
            self.assertIn(names, self.ctl("reload", code=1))
        rewrite(good)
        self.assertIn("kept: 1", self.ctl("reload"))

    def json(self, *words):
        return subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--json", *words], capture_output=True, text=True, check=False).stdout

    def test_reload_without_a_control_socket(self):
        """For `systemctl reload`: SIGHUP instead, said; never another daemon."""
        daemon = self.daemon()
        pid = str(daemon.process.pid)
        for number, path in enumerate((f"{self.folder}/nowhere.sock", f"{self.folder}/observe.sock")):
            words = ("--socket", path, "reload")
            self.ctl(*words, code=1)
            self.ctl(*words, "--or-signal", pid)
            c.wait_for(lambda count=number: sum("reloaded: " in line for line in daemon.lines) > count, "a reload")
        for pid in ("0", "1", "-1", "x", "12x", "99999999999"):
            self.assertIn("--or-signal PID", self.ctl("--socket", path, "reload", "--or-signal", pid, code=1))

    def test_saved_changes_survive_a_restart(self):
        with self.daemon() as daemon:
            self.rig()
            self.assertNotIn("[stream", self.ctl("save"))
            self.ctl("transaction", "filter s two", "gain s -6 --output 1", "mute s --output 2")
            self.assertIn("route = 2 -> two 0 -> 2", self.ctl("save"))
            other = os.path.join(self.folder, "other.conf")  # of another daemon, in the same folder
            with open(other, "w", encoding="utf-8") as file:
                file.write("[stream t]\nsource = generator\nrate = 1 kHz\nchannels = 1\nfilter = f\n"
                           "[filter f]\ntype = identity\n")
            path = self.ctl("save", "--write").strip()
            subprocess.run([os.path.join(c.BUILD, "convolvd"), "--check", other], check=True, capture_output=True)
            self.assertRegex(path, rf"{self.folder}/[a-z]+.conf.d/99-saved-[-0-9]+\.conf$")
            daemon.stop()
        with c.Daemon(self.folder, config(self.port, c.free_port())) as daemon:
            self.assertEqual(daemon.stream()["filter"]["name"], "two")
            with open(path, encoding="utf-8") as file:
                self.assertEqual(re.findall(r"-> two ([\d.]+) ->", file.read()), [f"{np.float32(10 ** (-6 / 20)):.9g}", "0"])
            # Nothing more has changed; what makes the configuration invalid is not written.
            self.assertIn("nothing was changed", self.ctl("save", "--write"))
            self.ctl("gain", "s", "3")
            with open(daemon.path, "a", encoding="utf-8") as file:
                file.write("[stream broken]\n")
            self.assertIn("nothing was written", self.ctl("save", "--write", code=1))
            self.assertEqual(os.listdir(f"{daemon.path}.d"), [os.path.basename(path)])
            daemon.stop()

    def test_what_else_is_saved(self):
        """A measured noise floor, and recordings that commands have stopped or started."""
        text = config(self.port, c.free_port(), f"[sink now]\ntype = recording\nstream = s\npath = {self.folder}/now.wav\n"
                      f"[sink later]\ntype = recording\nstream = s\npath = {self.folder}/later.wav\nstart = command\n")
        with c.Daemon(self.folder, text) as daemon:
            self.rig()
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > 0, "results")
            levels = json.loads(self.ctl("noise-floor", "s", "--json"))["noise_floor"]
            self.ctl("record", "stop", "s", "now")
            self.ctl("record", "start", "s", "later")
            self.ctl("save", "--write")
            daemon.stop()
        with c.Daemon(self.folder, text) as daemon:
            recordings = {r["name"]: r for r in daemon.stream()["recordings"]}
            self.assertEqual({name: r["state"] for name, r in recordings.items()}, {"now": "stopped", "later": "recording"})
            c.wait_for(lambda: {r["name"]: r for r in daemon.stream()["recordings"]}["now"]["disk_free_bytes"], "the free space")
            daemon.stop()
        with open(glob.glob(f"{self.folder}/*.conf.d/*.conf")[0], encoding="utf-8") as file:
            saved = re.search(r"^noise floor = (.*)$", file.read(), re.M).group(1)
        self.assertEqual({f"{float(x):.6g}" for x in saved.split(", ")}, {f"{level:.6g}" for level in levels})

    def test_refusals_in_the_words_of_a_shell(self):
        with self.daemon() as daemon:
            self.assertIn("there is no stream nobody; `convolvctl streams` names them", self.ctl("gain", "nobody", "3", code=1))
            self.assertIn("for example `convolvctl gain vessel -6 --output 1`", self.ctl("gain", "s", code=1))
            daemon.stop()

    def test_which_daemon(self):
        with c.temporary() as session:
            environment = {"XDG_RUNTIME_DIR": session, "PATH": os.environ["PATH"]}
            text = config(self.port, c.free_port())
            daemon = c.Daemon(self.folder, text, environment={"RUNTIME_DIRECTORY": "", "XDG_RUNTIME_DIR": session})
            with daemon:
                self.assertEqual(stat.S_IMODE(os.stat(f"{session}/convolvd").st_mode), 0o700)
                found = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "streams", "--names"], env=environment,
                                       capture_output=True, text=True, timeout=c.PATIENCE_S, check=False)
                self.assertEqual(found.stdout, "s\n", found.stderr)
                daemon.stop()
            gone = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "streams", "--instance", "none"], env=environment,
                                  capture_output=True, text=True, timeout=c.PATIENCE_S, check=False)
            self.assertEqual(gone.returncode, 1)
            gone = subprocess.run([os.path.join(c.BUILD, "convolvctl"), "--instance", "none", "streams"], env=environment,
                                  capture_output=True, text=True, timeout=c.PATIENCE_S, check=False)
            self.assertIn("/run/convolvd-none/observe.sock: No such file", gone.stderr)

    @unittest.skipIf(os.path.exists(f"/run/user/{os.geteuid()}"), "this machine has sessions")
    def test_a_machine_without_sessions(self):
        """The daemon and its client meet without a word of the environment; a folder of somebody else's is refused."""
        folder = f"/tmp/convolvd-{os.geteuid()}"
        ctl = [os.path.join(c.BUILD, "convolvctl"), "streams", "--names"]
        options = {"env": {"PATH": os.environ["PATH"]}, "capture_output": True, "text": True, "timeout": c.PATIENCE_S, "check": False}
        if subprocess.run(ctl, **options).returncode == 0:
            self.skipTest("another daemon of this user runs")
        shutil.rmtree(folder, ignore_errors=True)  # left by one that was killed
        text, nowhere = config(self.port, c.free_port()), {"RUNTIME_DIRECTORY": "", "XDG_RUNTIME_DIR": ""}
        with c.Daemon(self.folder, text, environment=nowhere) as daemon:
            daemon.wait_said("ready after", c.PATIENCE_S)
            self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
            found = subprocess.run(ctl, **options)
            self.assertEqual(found.stdout, "s\n", found.stderr)
            daemon.stop()
        os.chmod(folder, 0o777)
        self.addCleanup(shutil.rmtree, folder)
        with c.Daemon(self.folder, text, environment=nowhere) as daemon:
            daemon.wait_said(f"{folder}: somebody else may write there", c.PATIENCE_S)
            self.assertIn(f"{folder}/observe.sock: Operation not permitted", subprocess.run(ctl, **options).stderr)
            daemon.stop()

    def test_events_go_on(self):
        daemon = self.daemon()
        follower = subprocess.Popen([os.path.join(c.BUILD, "convolvctl"), "events", "-f"], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, env={**os.environ, "RUNTIME_DIRECTORY": self.folder})
        self.addCleanup(follower.stdout.close)
        self.addCleanup(follower.stderr.close)
        self.addCleanup(follower.wait)
        self.addCleanup(follower.kill)
        time.sleep(0.3)
        self.ctl("mark", "seen")
        while "mark: seen" not in follower.stdout.readline():
            pass
        daemon.stop()
        self.assertIn("gone", follower.communicate(timeout=c.PATIENCE_S)[1])

    def test_keys(self):
        """In a terminal: draws, takes keys, and leaves the terminal as it was."""
        self.daemon()
        master, terminal = pty.openpty()
        self.addCleanup(os.close, master)
        before = termios.tcgetattr(terminal)
        with subprocess.Popen([os.path.join(c.BUILD, "convolvctl"), "watch"], stdin=terminal, stdout=terminal, stderr=terminal,
                              env={**os.environ, "RUNTIME_DIRECTORY": self.folder}) as view:
            shown = b""

            def seen(text):
                nonlocal shown
                while select.select([master], [], [], 0.05)[0]:
                    shown += os.read(master, 65536)
                return text in shown
            c.wait_for(lambda: seen(b"by name"), "the first picture")
            os.write(master, b"s")
            c.wait_for(lambda: seen(b"by load"), "another order")
            os.write(master, b" ")
            c.wait_for(lambda: seen(b"HELD"), "a held picture")
            os.write(master, b"q")
            self.assertEqual(view.wait(c.PATIENCE_S), 0)
            self.assertTrue(seen(b"\x1b[?1049l"))
        self.assertEqual(termios.tcgetattr(terminal), before)
        os.close(terminal)

    def test_completion_and_manual(self):
        with open(f"{self.folder}/completion", "w", encoding="utf-8") as file:
            file.write(self.ctl("--completion"))
        script = "source \"$1\"; COMP_WORDS=(convolvctl fil); COMP_CWORD=1; _convolvctl; echo ${COMPREPLY[@]}; " \
                 "COMP_WORDS=(convolvctl filter s two --fa); COMP_CWORD=4; _convolvctl; echo ${COMPREPLY[@]}"
        done = subprocess.run(["bash", "-c", script, "bash", f"{self.folder}/completion"], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split(), ["filter", "--fade"])
        self.assertIn(".TH CONVOLVCTL 1", self.ctl("--man"))

    def test_the_page(self):
        """docs/control.md: its reference is the table's, and its command lines run."""
        with open(os.path.join(c.ROOT, "docs", "control.md"), encoding="utf-8") as file:
            page = file.read()
        table = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--help-control"], capture_output=True, text=True, check=True).stdout
        self.assertTrue(table in page, "the reference is not what convolvd --help-control prints")
        text = config(self.port, c.free_port()).replace("[stream s]", "[stream vessel]").replace("stream = s\n", "stream = vessel\n")
        text = text.replace("[filter two]", "[filter band2]")
        text += f"[sink archive]\ntype = recording\nstream = vessel\npath = {self.folder}/vessel.wav\n"
        with c.Daemon(self.folder, text):
            self.rig()
            lines = re.findall(r"^    convolvctl (.*)$", page.split("## Which daemon")[0], re.M)
            self.assertGreaterEqual(len(lines), 9)
            for line in lines:
                self.ctl(*shlex.split(line), cwd=self.folder)


if __name__ == "__main__":
    unittest.main(verbosity=2)
