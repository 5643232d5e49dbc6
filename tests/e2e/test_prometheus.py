#!/usr/bin/python3
# long: yes
# parallel: yes
# timeout: 180
# sanitizers: no, what it runs is Prometheus
"""/metrics as Prometheus takes it: promtool finds nothing wrong with the text, a real Prometheus scrapes
convolv-web, every query of the Grafana dashboard is answered with data, the alert rules load, pass their tests and
fire, and a daemon that is away is told as such."""
import json
import math
import os
import re
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

import convolvd as c
import nats_servers
from test_alarms import CHANNELS, RATE, Rig

MONITORING = os.path.join(c.ROOT, "docs", "monitoring")

CONFIG = """
[cluster]
servers = {nats}
[sink raw]
type = nats
stream = a
partition = rig
record = input
[stream b]
source = nats
partition = rig
rate = {rate} Hz
channels = {channels}
format = L16
full scale = 10 V
block = 200 frames
filter = f
[sink log]
type = nats
stream = b
partition = rig
[analysis logged]
type = intervals
stream = b
interval = 100 ms
[device]
device = cpu
self check = 0.5 s
[stream a]
source = rtp
address = 127.0.0.1:{source}
rate = {rate} Hz
channels = {channels}
format = L16
full scale = 10 V
block = 200 frames
filter = f
[filter f]
type = lowpass
cutoff = 5 kHz
[sink out]
type = rtp
stream = a
address = 127.0.0.1:{sink}
[analysis every]
type = intervals
stream = a
interval = 100 ms
[sink table]
type = csv
analysis = every
path = {folder}/every.csv
[alarm always]
stream = a
quantity = level
below = 9 V
"""


def get(url):
    with urllib.request.urlopen(url, timeout=10) as reply:
        return reply.read().decode()


def promtool(*arguments, text=None, folder=None):
    result = subprocess.run(["promtool", *arguments], input=text, capture_output=True, text=True, cwd=folder, timeout=60,
                            check=False)
    return result.returncode, result.stdout + result.stderr


class Metrics(unittest.TestCase):
    def start(self, name, *arguments):
        log = open(os.path.join(self.folder, os.path.basename(name) + ".log"), "w", encoding="utf-8")
        self.addCleanup(log.close)
        process = subprocess.Popen([name, *map(str, arguments)], stdout=log, stderr=subprocess.STDOUT)

        def end():
            process.terminate()
            process.wait(20)
        self.addCleanup(end)
        return process

    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        nats = nats_servers.Servers()
        nats.__enter__()
        self.addCleanup(nats.__exit__)
        source, sink, self.web, self.port = (c.free_port() for _ in range(4))
        config = CONFIG.format(nats=nats.urls, source=source, sink=sink, rate=RATE, channels=CHANNELS, folder=self.folder)
        self.daemon = c.Daemon(self.folder, config)
        self.addCleanup(lambda: self.daemon.kill())
        self.rig = Rig(source)
        self.rig.start()
        self.addCleanup(self.rig.stop)
        # Who takes a log that another one has written knows how long it stood still.
        c.wait_for(lambda: all(partition["state"] == "owns" and partition["acknowledged"] > 0 for partition in self.partitions()), "records in both logs")
        self.daemon.stop()
        self.daemon.kill()  # closes its output
        self.daemon = c.Daemon(self.folder, config)
        self.start(os.path.join(c.BUILD, "convolv-web"), "--listen", f"127.0.0.1:{self.web}", "--directory", self.folder,
                   "--metrics-channels", 2)
        self.metrics_url = f"http://127.0.0.1:{self.web}/metrics"

        def served():
            try:
                return "convolvd_stream_latency_seconds_bucket" in get(self.metrics_url)
            except (urllib.error.URLError, ConnectionError):
                return False
        c.wait_for(served, "convolv-web with the daemon's streams")

    def partitions(self):
        return [sink["partition"] for stream in self.daemon.status()["streams"] for sink in stream["sinks"] if "partition" in sink]

    def query(self, expression):
        """The samples that answer it."""
        reply = json.loads(get(f"http://127.0.0.1:{self.port}/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
        return [s for s in reply["data"]["result"] if not math.isnan(float(s["value"][1]))]

    def of_the_page(self):
        """The scrape configuration of docs/monitoring.md, for this convolv-web and in a hurry."""
        with open(os.path.join(c.ROOT, "docs", "monitoring.md"), encoding="utf-8") as file:
            page = file.read()
        self.assertEqual(re.findall(r"`(promtool [^`]+)`", page), ["promtool test rules rules-test.yml"])  # rules() runs it
        shown = re.search(r"^    # prometheus.yml\n(?:    .+\n)+", page, re.M).group(0).replace("\n    ", "\n")[4:]
        for written, here in (("scrape_interval: 5s", "scrape_interval: 1s"), ("localhost:8470", f"127.0.0.1:{self.web}")):
            self.assertIn(written, shown)
            shown = shown.replace(written, here)
        return shown

    def test_a_real_prometheus(self):
        text = get(self.metrics_url)
        self.assertEqual(promtool("check", "metrics", text=text), (0, ""))
        self.bounded(text)
        with open(os.path.join(self.folder, "prometheus.yml"), "w", encoding="utf-8") as file:
            file.write(f"global: {{evaluation_interval: 1s}}\nrule_files: [{MONITORING}/rules.yml]\n{self.of_the_page()}")
        code, said = promtool("check", "config", os.path.join(self.folder, "prometheus.yml"))
        self.assertEqual(code, 0, said)
        self.start("prometheus", f"--config.file={self.folder}/prometheus.yml", f"--storage.tsdb.path={self.folder}/data",
                   f"--web.listen-address=127.0.0.1:{self.port}")

        def scraped():
            try:
                return len(self.query("count_over_time(convolvd_up[1m]) >= 6")) == 1
            except (urllib.error.URLError, ConnectionError):
                return False
        c.wait_for(scraped, "six scrapes", 60, 0.5)
        self.dashboard()
        self.rules()
        self.assertEqual([s["value"][1] for s in self.query('sum by (partition, log) (convolvd_partition_owned)')], ["1", "1"])
        received = self.daemon.stream()["frames_in"]["received"]
        c.wait_for(lambda: float(self.query('convolvd_stream_received_frames_total{stream="a"}')[0]["value"][1]) >= received,
                   "the daemon's own counter in Prometheus", 20, 0.5)
        # The daemon goes: convolv-web stays, and says so.
        self.daemon.stop()
        c.wait_for(lambda: self.query("convolvd_up == 0"), "convolvd_up 0", 30, 0.5)
        text = get(self.metrics_url)
        self.assertEqual(re.findall(r"^convolvd_\S+", text, re.M), ["convolvd_up"])
        self.assertEqual(promtool("check", "metrics", text=text), (0, ""))

    def bounded(self, text):
        """At most 20 buckets a histogram; series for two of the three channels."""
        buckets = {}
        for labels in re.findall(r"^convolvd_stream_latency_seconds_bucket\{(.*)\} ", text, re.M):
            key = re.sub(r',?le="[^"]*"', "", labels)
            buckets[key] = buckets.get(key, 0) + 1
        self.assertEqual(len([key for key in buckets if 'stream="a"' in key]), 6)  # five stages and the total
        self.assertLessEqual(max(buckets.values()), 20)
        self.assertEqual(set(re.findall(r'^convolvd_channel_dc\{.*channel="(\d+)"', text, re.M)), {"1", "2"})
        self.assertEqual(set(re.findall(r'^convolvd_analysis_channel_events_total\{.*channel="(\d+)"', text, re.M)), {"1", "2"})
        self.assertIn(f'convolvd_stream_channels{{stream="a"}} {CHANNELS}\n', text)

    def dashboard(self):
        board = c.load_json(os.path.join(MONITORING, "dashboard.json"))
        expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
        self.assertGreater(len(expressions), 25)
        named = set(re.findall(r"convolvd_partition_\w+", " ".join(expressions)))
        with open(os.path.join(c.ROOT, "docs", "monitoring.md"), encoding="utf-8") as file:
            self.assertEqual(set(re.findall(r"^\| `(convolvd_partition_\w+)`", file.read(), re.M)) - named, set())
        c.wait_for(lambda: self.query("convolvd_partition_standstill_seconds"), "a log that was taken", 30, 0.5)
        unanswered = []
        for expression in expressions:
            asked = expression.replace("$__rate_interval", "5s").replace("$stream", ".*")
            if not self.query(asked):
                unanswered.append(asked)
        self.assertEqual(unanswered, [])
        variable = board["templating"]["list"][0]["query"]
        series, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable).groups()
        self.assertEqual([s["metric"][label] for s in self.query(series)], ["a", "b"])
        c.note(f"# Prometheus answered {len(expressions)} queries of the dashboard with data")

    def rules(self):
        self.assertEqual(promtool("test", "rules", "rules-test.yml", folder=MONITORING)[0], 0)
        groups = json.loads(get(f"http://127.0.0.1:{self.port}/api/v1/rules"))["data"]["groups"]
        rules = {rule["name"]: rule for group in groups for rule in group["rules"]}
        self.assertEqual({rule["health"] for rule in rules.values()}, {"ok"}, rules)
        c.wait_for(lambda: self.query('ALERTS{alertname="ConvolvdAlarm",alertstate="firing",alarm="always"}'),
                   "the daemon's alarm in Prometheus", 20, 0.5)
        # Each alert has a case that raises it.
        with open(os.path.join(MONITORING, "rules-test.yml"), encoding="utf-8") as file:
            tested = re.findall(r"^        alertname: (\w+)\n        exp_alerts:\n", file.read(), re.M)
        self.assertEqual(set(rules), set(tested))


if __name__ == "__main__":
    unittest.main(verbosity=2)
