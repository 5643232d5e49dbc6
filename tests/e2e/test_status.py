#!/usr/bin/python3
# parallel: yes
"""Sixteen clients ask for the status of hundreds of streams at once: each gets it whole, and the loop goes on
meanwhile."""
import json
import os
import socket
import threading
import time
import unittest

import convolvd as c
from osc_client import Client

STREAMS, CLIENTS = 600, 16


def config(port):
    return f"[osc]\naddress = *:{port}\nallow = any\n[filter f]\ntype = lowpass\ncutoff = 1 Hz\ntaps = 31\n" + "".join(
        f"[stream s{i}]\nsource = osc\nrate = 10 Hz\nchannels = 4\nblock = 100\nfilter = f\nformat = f32be\n"
        for i in range(STREAMS))


class Status(unittest.TestCase):
    def test_many_ask_at_once(self):
        with c.temporary() as folder:
            port = c.free_port()
            with c.Daemon(folder, config(port), "--quiet", wait=False) as daemon:
                path = os.path.join(folder, "observe.sock")
                c.wait_for(lambda: os.path.exists(path), "the control socket")
                answers, probe = [], Client(port)
                self.addCleanup(probe.close)

                def ask(form):
                    with socket.socket(socket.AF_UNIX) as client:
                        client.connect(path)
                        client.sendall(b'{"command": "status", "format": "%s"}\n' % form)
                        text = b""
                        while not text.endswith(b"\n"):
                            part = client.recv(1 << 20)
                            if not part:
                                raise AssertionError("the daemon closed a connection that it had not answered")
                            text += part
                        answers.append((form, text))

                def running():
                    try:
                        ask(b"json")
                    except ConnectionRefusedError:
                        return False  # bound, and not listening yet
                    return json.loads(answers.pop()[1]).get("status", {}).get("state") == "running"
                c.wait_for(running, "a daemon that runs", 4 * c.PATIENCE_S)
                threads = [threading.Thread(target=ask, args=(b"json" if i % 2 else b"table",)) for i in range(CLIENTS)]
                for thread in threads:
                    thread.start()
                worst = 0
                while any(thread.is_alive() for thread in threads):
                    began = time.monotonic()
                    probe.send("/convolvd/s7/info")
                    probe.await_("/convolvd/s7/info")
                    worst = max(worst, time.monotonic() - began)
                    time.sleep(0.002)
                for thread in threads:
                    thread.join()
                daemon.stop()
        self.assertEqual(len(answers), CLIENTS)
        for form, text in answers:
            answer = json.loads(text)
            self.assertTrue(answer["ok"])
            if form == b"json":
                self.assertEqual([s["name"] for s in answer["status"]["streams"]], [f"s{i}" for i in range(STREAMS)])
            else:
                self.assertEqual(answer["table"].count("\nstream s"), STREAMS)
        c.note(f"# {CLIENTS} clients, {STREAMS} streams: an OSC question was answered after {1000 * worst:.0f} ms at worst")
        self.assertLess(worst, 1.6 if c.SANITIZED else 0.4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
