"""Drives the live page in Debian's Chromium through chromedriver, and convolv-web, which serves it.

Chromium runs headless, without a GPU, a network or a profile that lasts. Nothing here waits for a fixed
time: each wait is for a condition, bounded by PATIENCE_S.
"""
import base64
import json
import os
import re
import shutil
import tempfile
import time
import unittest

import numpy as np
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from convolvd import PATIENCE_S, ROOT, Daemon, Process, chosen_priority, temporary, wait_for

FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-default-apps", "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars"]


PAGE = os.path.join(ROOT, "clients", "web", "page")


class Web(Process):
    """convolv-web before a daemon's runtime directory; ready when the constructor returns."""

    def __init__(self, folder, *arguments, port=0, before=chosen_priority):
        super().__init__("convolv-web", ["--listen", f"127.0.0.1:{port}", "--directory", folder, "--page", PAGE, *arguments], {},
                         before)
        wait_for(lambda: self.address() or self.process.poll() is not None, "convolv-web's address")
        self.url = self.address()
        assert self.url, self.output()

    def address(self):
        found = re.search(r"https?://[0-9.]+:\d+", self.output())
        return found.group(0) if found else None

    def port(self):
        return int(self.url.rsplit(":", 1)[1])


class Browser:
    """One window. `call` runs an exported function of one of the page's modules."""

    def __init__(self, width=1280, height=800, theme="dark", touch=False):
        self.profile = tempfile.mkdtemp(prefix="chromium-")
        self.downloads = os.path.join(self.profile, "downloads")
        os.mkdir(self.downloads)
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in [*FLAGS, f"--window-size={width},{height}", f"--user-data-dir={self.profile}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
        self.driver.set_script_timeout(PATIENCE_S)
        self.driver.set_page_load_timeout(PATIENCE_S)
        self.cdp("Browser.setDownloadBehavior", behavior="allow", downloadPath=self.downloads)
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        self.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def cdp(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def open(self, address):
        self.driver.get(address)

    def script(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def call(self, module, function, *arguments):
        """A function of app/MODULE with JSON arguments; {"f32": […]}, {"f64": …} and {"u8": …} become typed
        arrays, {"bytes": …} a buffer, {"map": {…}} a Map; they come back as lists and objects. NaN and infinities come back as None."""
        answer = self.driver.execute_async_script("""
            const [module, name, given, done] = arguments;
            const types = { f32: (v) => Float32Array.from(v, (x) => x ?? NaN), f64: (v) => Float64Array.from(v), u8: (v) => Uint8Array.from(v),
                bytes: (v) => Uint8Array.from(v).buffer, map: (v) => new Map(Object.entries(v)) };
            const read = (v) => Array.isArray(v) ? v.map(read) : v === null || typeof v !== "object" ? v
                : types[Object.keys(v)[0]] ? types[Object.keys(v)[0]](Object.values(v)[0])
                : Object.fromEntries(Object.entries(v).map(([k, x]) => [k, read(x)]));
            const write = (v) => ArrayBuffer.isView(v) ? Array.from(v) : Array.isArray(v) ? v.map(write)
                : v instanceof Map ? Object.fromEntries(v)
                : v && typeof v === "object" ? Object.fromEntries(Object.entries(v).map(([k, x]) => [k, write(x)])) : v === undefined ? null : v;
            import(new URL("app/" + module, document.baseURI).href).then((m) => done({ value: JSON.stringify(write(m[name](...given.map(read)))) }))
                .catch((error) => done({ error: `${error.name}: ${error.message}` }));
            """, module, function, list(arguments))
        if "error" in answer:
            raise ValueError(answer["error"])
        return None if answer["value"] is None else json.loads(answer["value"])

    def text(self, selector):
        return self.script("return document.querySelector(arguments[0])?.textContent ?? null", selector)

    def wait(self, condition, what, seconds=None):
        """Until the JavaScript expression is true."""
        try:
            wait_for(lambda: self.script(f"return Boolean({condition})"), what, seconds, 0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}; the page says: {self.script('return document.body.innerText')[:1500]}") from None

    def click(self, selector):
        self.script("document.querySelector(arguments[0]).click()", selector)

    def press(self, key):
        """A key on the page itself, not in a field."""
        self.script("document.activeElement?.blur(); document.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))"
                    .replace("document.dispatch", "document.body.dispatch"), key)

    def click_at(self, x, y, shift=False):
        """The mouse at a place of the window, in CSS pixels."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.cdp("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left",
                     clickCount=0 if kind == "mouseMoved" else 1, modifiers=8 if shift else 0)

    def faults(self, *expected):
        """Errors and warnings of the console since the last call that the test did not expect: 0 is the contract."""
        lines = [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")
                 if entry["level"] in ("SEVERE", "WARNING")]  # DEBUG: Chromium's advice on forms
        # Chromium advises against reading pixels back, as tests do. Debian 13's dygraphs reports each line that leaves the picture.
        advice = ("Canvas2D: Multiple readback", r"points out of [XY] bounds")
        return [line for line in lines if not any(re.search(pattern, line) for pattern in (*advice, *expected))]

    def picture(self, path):
        self.driver.save_screenshot(path)

    def downloaded(self, ending):
        def done():
            return [name for name in os.listdir(self.downloads) if name.endswith(ending)]
        wait_for(done, f"a download that ends with {ending}")
        path = os.path.join(self.downloads, done()[0])
        size = -1
        while size != os.path.getsize(path):
            size = os.path.getsize(path)
            time.sleep(0.05)
        return path

    def grey(self, path, scale=1):
        """The lightness of each pixel of a PNG or SVG file, drawn by the browser: rows × columns of uint8."""
        kind = "image/svg+xml" if path.endswith(".svg") else "image/png"
        with open(path, "rb") as file:
            data = base64.b64encode(file.read()).decode()
        width, height, pixels = self.driver.execute_async_script("""
            const [address, scale, done] = arguments, image = new Image();
            image.onload = () => {
                const canvas = document.createElement("canvas"), width = Math.round(image.naturalWidth * scale), height = Math.round(image.naturalHeight * scale);
                Object.assign(canvas, { width, height });
                const context = canvas.getContext("2d", { willReadFrequently: true });
                context.drawImage(image, 0, 0, width, height);
                const rgba = context.getImageData(0, 0, width, height).data, grey = new Uint8Array(width * height), parts = [];
                for (let i = 0; i < grey.length; i++)
                    grey[i] = Math.round(0.2126 * rgba[4 * i] + 0.7152 * rgba[4 * i + 1] + 0.0722 * rgba[4 * i + 2]);
                for (let i = 0; i < grey.length; i += 8192)
                    parts.push(String.fromCharCode(...grey.subarray(i, i + 8192)));
                done([width, height, btoa(parts.join(""))]);
            };
            image.onerror = () => done([0, 0, ""]);
            image.src = address;
            """, f"data:{kind};base64,{data}", scale)
        assert width > 0, f"{path} is no picture"
        return np.frombuffer(base64.b64decode(pixels), np.uint8).reshape(height, width)

    def forget_downloads(self):
        for name in os.listdir(self.downloads):
            os.remove(os.path.join(self.downloads, name))

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)


class PageCase(unittest.TestCase):
    """A daemon, convolv-web and a window of its page."""

    def setUp(self):
        folder = temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, config, *arguments, before=chosen_priority, **window):
        self.daemon = Daemon(self.folder, config)
        self.addCleanup(lambda: self.daemon.kill())
        self.web = Web(self.folder, *arguments, before=before)
        self.addCleanup(lambda: self.web.kill())
        self.browser = Browser(**window)
        self.addCleanup(self.browser.close)

    def open(self, view):
        self.browser.open("about:blank")
        self.browser.open(f"{self.web.url}/#/{view}")
