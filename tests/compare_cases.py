"""What tests/compare-builds runs: configurations derived from config/, further ones, and the files
they read. All of it depends on this file and on config/ alone; noise comes from fixed seeds."""
import os
import re
import struct

import numpy as np

# Keys of a stream that a generator does not take.
LIVE_KEYS = {"address", "interface", "allow", "payload type", "ssrc", "mode", "sequence order", "card",
             "host api", "channel map", "device period", "duplex", "round trip", "allow conversion",
             "reorder", "max gap", "takeover", "max dropout", "max misorder", "receive buffer", "receive",
             "datagrams per wake"}
# The format of a live source whose stream names none.
LIVE_FORMATS = {"rtp": "s16be", "udp": "f32le", "udp-seq": "f32le", "osc": "f32be",
                "portaudio": "s32le"}
# Keys of a sink that a recording takes, the path apart. `min free` would depend on the disk.
RECORDING_KEYS = ("stream", "format", "full scale", "container", "record", "rotate", "keep", "queue")
RECORDED_FORMATS = {"L16": "s16le", "L24": "s24le"}

FRAMES_LEAST = 50000

# Variants that need a GPU; on a CPU the unit tests run them with CONVOLVD_TEST_SHAPE=gpu.
GPU_VARIANTS = {"fused", "staged"}


class Failure(Exception):
    """A run without results to compare; the message says why."""


# ---- configurations --------------------------------------------------------------------------

class Section:
    def __init__(self, kind, name, settings):
        self.kind, self.name, self.settings = kind, name, settings  # [(key, value)]

    def get(self, key, fallback=None):
        return next((value for name, value in self.settings if name == key), fallback)

    def text(self):
        heading = f"[{self.kind} {self.name}]" if self.name else f"[{self.kind}]"
        return "\n".join([heading, *(f"{key} = {value}" for key, value in self.settings)]) + "\n"


def parse(text):
    sections = []
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        line = re.sub(r"(^|\s)[#;].*$", "", line).strip()
        heading = re.fullmatch(r"\[(\w+)\s*(.*?)\]", line)
        if heading:
            sections.append(Section(*heading.groups(), []))
        elif "=" in line:
            key, _, value = line.partition("=")
            sections[-1].settings.append((key.strip(), value.strip()))
    return sections


UNITS = {"Hz": 1, "kHz": 1e3, "MHz": 1e6, "GHz": 1e9, "s": 1, "ms": 1e-3, "us": 1e-6, "frames": None,
         "": None}


def block_frames(section):
    """The length of a stream's blocks."""
    number, unit = re.fullmatch(r"([\d.]+)\s*(\w*)", section.get("block", "1024")).groups()
    if UNITS[unit] is None:
        return int(number)
    rate, rate_unit = re.fullmatch(r"([\d.]+)\s*(\w*)", section.get("rate")).groups()
    return round(float(number) * UNITS[unit] * float(rate) * (UNITS[rate_unit] or 1))


def derive_stream(section, seed):
    source = section.get("source")
    settings = [(key, value) for key, value in section.settings if key != "idle flush"]
    # A machine that stalls would end a block early.
    settings.append(("idle flush", "0"))
    if source.startswith("stream "):
        return Section(section.kind, section.name, settings)
    if source == "file":
        raise Failure(f"stream {section.name} reads a recording: give it a generator in derive_stream")
    block = block_frames(section)
    settings = [(key, value) for key, value in settings
                if key not in LIVE_KEYS | {"source", "pace", "duration", "loop", "path"}]
    added = [("source", "generator"), ("pace", "fast"),
             ("duration", f"{max(24 * block, FRAMES_LEAST) + block // 3 + 7} frames")]
    if source != "generator":
        added += [("waveform", "noise"), ("seed", str(seed))]
        if section.get("format") is None:
            added.append(("format", LIVE_FORMATS[source]))
    return Section(section.kind, section.name, added + settings)


def recording(name, settings):
    container = dict(settings).get("container", "wav")
    suffix = "w64" if container == "w64" else "wav"
    return Section("sink", name, [("type", "recording"), ("path", f"{name}.{suffix}"), *settings])


def derive_sink(section):
    settings = []
    for key in RECORDING_KEYS:
        value = section.get(key)
        if value is None:
            continue
        if key == "format":
            value = RECORDED_FORMATS.get(value, re.sub(r"(le|be)$", "", value) + "le")
        settings.append((key, value))
    return recording(section.name, settings)


def derive(text):
    """A configuration whose results depend on nothing outside it."""
    sections, seed = [], 0
    for section in parse(text):
        if section.kind == "stream":
            seed += 1
            sections.append(derive_stream(section, seed))
        elif section.kind == "sink":
            sections.append(derive_sink(section))
        elif section.kind == "filter":
            sections.append(section)
    recorded = {section.get("stream") for section in sections if section.kind == "sink"}
    for section in [s for s in sections if s.kind == "stream" and s.name not in recorded]:
        sections.append(recording(f"{section.name}-all", [("stream", section.name)]))
    return "\n".join(section.text() for section in sections)


# ---- further configurations ------------------------------------------------------------------

def stream(name, keys, frames=30011, **more):
    """A stream from a generator of noise; **more overrides and adds keys (_ for a space)."""
    settings = {"source": "generator", "pace": "fast", "waveform": "noise", "amplitude": "0.2 V",
                "seed": str(1 + len(name)), "rate": "1 MHz", "channels": "2", "format": "s16le",
                "full scale": "1 V", "block": "1024 frames", "idle flush": "0",
                "duration": f"{frames} frames"}
    settings.update((key.replace("_", " "), value) for key, value in more.items())
    given = [f"{key} = {value}" for key, value in settings.items() if value is not None]
    return f"[stream {name}]\n" + "\n".join(given) + f"\n{keys}\n"


def reader(name, upstream, keys):
    return f"[stream {name}]\nsource = stream {upstream}\nidle flush = 0\n{keys}\n"


def sink(name, of, keys="", path=None):
    return f"[sink {name}]\ntype = recording\nstream = {of}\npath = {path or name + '.wav'}\n{keys}\n"


def filter_section(name, kind, keys=""):
    return f"[filter {name}]\ntype = {kind}\n{keys}\n"


SHORT = filter_section("short", "lowpass", "cutoff = 100 kHz\ntaps = 21")
BAND = filter_section("band", "bandpass", "low = 50 kHz\nhigh = 200 kHz\ntaps = 301\nanalytic = yes")
LONG = filter_section("long", "bandpass", "low = 50 kHz\nhigh = 60 kHz\ntaps = 3001\nanalytic = yes")
HUGE = filter_section("huge", "lowpass", "cutoff = 20 kHz\ntaps = 32768")


def variant_case(variant, partitions, matrix):
    """Every form of output by one variant; long filters and matrices where it has them."""
    key = f"variant = {variant}\n"
    taps = "short" if variant == "direct" else "band"
    text = BAND + (SHORT if taps == "short" or matrix else "")
    text += stream("real", key + f"filter = {taps}") + sink("real", "real")
    text += sink("real16", "real", "format = s16\nfull scale = 0.3 V")
    text += stream("encoded", key + f"filter = {taps}", format="s24be", channels="3")
    text += sink("encoded", "encoded", "format = s24\nfull scale = 1 V")
    text += stream("complex", key + "filter = band\noutput = complex\nblock = 777 frames", block=None)
    text += sink("complex", "complex")
    text += stream("envelope", key + "filter = band\noutput = envelope", format="f32be", channels="1")
    text += sink("envelope", "envelope")
    text += stream("thin", key + "filter = band\noutput = envelope\ndecimate = 4", channels="16")
    text += sink("thin", "thin")
    text += stream("odd", key + f"filter = {taps}\ndecimate = 7", channels="4", block="500 frames",
                   rate="700 kHz")
    text += sink("odd", "odd")
    if partitions:
        text += LONG + stream("long", key + "filter = long\noutput = envelope", block="256 frames")
        text += sink("long", "long")
    if matrix:
        text += stream("matrix", key + "route = 1 -> band -> 1\nroute = 2 -> band -6 dB -> 1\n"
                       "route = 3 -> short -1 -> 2\nroute = 1 -> band 0.5 -> 2\n"
                       "output = complex, real", channels="3")
        text += sink("matrix", "matrix")
    return text


def format_case(names):
    text = BAND
    for name, keys in names:
        word = re.sub(r"\W", "-", name)
        text += stream(word, f"filter = band\n{keys}", 10007, format=name.split()[0])
        text += sink(word, word) + sink(f"{word}-raw", word, "record = input")
    return text


def sinks_case():
    text = BAND + stream("s", "filter = band, band\noutput = real, envelope", 40009, amplitude="0.3 V")
    for container in ("wav", "w64", "rf64"):
        for kind in ("s16", "s24", "s32", "f32"):
            name = f"{container}-{kind}"
            text += sink(name, "s", f"container = {container}\nformat = {kind}\nfull scale = 0.4 V",
                         f"{name}.{'w64' if container == 'w64' else 'wav'}")
    text += sink("cut", "s", "format = s24\nrotate = 12345 us")
    text += sink("cut-raw", "s", "record = input\nrotate = 64 KiB")
    text += sink("last", "s", "rotate = 10 ms\nkeep = 2")
    return text


def designs_case(kinds, keys="", **more):
    text = ""
    for name, kind, design in kinds:
        text += filter_section(name, kind, design)
        text += stream(f"s-{name}", f"filter = {name}\n{keys}", 12007, channels="1", **more)
        text += sink(f"s-{name}", f"s-{name}")
    return text


def designed():
    return designs_case([
        ("low", "lowpass", "cutoff = 50 kHz\ntransition = 10 kHz\nattenuation = 80 dB"),
        ("high", "highpass", "cutoff = 50 kHz\ntransition = 20 kHz"),
        ("stop", "bandstop", "low = 50 kHz\nhigh = 80 kHz\ntransition = 10 kHz\nripple = 0.01 dB"),
        ("remez", "bandpass", "method = remez\nlow = 50 kHz\nhigh = 90 kHz\ntransition = 20 kHz"),
        ("even", "lowpass", "cutoff = 100 kHz\ntaps = 64\ngain = -3 dB\ninvert = yes"),
        ("same", "identity", "gain = 6 dB")])


def matched():
    chirp = "start = 50 kHz\nstop = 250 kHz\nlength = 300 us\n"
    golay = "order = 5\ncarrier = 100 kHz\ncycles per chip = 2\n"
    return designs_case([
        ("up", "chirp", chirp + "window = hann\nanalytic = yes"),
        ("down", "chirp", "start = 250 kHz\nstop = 50 kHz\nlength = 300 us\nwindow = tukey\n"
                          "taper = 40 %\nnormalise = energy\nanalytic = yes"),
        ("barker", "barker", "code = 13\ncarrier = 64 kHz\ncycles per chip = 4\nanalytic = yes"),
        ("barker7", "barker", "code = 7\nchip rate = 50 kHz\ncarrier = 100 kHz\nnormalise = none\n"
                              "analytic = yes"),
        ("golay-a", "golay", golay + "analytic = yes"),
        ("golay-b", "golay", golay + "pair = b\nanalytic = yes"),
        ("sent", "replica", "path = ../inputs/replica.npy\nanalytic = yes")], "output = envelope")


def from_files():
    return designs_case([
        ("real", "file", "path = ../inputs/taps.npy\ndelay = 12 frames"),
        ("complex", "file", "path = ../inputs/taps-complex.npy\ndelay = 3 us"),
        ("text", "file", "path = ../inputs/taps.txt\ndelay = 0 frames"),
        ("wav", "file", "path = ../inputs/taps.wav\ndelay = 0 frames"),
        ("replica", "replica", "path = ../inputs/replica.npy\nnormalise = energy\nwindow = hann")])


def array_case():
    text = ""
    for name, keys in (("pass", ""), ("reject", "fan = reject\npadding = 40\n")):
        text += filter_section(name, "fk", "spacing = 5 mm\nvelocity low = 1600 m/s\n"
                               "velocity high = 5000 m/s\nlow = 40 kHz\nhigh = 150 kHz\n"
                               f"taper = 50 %\ntaps = 127\n{keys}")
        text += stream(name, f"filter = {name}\nchannel delay = 2 us", 20011, channels="16",
                       waveform="burst-sine2", frequency="100 kHz", length="60 us", period="1 ms",
                       noise="10 mV") + sink(name, name)
    return text


WAVEFORMS = ("sine", "chirp", "noise", "impulses", "dc", "burst-rect", "burst-triangle", "burst-sine2",
             "ae", "counter")


def waveforms_case():
    text = filter_section("same", "identity")
    for name in WAVEFORMS:
        text += stream(name, "filter = same\ndc = 10 mV", 20011, waveform=name, format="s32le")
        text += sink(name, name) + sink(f"{name}-raw", name, "record = input")
    return text


def calibration_case():
    text = BAND
    for name, kind in (("integers", "s16be"), ("floats", "f32le"), ("unsigned", "u16be")):
        text += stream(name, "filter = band\noffset = 10 mV, -20 mV, 0\npreamp = 34 dB, 0 dB, -6 dB\n"
                       "full scale = 10 V, 10 V, 5 V\nunit = mV", channels="3", format=kind,
                       full_scale=None, amplitude="80 mV") + sink(name, name)
    text += stream("loud", "filter = band\ntail = no\nalign = yes", amplitude="0.9 V")
    text += sink("loud", "loud", "format = s16\nfull scale = 0.2 V")
    return text


def outputs_case():
    text = BAND + SHORT
    text += stream("each", "filter = band, short, band, short\noutput = envelope, real, complex, real",
                   channels="4") + sink("each", "each")
    text += stream("bank", "bank = band, short, band\noutput = real, real, envelope, real, real, complex")
    text += sink("bank", "bank") + sink("bank24", "bank", "format = s24\nfull scale = 1 V")
    text += stream("wide", "filter = band", 6007, channels="40", block="512 frames")
    text += sink("wide", "wide")
    text += stream("tiny", "filter = short", 4001, block="16 frames") + sink("tiny", "tiny")
    text += stream("trial", "filter = band\nfft = 4096") + sink("trial", "trial")
    text += stream("kept", "filter = band\nalign = yes\ntail = no\ndecimate = 10", channels="5")
    text += sink("kept", "kept")
    return text


def chain_case():
    text = BAND + stream("first", "filter = band\noutput = envelope\ndecimate = 5", 100003, channels="3")
    text += reader("second", "first", "block = 300 frames\nfilter = slow\ndecimate = 2")
    text += filter_section("slow", "lowpass", "cutoff = 20 kHz\ntaps = 101")
    text += reader("third", "second", "block = 128 frames\nroute = 1 -> slower -> 1\n"
                   "route = 2 -> slower -1 -> 1\nroute = 3 -> slower -> 2\nalign = yes")
    text += filter_section("slower", "lowpass", "cutoff = 10 kHz\ntaps = 33")
    text += reader("beside", "first", "block = 1000 frames\nfilter = slow\ntail = no")
    for name in ("first", "second", "third", "beside"):
        text += sink(name, name)
    return text + sink("raw", "first", "record = input") + sink("raw2", "second", "record = input")


RECORDINGS = ("s16.wav", "u8.wav", "s24.wav", "s32.wav", "f32.wav", "s24-rf64.wav", "s16.w64")


def replay_case():
    text = BAND
    for file in RECORDINGS:
        name = file.replace(".", "-")
        text += (f"[stream {name}]\nsource = file\npace = fast\npath = ../inputs/{file}\n"
                 f"full scale = 2 V\nblock = 1000 frames\nidle flush = 0\nfilter = band\n")
        text += sink(name, name) + sink(f"{name}-raw", name, "record = input")
    return text


def own_cases():
    """name -> configuration; [daemon] and [device] are added when it runs."""
    cases = {f"variant-{name}": variant_case(name, partitions, matrix) for name, partitions, matrix in (
        ("host", False, False), ("lanes", False, False), ("direct", False, False), ("local", False, False),
        ("partitioned", True, False), ("general", True, True), ("overlap-add", False, False),
        ("overlap-add-general", True, True), ("fused", False, False), ("staged", False, False))}
    cases["formats-16"] = format_case([
        ("u8", ""), ("s16le", ""), ("s16be", ""), ("u16le", ""), ("u16be", ""),
        ("s16le 12", "bits = 12"), ("s16be 14", "bits = 14\njustify = left")])
    cases["formats-32"] = format_case([
        ("s24le", ""), ("s24be", ""), ("s32le", ""), ("s32be", ""), ("f32le", ""), ("f32be", ""),
        ("s32le 20", "bits = 20\njustify = left")])
    cases.update(sinks=sinks_case(), designed=designed(), matched=matched(), files=from_files(),
                 array=array_case(), waveforms=waveforms_case(), calibration=calibration_case(),
                 outputs=outputs_case(), replay=replay_case())
    cases["chain-own"] = chain_case()
    cases["partitions"] = (HUGE + stream("quick", "filter = huge", 100003, channels="1", block="256 frames")
                           + sink("quick", "quick")
                           + stream("slow", "filter = huge\ndecimate = 8", 100003, block="8192 frames")
                           + sink("slow", "slow"))
    return cases


# ---- datagrams -------------------------------------------------------------------------------

# Each sender sends WIRE_PACKETS packets of WIRE_FRAMES frames. @NAME@ in a configuration becomes the
# port of that stream or sink.
WIRE_PACKETS = 600
WIRE_FRAMES = 160
WIRE_RATE_HZ = 200000


def wire_stream(name, source, kind, keys=""):
    waits = "" if source == "udp" else "reorder = 100 ms\nmax misorder = 100 ms\n"
    return (f"[stream {name}]\nsource = {source}\naddress = 127.0.0.1:@{name}@\n"
            f"rate = {WIRE_RATE_HZ} Hz\nchannels = 2\nformat = {kind}\nfull scale = 1 V\n"
            f"block = 512 frames\nidle flush = 0\n{waits}{keys}\n")


def wire_cases():
    """[(name, configuration, senders {stream: (framing, format, faults)}, RTP sinks received)]"""
    band = filter_section("band", "bandpass", "low = 10 kHz\nhigh = 40 kHz\ntaps = 201\nanalytic = yes")
    text = band
    senders = {"rtp": ("rtp", "s16be", False), "lossy": ("rtp", "s24be", True), "plain": ("udp", "f32le", False),
               "numbered": ("udp-seq", "s16le", True), "records": ("records", "s16be", False)}
    for name, (framing, kind, _) in senders.items():
        source = "rtp" if framing in ("rtp", "records") else framing
        keys = "filter = band\noutput = real, envelope\n"
        text += wire_stream(name, source, kind, keys + ("mode = record\n" if framing == "records" else ""))
        text += sink(name, name) + sink(f"{name}-raw", name, "record = input")
    received = []
    for kind in ("L16", "L24", "s32", "f32"):
        received.append(f"to-{kind}")
        text += (f"[sink to-{kind}]\ntype = rtp\nstream = rtp\naddress = 127.0.0.1:@to-{kind}@\n"
                 f"format = {kind}\nfull scale = 1 V\nssrc = 0x1234\nsdp = none\n\n")
    return [("wire", text, senders, received), osc_case()]


def osc_case():
    """Blocks in OSC messages, and filters exchanged at frames that were asked for."""
    text = filter_section("band", "bandpass", "low = 10 kHz\nhigh = 40 kHz\ntaps = 201")
    text += filter_section("wide", "bandpass", "low = 5 kHz\nhigh = 70 kHz\ntaps = 301")
    text += "[osc]\naddress = 127.0.0.1:@osc@\n\n"
    text += (f"[stream osc]\nsource = osc\nrate = {WIRE_RATE_HZ} Hz\nchannels = 2\nfull scale = 1 V\n"
             "block = 512 frames\nidle flush = 0\nreorder = 100 ms\nmax misorder = 100 ms\n"
             "filter = band\n\n")
    text += sink("osc", "osc") + sink("osc-raw", "osc", "record = input")
    return "osc", text, {"osc": ("osc", "f32be", True)}, []


# ---- input files -----------------------------------------------------------------------------

def write_wave(path, kind, samples, rate=500000):
    """Samples of shape (frames, channels) within ±1, by the definition of each container."""
    frames, channels = samples.shape
    if kind.startswith("f32"):
        tag, width, data = 3, 4, samples.astype("<f4").tobytes()
    elif kind.startswith("u8"):
        tag, width, data = 1, 1, np.round(samples * 127 + 128).astype("u1").tobytes()
    else:
        width = int(re.search(r"\d+", kind).group()) // 8
        codes = np.round(samples * (2.0 ** (8 * width - 1) - 1)).astype("<i4")
        tag, data = 1, codes.reshape(-1, 1).view("u1")[:, :width].tobytes()
    form = struct.pack("<HHIIHH", tag, channels, rate, rate * channels * width, channels * width, 8 * width)
    with open(path, "wb") as file:
        if path.endswith(".w64"):
            tail = bytes.fromhex("f3acd3118cd100c04f8edb8a")
            file.write(b"riff" + bytes.fromhex("2e91cf11a5d628db04c10000")
                       + struct.pack("<Q", 104 + len(data)) + b"wave" + tail
                       + b"fmt " + tail + struct.pack("<Q", 40) + form
                       + b"data" + tail + struct.pack("<Q", 24 + len(data)) + data)
        elif "rf64" in kind:
            file.write(b"RF64\xff\xff\xff\xffWAVEds64"
                       + struct.pack("<IQQQI", 28, 72 + len(data), len(data), frames, 0)
                       + b"fmt " + struct.pack("<I", 16) + form + b"data\xff\xff\xff\xff" + data)
        else:
            file.write(b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<I", 16)
                       + form + b"data" + struct.pack("<I", len(data)) + data)


def write_inputs(folder):
    random = np.random.default_rng(20)
    os.makedirs(folder)
    for file in RECORDINGS:
        samples = np.clip(random.normal(0, 0.2, (25013, 3)), -1, 1)
        write_wave(os.path.join(folder, file), file.partition(".")[0], samples)
    taps = random.normal(0, 0.05, 401)
    np.save(os.path.join(folder, "taps.npy"), taps)
    np.save(os.path.join(folder, "taps-complex.npy"), taps + 1j * taps[::-1])
    with open(os.path.join(folder, "taps.txt"), "w", encoding="utf-8") as file:
        file.writelines(f"{value!r}\n" for value in taps[:99].tolist())
    write_wave(os.path.join(folder, "taps.wav"), "f32", taps[:200, None], 1000000)
    sent = np.sin(np.linspace(0, 60, 300) ** 1.2)
    np.save(os.path.join(folder, "replica.npy"), sent)
    signal_codes = np.clip(random.normal(0, 0.2, (WIRE_PACKETS * WIRE_FRAMES, 2)), -1, 1)
    for kind in ("s16le", "s16be", "s24be", "f32le", "f32be"):
        codes = np.round(signal_codes * 8388607).astype("<i4")
        if kind.startswith("f32"):
            data = signal_codes.astype("<f4" if kind == "f32le" else ">f4").tobytes()
        elif kind == "s24be":
            data = codes.reshape(-1, 1).view("u1")[:, 2::-1].tobytes()
        else:
            data = (codes >> 8).astype("<i2" if kind == "s16le" else ">i2").tobytes()
        with open(os.path.join(folder, f"wire-{kind}.raw"), "wb") as file:
            file.write(data)
