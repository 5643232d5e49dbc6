#!/usr/bin/python3
# kernels: plain, pipes are tested
# parallel: yes
# takes: 3 s CPU in 17 s
"""Shell pipelines through the daemon: ffmpeg, arecord, cat and sox before and behind it, a slow
reader, a reader that leaves, a live source that does not wait, an incomplete last frame. What comes
out is compared with the definition frame by frame; nothing may be missing between two pipes."""
import json
import os
import socket
import subprocess
import time
import unittest

import numpy as np

import convolvd as c

RATE = 48000
CHANNELS = 2
TAPS = 257
CONVOLVD = os.path.join(c.BUILD, "convolvd")


def config(folder, source="stdin", keys="", sink="type = stdout", daemon=""):
    h = c.random_taps(7, TAPS)
    taps = os.path.join(folder, "taps.npy")
    np.save(taps, h)
    path = os.path.join(folder, "pipe.conf")
    typed = "" if source == "file" else f"rate = {RATE} Hz\nchannels = {CHANNELS}\n"
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"[daemon]\n{daemon}\n[device]\ndevice = {c.DEVICE}\n"
                   f"[stream s]\nsource = {source}\n{typed}{keys}\nfilter = f\n"
                   f"[filter f]\ntype = file\npath = taps.npy\ndelay = 0 frames\n"
                   f"[sink out]\nstream = s\n{sink}\n")
    return path, h


def floats(data):
    return np.frombuffer(data, "<f4").reshape(-1, CHANNELS)


class Pipes(unittest.TestCase):
    def setUp(self):
        self.folder_object = c.temporary()
        self.folder = self.folder_object.name
        self.addCleanup(self.folder_object.cleanup)

    def path(self, name):
        return os.path.join(self.folder, name)

    def shell(self, line, code=0):
        """Runs a line of bash in the folder; every program of its pipelines must end well."""
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], cwd=self.folder,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=c.PATIENCE_S * 3,
                              env={**os.environ, "PATH": f"{c.BUILD}:{os.environ['PATH']}"},
                              check=False)
        self.assertEqual(done.returncode, code, f"{line}\n{done.stderr.decode()}")
        return done

    def result(self):
        with open(self.path("y.raw"), "rb") as file:
            return floats(file.read())

    def noise(self, name, frames, dtype="<f4"):
        codes = c.noise_codes(frames, frames, CHANNELS)
        samples = (codes / 32768).astype("<f4") if dtype == "<f4" else codes.astype(dtype)
        samples.tofile(self.path(name))
        return codes / 32768

    def test_ffmpeg_before_and_sox_behind(self):
        config(self.folder)
        codes = c.noise_codes(1, 40000, CHANNELS)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        self.shell("ffmpeg -v error -i x.wav -f f32le - | convolvd pipe.conf"
                   f" | sox -t raw -r {RATE} -e float -b 32 -c {CHANNELS} - -e float -b 32 y.wav")
        x, h = codes / 32768, np.load(self.path("taps.npy"))
        c.assert_within(c.read_recording(self.path("y.wav")), c.convolve(x, h), x, h)

    def test_sox_before_and_behind_in_16_bits(self):
        config(self.folder, keys="format = s16le\nblock = 500 frames",
               sink="type = stdout\nformat = s16be\nfull scale = 1")
        codes = c.noise_codes(2, 30011, CHANNELS)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        self.shell("sox x.wav -t raw -e signed -b 16 -L - | convolvd -q -c pipe.conf"
                   f" | sox -t raw -r {RATE} -e signed -b 16 -B -c {CHANNELS} - y.wav")
        x, h = codes / 32768, np.load(self.path("taps.npy"))
        c.assert_within(c.read_recording(self.path("y.wav")) / 32768, c.convolve(x, h), x, h, lsb=1 / 32768)

    def test_arecord_before(self):
        """No card is needed: ALSA's file plugin gives what a file holds."""
        config(self.folder)
        frames = 30000
        x = self.noise("x.raw", frames)
        with open(self.path(".asoundrc"), "w", encoding="utf-8") as file:
            file.write('pcm.recorded {\n type file\n slave.pcm null\n file /dev/null\n'
                       f' infile {self.path("x.raw")}\n format raw\n}}\n')
        self.shell(f"HOME=$PWD arecord -q -D recorded -t raw -f FLOAT_LE -r {RATE} -c {CHANNELS} -s {frames}"
                   " | convolvd -q pipe.conf >y.raw")
        h = np.load(self.path("taps.npy"))
        c.assert_within(self.result(), c.convolve(x, h), x, h)

    def test_only_samples_on_standard_output(self):
        """The table of the end, and the one of SIGUSR1, go to standard error."""
        path, h = config(self.folder, daemon="log level = debug\nstatus on exit = yes")
        x = self.noise("x.raw", 20000)
        with open(self.path("x.raw"), "rb") as file:
            data = file.read()
        process = subprocess.Popen([CONVOLVD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, bufsize=0)
        process.stdin.write(data[:60000])
        first = process.stdout.read(8)  # it runs
        process.send_signal(c.signal.SIGUSR1)
        time.sleep(0.3)
        out, err = process.communicate(data[60000:], timeout=c.PATIENCE_S)
        self.assertEqual(process.returncode, 0, err)
        self.assertGreaterEqual(err.count(b"frames in"), 2, err)
        self.assertIn(b"every source has come to its end", err)
        c.assert_within(floats(first + out), c.convolve(x, h), x, h)

    def slow(self, process, limit=None):
        """Reads a little at a time, with pauses that last longer than any buffer."""
        got = bytearray()
        pauses = 0
        while True:
            if pauses < 8:
                time.sleep(0.25)
                pauses += 1
            piece = os.read(process.stdout.fileno(), 1 << 16 if pauses < 8 else 1 << 20)
            if not piece or (limit is not None and len(got) >= limit):
                return bytes(got)
            got += piece

    def test_a_slow_reader_loses_nothing(self):
        """Back-pressure reaches the writer of the pipe, and `drain timeout` does not cut the end."""
        path, h = config(self.folder, sink="type = stdout\nqueue = 64 KiB",
                         daemon="drain timeout = 100 ms\nstatus file = status.json")
        frames = 1200000
        x = self.noise("x.raw", frames)
        process = subprocess.Popen([CONVOLVD, "-q", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        os.set_blocking(process.stdin.fileno(), False)
        with open(self.path("x.raw"), "rb") as file:
            data = file.read()
        sent, last = 0, time.monotonic()
        while sent < len(data) and time.monotonic() - last < 1.5:  # as much as it takes unread
            try:
                sent += os.write(process.stdin.fileno(), data[sent:sent + 65536])
                last = time.monotonic()
            except BlockingIOError:
                time.sleep(0.01)
        self.assertLess(sent, len(data), "nobody reads, and yet the daemon has taken everything")
        os.set_blocking(process.stdin.fileno(), True)
        feeder = c.threading.Thread(target=lambda: (process.stdin.write(data[sent:]), process.stdin.close()))
        feeder.start()
        got = self.slow(process)
        feeder.join()
        self.assertEqual(process.wait(c.PATIENCE_S), 0)
        process.stdout.close()
        process.stderr.close()
        c.assert_within(floats(got), c.convolve(x, h), x, h)
        with open(self.path("status.json"), encoding="utf-8") as file:
            sink = json.load(file)["streams"][0]["sinks"][0]
        self.assertEqual(sink["delivered"], frames + TAPS - 1)
        self.assertEqual(sum(sink["dropped"].values()), 0)

    def test_a_file_waits_for_a_slow_reader(self):
        codes = c.noise_codes(3, 400000, CHANNELS)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        path, h = config(self.folder, source="file", keys="path = x.wav\npace = fast",
                         sink="type = stdout\nqueue = 64 KiB", daemon="drain timeout = 100 ms")
        process = subprocess.Popen([CONVOLVD, "-q", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        got = self.slow(process)
        process.stdout.close()
        self.assertEqual(process.wait(c.PATIENCE_S), 0)
        x = codes / 32768
        c.assert_within(floats(got), c.convolve(x, h), x, h)

    def test_a_reader_may_stall_after_the_end(self):
        """The file has ended long before the reader wakes: the run waits for it up to `drain timeout`."""
        frames = 14000  # of 8 bytes: more than a pipe holds, less than pipe and queue
        codes = c.noise_codes(4, frames, CHANNELS)
        c.write_wav16(self.path("x.wav"), RATE, codes)
        path, h = config(self.folder, source="file", keys="path = x.wav\npace = fast",
                         sink="type = stdout\nqueue = 256 KiB", daemon="drain timeout = 60 min")
        done = subprocess.run(["bash", "-c", f"{CONVOLVD} -q {path} | (sleep 4; cat > y.raw); echo ${{PIPESTATUS[0]}}"],
                              cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=c.PATIENCE_S,
                              check=False)
        self.assertEqual(done.stdout, b"0\n", done)
        x = codes / 32768
        c.assert_within(self.result(), c.convolve(x, h), x, h)

    def test_a_reader_that_leaves_ends_the_sink(self):
        """An endless writer before the daemon does not keep it alive: nobody wants results any more."""
        path, h = config(self.folder)
        x = self.noise("x.raw", 100000)
        line = f"(cat x.raw; cat /dev/zero) | {CONVOLVD} {path} 2>err | head -c 80000 >y.raw; echo ${{PIPESTATUS[@]}}"
        done = subprocess.run(["bash", "-c", line], cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=c.PATIENCE_S, check=False)
        codes = done.stdout.split()
        self.assertEqual(codes[1:], [b"0", b"0"], done)
        with open(self.path("err"), encoding="utf-8") as file:
            said = file.read()
        self.assertEqual(said.count("the reader of standard output has closed it (EPIPE)"), 1, said)
        self.assertIn("all sinks of its results have ended", said)
        want = c.convolve(x, h)[:10000]
        c.assert_within(self.result(), want, x, h)

    def test_a_live_source_does_not_wait(self):
        """What a reader does not take of a live stream is dropped under a name."""
        port = c.free_port()
        path, _ = config(self.folder, source="udp", keys=f"address = 127.0.0.1:{port}",
                         sink="type = stdout\nqueue = 64 KiB", daemon="status file = status.json")
        process = subprocess.Popen([CONVOLVD, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        out = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.addCleanup(out.close)
        payload = np.zeros((128, CHANNELS), "<f4").tobytes()

        def dropped():
            for _ in range(400):
                out.sendto(payload, ("127.0.0.1", port))
                time.sleep(0.0005)
            try:
                os.unlink(self.path("status.json"))
            except FileNotFoundError:
                pass
            process.send_signal(c.signal.SIGUSR1)
            c.wait_for(lambda: os.path.exists(self.path("status.json")), "the status")
            with open(self.path("status.json"), encoding="utf-8") as file:
                sink = json.load(file)["streams"][0]["sinks"][0]
            self.assertEqual(sink["frames"],
                             sink["delivered"] + sink["pending"] + sum(sink["dropped"].values()))
            return sink["dropped"]["queue"] > 0

        for line in process.stderr:
            if b"ready after" in line:
                break
        c.wait_for(dropped, "drops of the queue")
        process.send_signal(c.signal.SIGTERM)
        process.stdout.read()
        process.stderr.read()
        self.assertEqual(process.wait(c.PATIENCE_S), 0)
        process.stdout.close()
        process.stderr.close()

    def test_an_incomplete_last_frame_is_reported(self):
        config(self.folder)
        x = self.noise("x.raw", 5000)
        done = self.shell("(cat x.raw; printf abc) | convolvd -q pipe.conf >y.raw")
        self.assertIn("its last 3 bytes are no frame of 8 and are left out", done.stderr.decode())
        h = np.load(self.path("taps.npy"))
        c.assert_within(self.result(), c.convolve(x, h), x, h)

    def test_frames_cut_anywhere_come_whole(self):
        """Writes of any size: a frame may arrive in several reads."""
        path, h = config(self.folder)
        x = self.noise("x.raw", 3000)
        with open(self.path("x.raw"), "rb") as file:
            data = file.read()
        process = subprocess.Popen([CONVOLVD, "-q", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        at, sizes = 0, [1, 3, 7, 11, 4099, 13, 8, 2]
        for n in range(10000):
            if at >= len(data):
                break
            piece = data[at:at + sizes[n % len(sizes)]]
            process.stdin.write(piece)
            process.stdin.flush()
            at += len(piece)
            if n < 50:
                time.sleep(0.002)
        out, _ = process.communicate(timeout=c.PATIENCE_S)
        self.assertEqual(process.returncode, 0)
        c.assert_within(floats(out), c.convolve(x, h), x, h)

    def test_sigterm_while_nobody_reads(self):
        """Neither an idle writer before the daemon nor a full pipe behind it keeps it from stopping."""
        path, _ = config(self.folder, sink="type = stdout\nqueue = 64 KiB", daemon="drain timeout = 500 ms")
        process = subprocess.Popen([CONVOLVD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        for line in process.stderr:
            if b"ready after" in line:
                break
        os.set_blocking(process.stdin.fileno(), False)
        deadline = time.monotonic() + 1.5
        while time.monotonic() < deadline:
            try:
                os.write(process.stdin.fileno(), bytes(65536))
            except BlockingIOError:
                time.sleep(0.01)
        process.send_signal(c.signal.SIGTERM)
        self.assertEqual(process.wait(c.PATIENCE_S), 3)  # results that nobody read are cut off
        process.stdin.close()
        process.stdout.close()
        process.stderr.close()

    def test_an_idle_writer_does_not_keep_it_from_stopping(self):
        """The reading thread waits for bytes that do not come when the daemon is told to stop."""
        path, _ = config(self.folder)
        process = subprocess.Popen([CONVOLVD, path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        for line in process.stderr:
            if b"ready after" in line:
                break
        time.sleep(0.1)
        process.send_signal(c.signal.SIGTERM)
        try:
            self.assertEqual(process.wait(c.PATIENCE_S), 0)
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stderr.close()

    def test_pipes_are_opened_once(self):
        """A reload cannot open the pipes a second time: it says so and nothing changes."""
        path, h = config(self.folder)
        x = self.noise("x.raw", 20000)
        with open(self.path("x.raw"), "rb") as file:
            data = file.read()
        with open(self.path("err"), "w+b") as err:
            process = subprocess.Popen([CONVOLVD, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=err, bufsize=0)
            process.stdin.write(data[:60000])
            first = process.stdout.read(8)
            with open(path, encoding="utf-8") as file:
                text = file.read()
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace("filter = f", "filter = f\nblock = 512 frames"))
            process.send_signal(c.signal.SIGHUP)

            def said():
                with open(self.path("err"), encoding="utf-8") as file:
                    return "a second time; restart the daemon" in file.read()
            c.wait_for(said, "the refusal")
            out, _ = process.communicate(data[60000:], timeout=c.PATIENCE_S)
            self.assertEqual(process.returncode, 0)
        c.assert_within(floats(first + out), c.convolve(x, h), x, h)

    def test_each_pipe_refuses_a_second_opening(self):
        for source, keys, sink, says in (
                ("stdin", "", "type = recording\npath = y.wav", "standard input is read already"),
                ("generator", "duration = 1 h", "type = stdout", "standard output is written already")):
            path, _ = config(self.folder, source=source, keys=keys, sink=sink)
            with open(self.path("err"), "w+b") as err:
                process = subprocess.Popen([CONVOLVD, path], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                           stderr=err)

                def said(words):
                    with open(self.path("err"), encoding="utf-8") as file:
                        return words in file.read()
                c.wait_for(lambda: said("ready after"), "the start")
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text.replace("filter = f", "filter = f\nblock = 512 frames"))
                process.send_signal(c.signal.SIGHUP)
                c.wait_for(lambda words=says: said(words), says)
                process.send_signal(c.signal.SIGTERM)
                process.stdin.close()
                self.assertEqual(process.wait(c.PATIENCE_S), 0)


if __name__ == "__main__":
    unittest.main()
