#!/usr/bin/python3
# parallel: yes
"""Every command of the table over OSC: each example of the manual, who may, where answers and errors go,
answers longer than a packet, and what asks too often."""
import json
import os
import re
import shlex
import subprocess
import unittest

import numpy as np

import convolvd as c
from osc_client import Client, Tcp, message, parse

RATE = 10000
CONFIG = f"""
[stream rig]
source = osc
rate = {RATE} Hz
channels = 2
block = 64
filter = band
format = f32be
[sink out]
type = osc
stream = rig
[sink file]
type = recording
stream = rig
path = rig.wav
[stream other]
source = osc
rate = {RATE} Hz
channels = 2
block = 64
filter = band
format = f32be
[analysis vessel]
type = hits
stream = rig
threshold = 0.5
"""
# What the examples name need not be there; that they are read is what counts.
MISSING = {"transient": "that event is not kept", "acknowledge": "no alarm", "cluster-hand-over": "no partition of that name"}


def examples():
    """The table of commands in the manual: address, role, example."""
    manual = subprocess.run([os.path.join(c.BUILD, "convolvd"), "--help-osc"], capture_output=True, text=True, check=True).stdout
    table = manual.split("### Commands\n")[1].split("###")[0]
    return re.findall(r"^\| (`\S+`(?:, `\S+`)?) \|.*\| (observe|control) \|.*\| `([^`]*)` \|$", table, re.M)


def words(example):
    """An example as oscsend takes it: address, types, values as texts."""
    address, *rest = shlex.split(example)
    return address, rest[0] if rest else "", rest[1:]


def values_of(types, texts):
    return [{"i": int, "h": int, "f": float}.get(t, str)(v) for t, v in zip(types, texts)]


class Commands(unittest.TestCase):
    def start(self, osc=""):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        filters = ""
        for seed, name in enumerate(("band", "band2")):
            np.save(os.path.join(folder.name, f"{name}.npy"), c.random_taps(seed, 31))
            filters += c.file_filter(name, f"{name}.npy")
        self.port, self.tcp = c.free_port(), c.free_port()
        self.daemon = c.Daemon(folder.name, f"{CONFIG}[osc]\naddress = *:{self.port}\ntcp address = *:{self.tcp}\n"
                               f"{osc}\n{filters}")
        self.addCleanup(self.daemon.kill)

    def client(self, *arguments):
        client = Client(self.port, *arguments)
        self.addCleanup(client.close)
        return client

    def answer(self, client, address=None):
        """The reply in its pieces, or what else has come."""
        text, pieces = "", 0
        while True:
            got, types, values = client.receive()
            if types != "iis":
                return got, values
            self.assertTrue(address is None or got == address, got)
            self.assertEqual(values[0], pieces + 1)
            text, pieces = text + values[2], values[0]
            if pieces == values[1]:
                return got, json.loads(text)

    def ask(self, client, *arguments):
        client.send(*arguments)
        address, reply = self.answer(client, arguments[0])
        self.assertEqual(address, arguments[0], reply)
        return reply

    def test_every_example(self):
        """As oscsend sends it; the answer comes to the port that the message names, or to who asked."""
        self.start()
        rows = examples()
        commands = self.ask(self.client(), "/convolvd/commands")["commands"]
        self.assertEqual({row["name"] for row in commands} - {"events", "hits", "watch"},
                         {re.search(r"/([a-z-]+)`$", row[0]).group(1) for row in rows})
        for addresses, _, example in rows:
            with self.subTest(example=example):
                listener = self.client()
                address, types, texts = words(example)
                self.assertIn(address.replace("rig", "STREAM"), re.findall(r"`(\S+?)`", addresses))
                if "9001" in texts:
                    port = str(listener.socket.getsockname()[1])
                    subprocess.run(["oscsend", "127.0.0.1", str(self.port), address, types,
                                    *[port if text == "9001" else text for text in texts]], check=True)
                else:
                    listener.send(address, types, *values_of(types, texts))
                what, reply = self.answer(listener)
                word = address.rsplit("/", 1)[1]
                if what == "/convolvd/error":
                    self.assertEqual(reply[0], address)
                    self.assertIn(MISSING.get(word, "nothing"), reply[1])
                elif word in ("gain", "mute", "filter"):
                    self.assertEqual((what, reply[0]), ("/convolvd/rig/changed", word))
                else:
                    self.assertEqual((what, reply["ok"]), (address, True))

    def test_the_role_of_the_address(self):
        """Each command that changes something is refused to whoever only observes; the others are not."""
        self.start("control = none\n")
        roles = {row["name"]: row["role"] for row in self.ask(self.client(), "/convolvd/commands")["commands"]}
        for addresses, role, example in examples():
            _, types, texts = words(example.replace("i 9001", ""))
            for address in re.findall(r"`(\S+?)`", addresses):
                word, client = address.rsplit("/", 1)[1], self.client()
                self.assertEqual(role, roles[word])
                if role == "observe":
                    continue
                client.send(address.replace("STREAM", "rig"), types, *values_of(types, texts))
                what, _, (asked, sentence) = client.receive()
                self.assertEqual((what, asked), ("/convolvd/error", address.replace("STREAM", "rig")))
                self.assertIn(f"`{word}` needs the role control", sentence)

    def test_answers_in_pieces(self):
        """Pieces of a long answer fit an Ethernet frame; over TCP, where they are larger, the text is the same."""
        self.start()
        client, link = self.client(), Tcp(self.tcp)
        self.addCleanup(link.close)
        link.send(message("/convolvd/commands"))
        whole = json.loads("".join(piece[2] for piece in self.pieces(lambda: link.receive()[2], 4)))
        client.send("/convolvd/commands")

        def receive():
            data = client.socket.recv(65536)
            self.assertLessEqual(len(data), 1432)
            return parse(data)[2]

        client.socket.settimeout(c.PATIENCE_S)
        pieces = self.pieces(receive, 100)
        self.assertGreater(len(pieces), 4)
        self.assertEqual(json.loads("".join(piece[2] for piece in pieces)), whole)
        status = self.ask(self.client(), "/convolvd/status", "s", "json")
        self.assertEqual([s["name"] for s in status["status"]["streams"]], ["rig", "other"])

    def pieces(self, receive, most):
        got = [receive()]
        while got[-1][0] < got[-1][1]:
            got.append(receive())
        self.assertEqual([g[:2] for g in got], [[i + 1, len(got)] for i in range(len(got))])
        self.assertLessEqual(len(got), most)
        return got

    def test_errors(self):
        """They say what to send, and come to the port that was named."""
        self.start()
        client, listener = self.client(), self.client()
        port = listener.socket.getsockname()[1]
        for arguments, sentence in ((("/convolvd/mark", "i", port), "`mark` needs `text`"),
                                    (("/convolvd/rig/gain", "fNNi", 1000.0, port), "`gain_db` is a number from -200 to 200 dB"),
                                    (("/convolvd/nobody/record-stop", "i", port), "there is no such stream"),
                                    (("/convolvd/rig/record-stop", "si", "out", port), "out")):
            client.send(*arguments)
            what, _, (asked, text) = listener.receive()
            self.assertEqual((what, asked), ("/convolvd/error", arguments[0]))
            self.assertIn(sentence, text)
        self.assertTrue(client.silent(0.2), "an error came to the socket that asked, too")
        for word in ("events", "hits", "watch"):
            client.send(f"/convolvd/{word}")
            self.assertIn("no such address", client.receive()[2][1])
        client.send("/convolvd/rig/reset-counters", "ss", "a", "b")
        self.assertIn("for example /convolvd/rig/reset-counters", client.receive()[2][1])

    def test_streams_by_pattern(self):
        self.start()
        client = self.client()
        client.send("/convolvd/*/mark", "s", "load step 2")
        got = dict(self.answer(client) for _ in range(2))
        self.assertEqual({a: r["marks"][0]["stream"] for a, r in got.items()},
                         {"/convolvd/rig/mark": "rig", "/convolvd/other/mark": "other"})
        self.assertEqual(len(self.ask(client, "/convolvd/mark", "s", "load step 3")["marks"]), 2)
        who = "OSC 127.0.0.1:%d" % client.socket.getsockname()[1]
        c.wait_for(lambda: f"mark: load step 3 (asked by {who})" in self.daemon.output(), "the mark in the log")

    def test_a_flood_of_costly_questions(self):
        """Beyond 16 a second they are refused, and the rest is answered."""
        self.start()
        client = self.client()
        for _ in range(60):
            client.send("/convolvd/status", "s", "json")
        answers = [self.answer(client) for _ in range(60)]
        refused = [reply[1] for what, reply in answers if what == "/convolvd/error"]
        self.assertTrue(all("ask again" in text for text in refused), refused[:1])
        self.assertTrue(0 < len(refused) <= 44, f"{len(refused)} of 60 were refused")


if __name__ == "__main__":
    unittest.main(verbosity=2)
