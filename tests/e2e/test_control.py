#!/usr/bin/python3
# parallel: yes
"""The control sockets: roles, the table of commands, changes and who asked for them, events."""
import getpass
import json
import os
import socket
import stat
import unittest

import convolvd as c

RATE = 48000


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
            f"[stream s]\nsource = rtp\naddress = 127.0.0.1:{port}\nrate = 48 kHz\nchannels = 2\nblock = 256\nfilter = one\n"
            + c.rtp_sink("out", "s", out) + extra)


class Control(unittest.TestCase):
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

    def test_reload_answers(self):
        daemon = self.daemon()
        control = self.link("control")
        answer = control.ask("reload")
        self.assertEqual((answer["ok"], answer["kept"], answer["changed"]), (True, 1, 0))
        with open(daemon.path, "a", encoding="utf-8") as file:
            file.write("[stream broken]\n")
        answer = control.ask("reload")
        self.assertEqual((answer["ok"], answer["code"]), (False, "config"))

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
