"""make demo with DEMO_WEB=1: the live page before the demo's daemon, and pictures of it.

The rig of the demo sends without end, convolv-web serves the page, and Chromium, where it is installed, draws some
views without a window. At a terminal the page then stays up until Ctrl-C.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars"]
# What is drawn: file, address behind "#", when it is ready (JavaScript), seconds more, height.
VIEWS = [("page-overview", "/overview", "document.querySelectorAll('.tile.ok').length === 4", 11, 420),
         ("page-scope", "/scope?channels=1,2&trigger=level&at=0.1&window=0.001&a=0&b=0.00007", "window.convolv.view.sides.every((side) => side.plot.scene)", 2, 800),
         ("page-spectrum", "/spectrum?channels=1,2&fft=2048&average=4", "window.convolv.view.plot.scene && window.convolv.view.responses?.length", 12, 800),
         ("page-latency", "/latency", "window.convolv.view.plots.every((shown) => shown.plot.scene)", 8, 800)]
PATIENCE_S = 30


class WebDemo:
    """`demo` starts processes and knows where programs and files are (clients/demo.py)."""

    def __init__(self, demo, say, rig, pictures):
        self.demo, self.say, self.rig, self.pictures = demo, say, rig, pictures

    def run(self):
        """True: the daemon ran until the end."""
        self.say("8  live page: the rig sends on, convolv-web shows it")
        with open(self.demo.path("web-daemon.log"), "w", encoding="utf-8") as log:
            daemon = self.demo.start([self.demo.program("convolvd"), "--config", self.demo.config], stdout=subprocess.DEVNULL,
                                     stderr=log, env={**os.environ, "RUNTIME_DIRECTORY": self.demo.folder})
        self.demo.wait_for("web-daemon.log", "running:", daemon)
        self.demo.start([self.demo.program("convolv-rig"), "--to", "127.0.0.1:5004", *self.rig, "--seconds", "86400", "--quiet"],
                        stdout=subprocess.DEVNULL)
        url = self.serve()
        self.draw(url)
        good = daemon.poll() is None
        self.say(f"   page: {url}/")
        if sys.stdin.isatty() and sys.stdout.isatty():
            self.say("   Ctrl-C ends the demo")
            try:
                daemon.wait()
            except KeyboardInterrupt:
                pass
        return good

    def serve(self):
        with open(self.demo.path("web.log"), "w", encoding="utf-8") as log:
            web = self.demo.start([self.demo.program("convolv-web"), "--directory", self.demo.folder, "--listen", "127.0.0.1:8470"],
                                  stdout=log, stderr=subprocess.STDOUT)
        return re.search(r"http://\S+?:\d+", self.demo.wait_for("web.log", "http://", web)).group(0)

    def draw(self, url):
        try:
            from selenium import webdriver
            from selenium.webdriver.chrome.service import Service
        except ImportError:
            webdriver = None
        if webdriver is None or not shutil.which("chromedriver"):
            self.say("   no pictures: chromium, chromium-driver and python3-selenium draw them")
            return
        os.makedirs(self.pictures, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="convolvd-demo-") as profile:
            options = webdriver.ChromeOptions()
            for flag in [*FLAGS, f"--user-data-dir={profile}"]:
                options.add_argument(flag)
            driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
            try:
                driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})
                for view in VIEWS:
                    self.draw_view(driver, url, *view)
            finally:
                driver.quit()

    def draw_view(self, driver, url, name, address, ready, seconds, height):
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1280, "height": height, "deviceScaleFactor": 1, "mobile": False})
        driver.get("about:blank")
        driver.get(f"{url}/#{address}")
        deadline = time.monotonic() + PATIENCE_S
        while not driver.execute_script(f"return Boolean(window.convolv && window.convolv.app.stream() && {ready})"):
            if time.monotonic() > deadline:
                self.say(f"   {name}: nothing to draw after {PATIENCE_S} s")
                return
            time.sleep(0.1)
        time.sleep(seconds)
        path = os.path.join(self.pictures, f"{name}.png")
        driver.save_screenshot(path)
        self.say(f"   {path}")
