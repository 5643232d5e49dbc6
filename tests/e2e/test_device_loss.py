#!/usr/bin/python3
# parallel: yes
# takes: 19 s CPU in 140 s
# takes-long: 155 s CPU in 486 s
# timeout: 900
# sanitizers: no, LD_PRELOAD comes before the sanitizer's own library
# long: also, a fault at every call of a short run instead of a few
"""A device that fails, stalls or dies: an OpenCL library between the daemon and its driver misbehaves from call n on
(tests/e2e/faulty_opencl.c). Two engines on the CPU stand for two devices; only the first misbehaves. With
CONVOLVD_TEST_DEVICE=gpu the first is a GPU, and PoCL stands by for it."""
import os
import signal
import time
import unittest

import numpy as np

import convolvd as c
import machine
from test_notify import Manager

RATE = 48000
CHANNELS = 2
LONG = os.environ.get("CONVOLVD_TEST_LONG") == "1"
TWO = f"{c.DEVICE}, cpu"


class DeviceLoss(unittest.TestCase):
    def setUp(self):
        folder = c.temporary()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.mirrored = {} # environment of convolvd-test
        self.gate = f"{self.folder}/gate"
        self.taps = c.random_taps(5, 301)
        np.save(f"{self.folder}/f.npy", self.taps)

    def open_gate(self):
        with open(self.gate, "w", encoding="ascii"):
            pass

    def faults(self, mode, call=1, **more):
        return {"LD_PRELOAD": os.path.abspath(f"{c.BUILD}/tests/faulty_opencl.so"), "FAULTY_MODE": mode,
                "FAULTY_CALL": str(call), **{f"FAULTY_{key.upper()}": str(value) for key, value in more.items()}}

    def config(self, device, source, extra=""):
        return (f"[device]\ndevice = {device}\nbatch deadline = 100 ms\n{extra}\n"
                f"[filter f]\ntype = file\npath = {self.folder}/f.npy\n"
                f"[stream s]\n{source}\nfilter = f\nblock = 128\nvariant = general\n"
                f"[sink o]\ntype = recording\nstream = s\npath = {self.folder}/o.wav\n")

    def endless(self, device, extra=""):
        return self.config(device, f"source = generator\nrate = {RATE} Hz\nchannels = {CHANNELS}\nwaveform = noise\n"
                                   "amplitude = 0.1", extra)

    def wait_standby(self, daemon):
        c.wait_for(lambda: daemon.stream()["standby"] is not None, "a device that stands by")

    # ---- no progress ----

    def test_a_dead_device_is_no_progress(self):
        """Failed batches fed the watchdog and filled the log: 16 pings and 3359 lines in 4 s."""
        manager = Manager(self.folder, 1)
        with c.Daemon(self.folder, self.endless(c.DEVICE),
                      environment={**self.faults("die", gate=self.gate, contexts=99), **manager.environment}) as daemon:
            self.open_gate()
            daemon.wait_said("CL_DEVICE_NOT_AVAILABLE")
            died = time.monotonic()
            time.sleep(2.5)
            late = [at for at in manager.times("WATCHDOG") if at > died + 1]
            self.assertEqual(late, [], "pings of a device that computes nothing")
            status = daemon.status()
            self.assertGreater(status["streams"][0]["batches_failed"], 0)
            self.assertEqual(status["devices"][0]["state"], "lost")
            lines = [line for line in daemon.lines if line.startswith("convolvd: error: ")
                     and "the device refused a" in line and "is lost" not in line]
            self.assertEqual(len(lines), 1, daemon.output())
            daemon.kill()

    # ---- the next device takes over, and the lost one comes back ----

    def play(self, mode, call):
        """A recording as fast as it goes, with a fault at call n: what comes out is the definition's."""
        for name in ("o.wav", "o.wav.json"):
            if os.path.exists(f"{self.folder}/{name}"):
                os.unlink(f"{self.folder}/{name}")
        with c.Daemon(self.folder, self.config(TWO, f"source = file\npath = {self.folder}/x.wav\npace = fast"),
                      environment={**self.faults(mode, call, count=f"{self.folder}/count"), **self.mirrored},
                      program="convolvd-test" if self.mirrored else "convolvd",
                      wait=False) as daemon:
            code = daemon.wait()
            return code, daemon

    def calls_of(self, frames):
        codes = c.noise_codes(6, frames, 16)
        c.write_wav16(f"{self.folder}/x.wav", RATE, codes)
        count = f"{self.folder}/count"
        for _ in range(8):
            code, daemon = self.play("none", 0)
            self.assertEqual(code, 0, daemon.output())
            # On a busy machine the stream can end before kernels for what stands by are compiled: a daemon that leaves its
            # thread behind counts nothing. The next one finds more of them compiled.
            if os.path.exists(count):
                break
        with open(count, encoding="ascii") as file:
            calls = int(file.read())
        os.unlink(count)
        return calls

    def sweep(self, mode):
        prepared = self.calls_of(1) # a start that hangs is another matter: it ends after a minute
        calls = self.calls_of(6000)
        codes = c.noise_codes(6, 6000, 16)
        c.write_wav16(f"{self.folder}/x.wav", RATE, codes)
        x = codes / 32768.0
        want = c.convolve(x, self.taps)
        first = prepared + 1 if mode in ("stall", "mute") else 1
        self.assertGreater(calls, first + 3)
        chosen = range(first, calls + 1) if LONG else sorted({max(first, prepared // 2), calls - 3})
        for call in chosen:
            with self.subTest(mode=mode, call=call):
                code, daemon = self.play(mode, call)
                # The last calls close the devices: one that hangs there is left, and the status says so.
                closing = mode == "stall" and call > calls - 4
                self.assertIn(code, (0, 3) if closing else (0,), daemon.output())
                status = c.check_ledgers(c.load_json(daemon.status_path))
                stream = status["streams"][0]
                self.assertEqual(stream["frames_out"]["shed"]["device"], 0, daemon.output())
                c.assert_within(c.read_recording(f"{self.folder}/o.wav"), want, x, self.taps, what=f"{mode} {call}")
                self.assertLessEqual(len([line for line in daemon.lines if " is lost: " in line]), 1, daemon.output())

    def test_fail(self):
        self.sweep("fail")

    @unittest.skipIf(c.DEVICE != "cpu", "a CPU that is made to look like a device with memory of its own")
    def test_mirrored_fail(self):
        """A device with memory of its own: copies in and out fail, too."""
        self.mirrored = {"CONVOLVD_TEST_MIRRORED": "1"}
        self.sweep("fail")

    @unittest.skipIf(c.DEVICE != "cpu", "a CPU that is made to look like a device with memory of its own")
    def test_mirrored_mute(self):
        self.mirrored = {"CONVOLVD_TEST_MIRRORED": "1"}
        self.sweep("mute")

    def test_die(self):
        self.sweep("die")

    def test_stall(self):
        self.sweep("stall")

    def test_mute(self):
        self.sweep("mute")

    def test_streams_go_on_and_return(self):
        """A live device stalls: the results go on on the other one within two blocks of the verdict, nothing is
        missing, and the device comes back."""
        with c.Daemon(self.folder, self.endless(TWO),
                      environment=self.faults("stall", gate=self.gate)) as daemon:
            self.wait_standby(daemon)
            quiet_ns = daemon.stream()["latency_ns"]["total"]["max"]  # what else runs on this machine delays blocks, too
            watch = machine.Watch()
            self.open_gate()
            daemon.wait_said("works again")
            status = daemon.status()
            first, second = status["devices"]
            self.assertEqual((first["state"], second["state"]), ("works", "works"))
            self.assertEqual(first["losses"], {"failed": 0, "stalled": 1, "wrong result": 0})
            self.assertEqual((first["returns"], status["devices_abandoned"]), (1, 1))
            before = status["streams"][0]["frames_out"]["out"]
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > before + 4096, "results")
            watch.end()
            stream = daemon.stream()
            self.assertEqual(stream["engine"], 0, "the stream is back on the first device")
            self.assertEqual(stream["frames_out"]["shed"]["device"], 0)
            # The batch that stalled held the results up by its deadline; the standby's two blocks come after.
            total_ns = stream["latency_ns"]["total"]["max"]
            self.assertLess(total_ns - watch.most(total_ns / 1e9) * 1e9, 100e6 * 2 + 2 * 128 / RATE * 1e9 + quiet_ns)
            self.assertEqual(stream["invalid"].get("device", 0), 0)
            daemon.stop()

    @unittest.skipIf(c.DEVICE != "cpu", "two devices of PoCL that have names of their own")
    def test_the_sidecar_names_the_devices(self):
        """After a takeover and a return the sidecar says which device computed which frames; it named the first."""
        with c.Daemon(self.folder, self.endless("0, 1"),
                      environment={**self.faults("die", gate=self.gate), "POCL_DEVICES": "pthread basic"}) as daemon:
            self.wait_standby(daemon)
            self.open_gate()
            daemon.wait_said("works again")
            c.wait_for(lambda: daemon.stream()["engine"] == 0, "the stream on the first device")
            before = daemon.stream()["frames_out"]["out"]
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > before + 4096, "results")
            status = daemon.stop()
        first, second = (device["name"] for device in status["devices"])
        self.assertNotEqual(first, second)
        side = c.load_json(f"{self.folder}/o.wav.json")
        self.assertEqual([piece["device"] for piece in side["devices"]], [first, second, first])
        starts = [piece["first_frame"] for piece in side["devices"]]
        self.assertEqual(starts, sorted(set(starts)))
        self.assertEqual((starts[0], side["device"]), (0, first))

    def test_a_reload_meanwhile(self):
        """A stream that is made while the first device is lost goes there once it is back."""
        with c.Daemon(self.folder, self.endless(TWO),
                      environment=self.faults("die", gate=self.gate)) as daemon:
            self.wait_standby(daemon)
            with open(daemon.path, "w", encoding="utf-8") as file:
                file.write(self.endless(TWO).replace("amplitude = 0.1", "amplitude = 0.2"))
            self.open_gate()
            daemon.wait_said(" is lost: ")
            daemon.signal(signal.SIGHUP)
            daemon.wait_said("reloaded: ")
            daemon.wait_said("works again")
            c.wait_for(lambda: daemon.stream()["engine"] == 0, "the stream on the first device")
            before = daemon.stream()["frames_out"]["out"]
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > before + 4096, "results")
            daemon.stop()

    def test_wrong_results_are_found(self):
        """A device that computes nothing and says it has: the self-check notices, the next device goes on."""
        with c.Daemon(self.folder, self.endless(TWO, "self check = 100 ms"),
                      environment=self.faults("wrong", gate=self.gate)) as daemon:
            self.wait_standby(daemon)
            c.wait_for(lambda: daemon.stream()["self_check"]["checks"] >= 2, "checks of right results")
            self.assertEqual(daemon.stream()["self_check"]["failures"], 0)
            self.assertLess(daemon.stream()["self_check"]["worst_error"], 1)
            self.open_gate()
            daemon.wait_said("times the error bound")
            c.wait_for(lambda: daemon.status()["devices"][0]["losses"]["wrong result"] == 1, "the verdict")
            before = daemon.stream()
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > before["frames_out"]["out"] + 4096, "results")
            checks = daemon.stream()["self_check"]["checks"]
            c.wait_for(lambda: daemon.stream()["self_check"]["checks"] >= checks + 2, "checks of the next device")
            self.assertEqual(daemon.stream()["self_check"]["failures"], before["self_check"]["failures"])
            daemon.stop()

    @unittest.skipIf(c.DEVICE != "cpu", "test_gpu_loss.py takes the memory of a GPU")
    def test_no_memory_at_the_start(self):
        """The first device has no memory left: the daemon begins on the second, and moves once there is some."""
        self.open_gate()
        environment = {**self.faults("memory", gate=self.gate), "POCL_DEVICES": "pthread pthread"}
        with c.Daemon(self.folder, self.endless("0, 1"), environment=environment) as daemon:
            daemon.wait_said("not in use yet: ")
            self.assertEqual([d["state"] for d in daemon.status()["devices"]].count("lost"), 1)
            daemon.wait_said("cannot be used yet: ")
            os.unlink(self.gate)
            daemon.wait_said("works again")
            c.wait_for(lambda: daemon.status()["streams"][0]["standby"] is not None, "the other one to stand by")
            status = daemon.status()
            self.assertEqual([d["state"] for d in status["devices"]], ["works", "works"])
            used = status["devices"][status["streams"][0]["engine"]]
            self.assertEqual(used["returns"], 1, "the stream is on the device that came back")
            before = daemon.stream()["frames_out"]["out"]
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > before + 4096, "results")
            status = daemon.stop()
            self.assertEqual(status["streams"][0]["frames_out"]["shed"]["device"], 0)
            self.assertEqual(status["devices_abandoned"], 0)

    def test_a_driver_that_ends_its_process(self):
        """After a fault NVIDIA's driver makes no context in the process any more: the device is not tried again, for
        a stated reason, and what stands by goes on."""
        with c.Daemon(self.folder, self.endless(TWO), environment=self.faults("end", gate=self.gate)) as daemon:
            self.wait_standby(daemon)
            self.open_gate()
            daemon.wait_said("is not tried again: its driver makes no context in this process any more")
            status = daemon.status()
            self.assertEqual([d["state"] for d in status["devices"]], ["given up", "works"])
            c.wait_for(lambda: daemon.status()["devices_abandoned"] == 0, "the lost engine to close")
            before = daemon.stream()["frames_out"]["out"]
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > before + 4096, "results")
            status = daemon.stop()
            self.assertEqual(status["streams"][0]["frames_out"]["shed"]["device"], 0)

    def late(self, device, times):
        """Each time the gate opens, one call takes 1 s longer than the deadline and then answers."""
        with c.Daemon(self.folder, self.endless(device),
                      environment=self.faults("late", gate=self.gate, contexts=99, ms=1100)) as daemon:
            for time_ in range(1, times + 1):
                c.wait_for(lambda: daemon.stream()["standby"] is not None or "," not in device, "a device that stands by")
                before = daemon.stream()["frames_out"]["out"]
                c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > before + 4096, f"results\n{daemon.output()}")
                self.open_gate()
                c.wait_for(lambda: sum(d["losses"]["stalled"] for d in daemon.status()["devices"]) == time_, "the verdict")
                c.wait_for(lambda: all(d["state"] == "works" for d in daemon.status()["devices"]),
                           f"the device to come back\n{daemon.output()}", 2 * c.PATIENCE_S)
            c.wait_for(lambda: daemon.status()["devices_abandoned"] == 0, f"all that was left to close\n{daemon.output()}")
            self.assertFalse(daemon.said("is not tried again"))
            status = daemon.stop()
            self.assertEqual(sum(device["returns"] for device in status["devices"]), times)
            return status

    def test_late_is_not_hung(self):
        """An engine whose batch comes back late is closed and counts no more: four losses, and nothing is given up."""
        status = self.late(TWO, 4)
        self.assertEqual(status["streams"][0]["frames_out"]["shed"]["device"], 0)

    def test_the_only_device_is_tried_again(self):
        """A single device that is late four times: the stream waits, flagged, and goes on each time."""
        self.late(c.DEVICE, 4)

    @unittest.skipIf(c.DEVICE != "cpu", "two devices of PoCL")
    def test_stopped_while_one_is_prepared(self):
        """A stop while a thread still prepares what stands by: that thread is left behind with what it uses."""
        environment = {**self.faults("late", gate=self.gate, contexts=99, device="others", ms=4000),
                       "POCL_DEVICES": "pthread pthread"}
        with c.Daemon(self.folder, self.endless("0, 1"), environment=environment) as daemon:
            self.open_gate()
            c.wait_for(lambda: not os.path.exists(self.gate), "the call that is late")
            began = time.monotonic()
            daemon.stop()
            self.assertLess(time.monotonic() - began, 4)

    def test_three_are_left_behind(self):
        """Devices that hang each time they come back are not tried again after the third. Nothing can be computed any
        more: the daemon says so, and leaves it to the watchdog to start it anew. Once their drivers answer after all,
        they are closed, the devices are tried again, and the stream goes on."""
        manager = Manager(self.folder, 1)
        with c.Daemon(self.folder, self.endless(TWO),
                      environment={**self.faults("hold", gate=self.gate, contexts=99), **manager.environment}) as daemon:
            self.wait_standby(daemon)
            self.open_gate()
            daemon.wait_said("NO DEVICE IS LEFT", 4 * c.PATIENCE_S)
            said = time.monotonic()
            self.assertEqual(len([line for line in daemon.lines if "is not tried again" in line]), 2, daemon.output())
            status = daemon.status()
            self.assertEqual(status["devices_abandoned"], 3)
            self.assertEqual({device["state"] for device in status["devices"]}, {"given up"})
            time.sleep(2)
            self.assertEqual([at for at in manager.times("WATCHDOG") if at > said], [])
            before = daemon.stream()["frames_out"]["out"]
            os.unlink(self.gate)
            daemon.wait_said("is tried again: the driver of one left behind has answered")
            daemon.wait_said("works again", 2 * c.PATIENCE_S)
            c.wait_for(lambda: daemon.stream()["frames_out"]["out"] > before + 4096, "results")
            c.wait_for(lambda: daemon.status()["devices_abandoned"] == 0, "the lost engines to close")
            answered = time.monotonic()
            c.wait_for(lambda: any(at > answered for at in manager.times("WATCHDOG")), "a ping")
            daemon.stop()


if __name__ == "__main__":
    unittest.main()
