#!/usr/bin/python3
"""Writes the seed inputs of one fuzzer into a folder:  seeds.py NAME FOLDER

A seed is a valid input, so that the fuzzer starts behind the first checks. A fuzzer without a
row here starts from a few bytes.
"""
import glob
import io
import os
import sqlite3
import struct
import sys
import tempfile
import wave

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def config():
    for path in sorted(glob.glob(os.path.join(ROOT, "config", "*.conf"))):
        with open(path, "rb") as file:
            yield file.read()
    yield b"[stream a]\nsource = rtp\naddress = 127.0.0.1:5004\nrate = 500 kHz\nchannels = 4\n" \
          b"format = s16be\nfull scale = 10 V\nblock = 512\nfilter = f\n[filter f]\ntype = bandpass\n" \
          b"low = 95 kHz\nhigh = 190 kHz\n[sink s]\ntype = rtp\nstream = a\naddress = 127.0.0.1:5006\n"


def wav(channels, width):
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(48000)
        file.writeframes(bytes(range(48)) * channels)
    return buffer.getvalue()


def npy(dtype, shape, body, version=(1, 0)):
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}"
    length = struct.calcsize("<H" if version[0] == 1 else "<I")
    header += " " * (63 - (8 + length + len(header)) % 64) + "\n"
    return b"\x93NUMPY" + bytes(version) + struct.pack("<H" if length == 2 else "<I", len(header)) \
        + header.encode() + body


def taps():
    yield wav(1, 2)
    yield wav(2, 3)
    yield npy("<f4", "(3,)", struct.pack("<3f", 0.25, 0.5, 0.25))
    yield npy(">f8", "(2, 2)", struct.pack(">4d", 1, 2, 3, 4), (2, 0))
    yield npy("<c16", "(2,)", struct.pack("<4d", 1, 2, 3, 4), (3, 0))
    yield b"# low-pass\n0.25\n0.5\n0.25\n"
    yield b"1 0\n0 -1\n\n0.5 0.5\n"


def rtp_packet(sequence, stamp, payload, marker=False, extension=b"", csrc=0, padding=0):
    first = 0x80 | (0x20 if padding else 0) | (0x10 if extension else 0) | csrc
    packet = struct.pack(">BBHII", first, (0x80 if marker else 0) | 96, sequence & 0xFFFF,
                         stamp & 0xFFFFFFFF, 0x1234)
    packet += b"\0" * (4 * csrc)
    if extension:
        packet += struct.pack(">HH", 0xBEDE, len(extension) // 4) + extension
    packet += payload
    if padding:
        packet += b"\0" * (padding - 1) + bytes([padding])
    return packet


def rtp():
    yield rtp_packet(1, 0, b"\x01\x02" * 32)
    yield rtp_packet(0xFFFF, 0xFFFFFFF0, b"\x01\x02" * 32, marker=True)
    yield rtp_packet(2, 32, b"\x01\x02" * 32, extension=b"\x17" + b"\0" * 8 + b"\0" * 3)
    yield rtp_packet(3, 64, b"\x01\x02" * 32, csrc=2, padding=4)
    # Runs of datagrams, for the sequence logic.
    for lengths in ((1, 2, 3, 4, 5), (1, 3, 2, 60000, 60001), (65534, 65535, 0, 1, 1)):
        yield framed(rtp_packet(n, 32 * n, b"\x01\x02" * 32) for n in lengths)


def framed(datagrams):
    """Several datagrams in one input, each behind its length."""
    return b"".join(struct.pack("<H", len(datagram)) + datagram for datagram in datagrams)


def headerless():
    yield framed([b"\x01\x02\x03\x04" * 16] * 3)
    for order in "<>":
        yield framed(struct.pack(order + "Q", n) + b"\x01\x02\x03\x04" * 8 for n in (0, 1, 2, 1, 7))


def result(sequence, first_frame, payload):
    """A result packet of the daemon, with its five header extensions."""
    elements = b"\x17" + struct.pack(">Q", 0xE9000000 << 32) + b"\x2f" + struct.pack(">4I", 100, 200, 300, 400) \
        + b"\x3f" + struct.pack(">BBHIII", 0, 1, 4, 1000, 500, 0) + b"\x4f" + struct.pack(">QII", first_frame, 0, 128) \
        + b"\x53" + struct.pack(">HH", 1, 3)
    elements += b"\0" * (-len(elements) % 4)
    return rtp_packet(sequence, first_frame, payload, extension=elements)


def convolv():
    yield framed(result(n, 8 * n, b"\x3f\x80\0\0" * 16) for n in (65534, 65535, 0, 2, 1, 1))
    yield b"v=0\r\nc=IN IP4 239.1.2.3/8\r\nm=audio 5004 RTP/AVP 96\r\na=rtpmap:96 L24/48000/4\r\n" \
          b"a=x-convolvd-rate:48000.5\r\na=x-convolvd-full-scale:10\r\n"


def osc_string(text):
    data = text.encode() + b"\0"
    return data + b"\0" * (-len(data) % 4)


def osc():
    message = osc_string("/convolvd/rig/block") + osc_string(",hhb") + struct.pack(">QQI", 1, 64, 6) + b"\1\2\3\4\5\6\0\0"
    control = osc_string("/convolvd/*/filter") + osc_string(",siifTN") + osc_string("band") + struct.pack(">iif", 0, 7, 0.5)
    bundle = b"#bundle\0" + struct.pack(">Q", 1) + struct.pack(">I", len(message)) + message \
        + struct.pack(">I", len(control)) + control
    nested = b"#bundle\0" + struct.pack(">Q", 0xFD8C1F00 << 32) + struct.pack(">I", len(bundle)) + bundle
    yield message
    yield control
    yield osc_string("/convolvd/rig/gain") + osc_string(",fihi") + struct.pack(">fiqi", -6, 1, 480000, 9001)
    yield osc_string("/convolvd/transaction") + osc_string(",sNi") + osc_string('[{"command": "mute"}]') + struct.pack(">i", 9001)
    yield bundle
    yield nested
    yield struct.pack(">I", len(message)) + message + struct.pack(">I", len(control)) + control
    yield b"\xc0" + control + b"\xc0"
    yield bytes.fromhex("2f63682f310000002c69620000000007")


def receiver():
    """Messages of one call after the other: kinds, bytes, what the kinds ask for."""
    gro = bytes([4, 60, 1, 16]) + bytes([0x14, 8, 0, 2, 0]) + bytes([0x34, 1, 200, 1, 100])
    yield b"\0" + b"\x20" + bytes([1, 40, 0, 9, 9]) * 3 + b"\xff" + bytes([2, 20, 0, 5]) * 2
    yield b"\1" + b"\x20" + gro * 3 + b"\xff" + gro
    yield b"\2" + b"\x08\x04\x10" + bytes([0x11, 0, 81, 0, 1, 1]) * 6 + b"\1\1\1\0\xff"
    yield b"\3" + b"\x10" + bytes([8, 33]) * 4 + gro
    # A batch of the predicted size, which is not the predicted datagram.
    yield b"\2" + b"\x08\x04\x10" + bytes([0x15, 0, 81, 0, 1, 1, 1, 10]) * 6 + b"\1\1\1\0\xff"


def recording():
    yield wav(1, 1)
    yield wav(2, 2)
    yield wav(1, 3)
    yield wav(3, 4)


def control():
    yield b'{"command": "status"}\n'
    yield b'{"command": "status", "format": "json"}\n{"command": "status"}\n'
    yield b'{"command": ["status", {"a": 1.5e3}], "command": null}\n'
    yield b'{"command": "events", "since": 0, "id": {"a": [1]}}\n{"command": "commands"}\n'
    yield b'{"command": "gain", "stream": "a", "gain_db": -6.5, "output": 1, "frame": 9, "holder": "anna", "role": "observe"}\n'
    yield b'{"command": "transaction", "commands": [{"command": "mute", "stream": "a", "mute": true}, 7], "frame": 1e300}\n'
    yield b'{"command": "events", "since": 1e300}\n{"command": "events", "since": "x"}\n'
    yield b'{"command": "mark", "text": "\\u0007", "stream": ""}\n'


def tradb():
    """Small files of transients: raw and FLAC records, overlapping channels, a scale that changes."""
    def file(records, params=((2, 1, 0.003), (3, 2, 0.003)), page=512):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.tradb")
            db = sqlite3.connect(path)
            db.executescript(
                f"PRAGMA page_size={page};"
                "CREATE TABLE tr_data (SetID INTEGER PRIMARY KEY, Time INT, TRAI INT, Status INT, ParamID INT, Chan INT,"
                " Pretrigger INT, Thr INT, SampleRate INT, Samples INT, DataFormat INT, Data BLOB);"
                "CREATE TABLE tr_params (ID INTEGER PRIMARY KEY, SetupID INT, Chan INT, ADC_uV REAL, TR_mV REAL);"
                "CREATE TABLE tr_globalinfo (Key UNIQUE, Value);"
                "INSERT INTO tr_globalinfo VALUES ('TimeBase', '10000000');")
            db.executemany("INSERT INTO tr_params VALUES (?, 1, ?, 0.0015, ?)", params)
            db.executemany("INSERT INTO tr_data VALUES (?, ?, ?, 32768, ?, ?, ?, 1, 500000, ?, ?, ?)", records)
            db.commit()
            db.close()
            with open(path, "rb") as done:
                return done.read()

    def raw(count):
        return bytes(range(2 * count % 251)) + bytes(2 * count - 2 * count % 251)

    def flac(count):
        """Verbatim: one frame of `count` < 4096 samples, as the specification of FLAC has it."""
        # A block of zeros, subframe type constant; CRCs are computed.
        def crc(data, bits, polynomial):
            value = 0
            for byte in data:
                value ^= byte << (bits - 8)
                for _ in range(8):
                    value = (value << 1) ^ (polynomial if value >> (bits - 1) & 1 else 0)
                value &= (1 << bits) - 1
            return value
        info = struct.pack(">HH", count, count) + bytes(6) + struct.pack(">Q", 44100 << 44 | 15 << 36 | count) + bytes(16)
        head = b"\xff\xf8\x79\x08\0" + struct.pack(">H", count - 1)
        head += bytes([crc(head, 8, 0x07)])
        frame = head + b"\0\0\5"
        return b"fLaC\x80" + struct.pack(">I", len(info))[1:] + info + frame + struct.pack(">H", crc(frame, 16, 0x8005))

    yield file([(1, 1000, 1, 2, 1, 10, 100, 0, raw(100))])
    yield file([(1, 1000, 1, 2, 1, 10, 100, 2, flac(100)), (2, 3000, 2, 2, 1, 10, 100, 2, flac(100))])
    yield file([(1, 1000, 1, 2, 1, 0, 50, 0, raw(50)), (2, 1500, 2, 3, 2, 0, 60, 0, raw(60)),
                (3, 2000, 3, 2, 1, 0, 20, 2, flac(20)), (4, 90000, 4, 3, 2, 5, 30, 0, raw(30))])
    yield file([(1, 0, 1, 2, 1, 0, 20, 0, raw(20)), (2, 900, 2, 4, 1, 0, 20, 0, raw(20))],
               ((2, 1, 0.003), (4, 1, 0.006)), 1024)


def stream():
    """Calls to a stream, a byte each: the kind in the lower three bits, how much in the upper five."""
    def call(kind, amount):
        return bytes([kind | amount << 3])
    put, skip, late, again, wait, turn, rare = (lambda amount, kind=kind: call(kind, amount) for kind in (0, 2, 3, 4, 5, 6, 7))
    steady = put(15) + wait(1) + turn(4)
    yield b"\0" + steady * 16
    yield b"\1" + steady * 8 + (skip(2) + steady * 3 + late(0) + again(0) + wait(5) + turn(2)) * 4
    yield b"\2" + (steady * 4 + rare(0)) * 5
    yield b"\3" + put(31) * 40 + turn(4) * 8 + steady * 10
    yield b"\0" + (steady * 5 + put(9) + turn(12) + rare(2) + rare(3) + skip(1) + steady) * 3
    yield b"\2" + (steady * 9 + rare(5 | 8) + rare(7)) * 3 + wait(31) + turn(4)
    yield b"\0" + (steady * 4 + rare(1)) * 4
    yield b"\0" + rare(5) + steady * 8
    # An ended epoch whose last blocks are shed, and a gap of the next one that is given up with them.
    yield b"\1" + steady * 4 + rare(1) + put(0) + put(15) + put(28) * 2 + skip(28) + put(28) * 3 + rare(4 | 3 << 3) + put(28) * 3


def state():
    yield b"\1"
    for place in range(8, 600, 149):
        yield b"\1" + struct.pack("<HB", place, 1) + struct.pack("<HB", place + 4, 255)


def handover():
    """Parts of what a daemon before has left; the first byte says which."""
    header = struct.pack("<III", 0x53445643, 1, 0)
    def text(name):
        return name.encode().ljust(128, b"\0")
    ledger = struct.pack("<3Q", 640, 640, 0) + bytes(8 * 8) + struct.pack("<3Q", 5, 4000, 0)
    record = struct.pack("<II", 0x53505643, 2) + text("a") + text("rtp") + struct.pack("<BQI", 0, 3, 1) \
        + text("out") + struct.pack("<IH", 0xC0FFEE, 7) + ledger + struct.pack("<Q", 8) + bytes(8)
    sender = struct.pack("<BBHI", 1, 1, 5004, 0) + bytes([127, 0, 0, 1]) + bytes(12) \
        + struct.pack("<Iq", 0x1234, 999999000) + bytes(160)
    packets = framed(rtp_packet(n, 32 * n, b"\x01\x02" * 32) for n in (1, 2, 3, 7, 4))
    yield b"\0" + header
    yield b"\4" + header
    yield b"\0" + struct.pack("<III", 0x53445643, 1, 1) + struct.pack("<Q", len(record)) + record
    yield b"\0" + struct.pack("<III", 0x53445643, 2, 1) + bytes(20)
    yield b"\1" + framed([record, record[:200], b""])
    yield b"\2" + bytes([(len(sender) + 1) // 4]) + sender + packets
    yield b"\2" + bytes([(len(sender) + 1) // 4]) + sender.replace(struct.pack("<q", 999999000), struct.pack("<q", -2**63)) \
        + packets
    yield b"\2\0" + packets
    yield b"\3" + b"".join(bytes([kind, len(name)]) + name for kind, name in (
        (0, b"convolvd-socket"), (0, b"convolvd-socket-3"), (1, b"convolvd-socket"), (0, b"convolvd.socket"),
        (3, b"convolvd-socket-"), (5, b""), (0, b"convolvd-socket-99999999999")))


def web():
    want = b'{"type":"want","id":1,"stream":"vessel","view":'
    yield b"\0" + want + b'"scope","side":"input","channels":[1,2],"frames":2000,"trigger":"level","level":0.1,"pretrigger":200}\n' \
        + want + b'"envelope","seconds":10,"points":600}\n' + want + b'"ascan","frames":1000,"period":null,"average":8}\n' \
        + want + b'"spectrum","fft":4096,"average":16,"window":"hann"}\n{"type":"drop","id":1}'
    yield b"\1127.0.0.1:8470\0http://127.0.0.1:8470"
    yield b"\1[::1]:8470\0https://[::1]:8470"
    yield b"\1vessel.example\0null"
    for place in (4096 + 8, 4096 + 72, 4096 + 120, 8192 + 128, 16, 20):
        yield b"\2" + struct.pack("<II", place, 0xFFFFFFFF) + struct.pack("<II", place + 4096, 7)


def log():
    """Records of a log (wire/record.h); the harness makes their checksum right."""
    def record(kind, first=0, frames=0, flags=0, channels=2, ranges=(), texts=(b"", b"", b"", b""), state=b"", before=0):
        head = struct.pack("<4sBBHII", b"CVCL", 1, kind, channels, flags, 0)
        head += struct.pack("<10Q", 1, 7, 3, 0, first - before, first, first + frames, first, first + frames, 0)
        head += struct.pack("<2d3q", 1e6, 0, 10**18, 0, 10**18) + bytes([0, 2, 16, 1]) + bytes(20)
        head += struct.pack("<IIIIHBBI4HII", 0, 0, 5, 6, 7, 0, 0, frames, *map(len, texts), len(state), len(ranges))
        body = b"".join(struct.pack("<QQBB6x", *entry) for entry in ranges) + b"".join(texts) + state
        return head + body + bytes(frames * channels * 2)
    yield record(1)
    yield record(2, 100, 40, 1)
    yield record(2, 100, 40, 33, ranges=((90, 104, 2, 1), (95, 300, 7, 0)), before=10)
    yield record(5, 140, flags=4, texts=(b"plan", b"f" * 64, b"c", b"host/a"), state=b"state")
    yield record(6, 140, channels=0)

    def with_events(data, analysis=b"", marks=()):
        at = 200
        body = b"".join(struct.pack("<QQII", *mark, 0) for mark in marks)
        return data[:4] + b"\2" + data[5:at] + struct.pack("<QII", 41, len(analysis), len(marks)) + body + analysis + data[at:]

    def part(form, name, number, count, before, chain, data):
        return struct.pack("<BBHIQIIII", form, 0, len(name), len(data), number, count, before, chain, 0) + name + data
    # CRC-32C of the lines is theirs: the harness makes right that of the record alone.
    yield with_events(record(7, 140), part(1, b"bursts", 1, 1, 0, 0xF01F9D27, b"{}\n") + part(2, b"", 0, 9, 0, 5, b"state"))
    yield with_events(record(2, 100, 40, 1), marks=((100, 104, 0), (103, 140, 1)))


SEEDS = {"fuzz_log": log, "web": web, "tradb": tradb, "handover": handover, "fuzz_state": state, "stream": stream, "receiver": receiver, "recording": recording, "control": control, "osc": osc, "convolv": convolv, "config": config, "taps": taps, "rtp": rtp, "udp": headerless, "headerless": headerless,
         "sequence": rtp}


def main():
    name, folder = sys.argv[1], sys.argv[2]
    makers = [maker for key, maker in SEEDS.items() if key in name]
    seeds = [seed for maker in makers for seed in maker()] or [b"\0", b"0 1 2 3\n"]
    for number, seed in enumerate(seeds):
        with open(os.path.join(folder, f"seed-{number:02}"), "wb") as file:
            file.write(seed)


if __name__ == "__main__":
    main()
