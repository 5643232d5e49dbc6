#!/usr/bin/python3
# parallel: yes
# takes: 1 s CPU in 4 s
"""The JSON Schema of /api/v1 that convolv-web serves, held against real answers both ways: every answer of a
running daemon fits it, and each member that it describes has been seen; the bodies that it describes are those
of the daemon's table of commands.
"""
import json
import os
import subprocess
import unittest

import api_schema
import convolvd as c
import web_client
from osc_client import Client

RATE = 20000
# Seen by other tests, with the same check: sound cards by test_jack, interfaces by test_late_network, logs of a
# cluster by test_cluster.
ELSEWHERE = ("sound.", "resampler.", "network.", "partition.", "answer.cluster-hand-over.")
# Seen when a transaction fails half way, a filter cannot be made, or a stream is one of acceleration.
RARE = {"error.changes", "error.id", "answer.transaction.changes[].ok",
        "answer.response.filters[].error", "analysis_settings.velocity_hz"}

CONFIG = """
[daemon]
runtime directory = {folder}
[device]
self check = 0.2 s
[osc]
address = 127.0.0.1:{osc}
[stream a]
source = rtp
address = 127.0.0.1:{port}
rate = 20 kHz
channels = 2
format = L16
full scale = 10 V
block = 200 frames
filter = f
flat line = 0.2 s
[stream g]
source = generator
rate = 20 kHz
channels = 1
waveform = tone-burst
frequency = 2 kHz
cycles = 5
period = 50 ms
amplitude = 1 V
full scale = 2 V
block = 200 frames
filter = f
[filter f]
type = lowpass
cutoff = 5 kHz
[filter h]
type = lowpass
cutoff = 4 kHz
[sink out]
type = recording
stream = a
path = {folder}/out.wav
[sink results]
type = osc
stream = g
[analysis every]
type = intervals
stream = g
interval = 50 ms
[analysis bursts]
type = hits
stream = a
threshold = 60 dB
spectrum = 64 frames
bands = 1-5 kHz
[analysis levels]
type = intervals
stream = a
threshold = 60 dB
[analysis where]
type = location
analysis = bursts
sensors = 0 m, 1 m
velocity = 3 km/s
[analysis sensors]
type = sensor-test
analysis = bursts
pulse above = 90 dB
[analysis echoes]
type = ascan
stream = g
sound velocity = 5900 m/s
range = 30 ms
gate = back: start 10 ms, width 5 ms, level 0.2 V, peak, alarm present
[analysis machine]
type = vibration
stream = a
segment = 8192 frames
envelope low = 2 kHz
envelope high = 4 kHz
elements = 8
element diameter = 8 mm
pitch diameter = 40 mm
speed = 25 Hz
[sink table]
type = csv
analysis = every
path = {folder}/every.csv
"""

# One of each, in this order: (command, arguments).
ASKED = [
    ("streams", {}), ("commands", {}), ("devices", {}), ("response", {"stream": "a"}), ("status", {"format": "json"}),
    ("filter", {"stream": "a", "filter": "h"}), ("gain", {"stream": "a", "gain_db": -6, "output": 1}),
    ("mute", {"stream": "a", "mute": True, "output": 2}),
    ("transaction", {"commands": [{"command": "gain", "stream": "a", "gain_db": -3}, {"command": "filter", "stream": "a", "filter": "f"}]}),
    ("save", {}), ("reset-counters", {"stream": "a"}), ("mark", {"text": "load step 2"}), ("noise-floor", {"stream": "a"}),
    ("analyses", {}), ("transient", {"analysis": "echoes", "number": 1}), ("record-stop", {"stream": "a"}), ("record-start", {"stream": "a"}),
    ("cluster-hand-over", {"partition": "rig"}), ("acknowledge", {}), ("reload", {}),
]

NOT_HERE = {"cluster-hand-over": 404}  # no daemon of a cluster


class Schema(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = c.temporary()
        cls.folder = cls.temporary.name
        cls.port, cls.osc = c.free_port(), c.free_port()
        token, line = web_client.new_token("anna", "control")
        path = os.path.join(cls.folder, "tokens")
        with open(path, "w", encoding="ascii") as file:
            file.write(line + "\n")
        os.chmod(path, 0o600)
        cls.token = token
        cls.daemon = c.Daemon(cls.folder, CONFIG.format(folder=cls.folder, port=cls.port, osc=cls.osc))
        cls.web = web_client.Web(cls.folder, "--tokens", path, "--allow-control")
        cls.web.wait_up()
        cls.seen = set()

    @classmethod
    def tearDownClass(cls):
        cls.web.kill()
        cls.daemon.kill()
        cls.temporary.cleanup()

    def fits(self, name, value):
        api_schema.check(name, value)
        api_schema.seen_members(name, value, self.seen)
        return value

    def ask(self, command, arguments, expect=200):
        status, answer = self.web.post(f"/api/v1/{command}", arguments, Authorization=f"Bearer {self.token}")
        self.assertEqual(status, expect, answer)
        return self.fits(f"answer.{command}" if status == 200 else "error", answer)

    def get(self, path):
        return json.loads(self.web.get(path)[1])

    def scans(self):
        analyses = self.get("/api/v1/analyses")["analyses"]
        return sum(next(a for a in analyses if a["name"] == "echoes")["ledger"]["events"].values())

    def test_answers_fit_and_show_every_member(self):
        self.fits("answer.status", self.get("/api/v1/status"))
        client = Client(self.osc)
        self.addCleanup(client.close)
        client.send("/convolvd/list")
        client.receive()
        feeder = subprocess.Popen([os.path.join(c.BUILD, "convolv-rig"), "--to", f"127.0.0.1:{self.port}", "--rate", f"{RATE} Hz",
                                   "--channels", "2", "--full-scale", "10", "--signal", "dc", "--loss", "0.02", "--seconds", "60"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (feeder.kill(), feeder.wait()))

        def shows_all():
            status = self.fits("answer.status", self.get("/api/v1/status"))["status"]
            return status.get("alarms") and {"measured_rate_hz", "last_gap_realtime_ns"} <= status["streams"][0].keys()
        # Until then: an alarm for the flat line, a measured rate, checks of blocks, a packet lost.
        c.wait_for(shows_all, "alarm, rate and gap", pause_s=0.3)
        for command, arguments in ASKED:
            if command == "transient":
                c.wait_for(lambda: self.scans() > 0, "an A-scan", pause_s=0.2)
            answer = self.ask(command, arguments, expect=NOT_HERE.get(command, 200))
            if command in ("mute", "transaction"):  # a reload goes back to the configuration
                c.wait_for(lambda: self.get("/api/v1/status")["status"]["streams"][0]["gains"]["changes"] > 0, "the change", pause_s=0.2)
            if command == "save":
                self.fits("answer.status", self.get("/api/v1/status"))
            if command == "commands":
                self.check_requests(answer)
        self.fits("answer.status-table", self.web.post("/api/v1/status", {}, Authorization=f"Bearer {self.token}")[1])
        for name in ("session", "events?since=0"):
            self.fits(f"answer.{name.split('?')[0]}", self.get(f"/api/v1/{name}"))
        self.fits("answer.healthz", self.get("/healthz"))
        self.fits("answer.login", self.web.post("/api/v1/login", {"token": self.token})[1])
        self.fits("answer.logout", self.web.post("/api/v1/logout", {})[1])
        self.fits("answer.status", self.get("/api/v1/status"))
        self.fits("error", json.loads(self.web.get("/api/v1/nothing")[1]))
        self.ask("gain", {"stream": "nobody", "gain_db": 0}, expect=404)
        with open(self.daemon.path, "a", encoding="utf-8") as file:
            file.write("[stream broken]\n")
        self.ask("reload", {}, expect=400)
        described = api_schema.all_members(["error", *(n for n in api_schema.DEFINITIONS if n.startswith("answer."))])
        unseen = {member for member in described - self.seen - RARE if not member.startswith(ELSEWHERE) and not member.endswith(".id")
                  and member.split(".")[-1] not in ("network", "sound", "partition")}
        self.assertEqual(unseen, set(), "described, but no answer had it")

    def check_requests(self, answer):
        """Every command of the table has its body here, and an answer where HTTP has the command."""
        rows = {row["name"]: row for row in answer["commands"]}
        over_http = set(rows) - {"watch", "events", "hits"}
        self.assertEqual({name for name, _ in ASKED}, over_http)
        wanted = {f"request.{name}": api_schema.request_schema(rows[name]) for name in sorted(over_http)}
        described = {name: schema for name, schema in api_schema.DEFINITIONS.items() if name.startswith("request.")}
        self.assertEqual(described, wanted)
        for name, arguments in ASKED:
            api_schema.check(f"request.{name}", arguments)

    def test_it_is_served_and_strict(self):
        status, headers, body = self.web.request("GET", "/api/v1/schema.json")
        self.assertEqual((status, headers["content-type"]), (200, "application/json"))
        self.assertEqual(json.loads(body), api_schema.SCHEMA)
        answer = self.get("/api/v1/status")
        answer["status"]["streams"][0]["surprise"] = 1
        self.assertIn("surprise", "".join(api_schema.broken("answer.status", answer)))
        answer = self.get("/api/v1/status")
        answer["status"]["streams"][0]["rate_hz"] = "20 kHz"
        del answer["status"]["state"]
        self.assertEqual(len(api_schema.broken("answer.status", answer)), 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
