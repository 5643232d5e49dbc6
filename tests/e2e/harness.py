"""Reads what the daemon recorded, with nothing but the container's definition."""
import struct

import numpy as np


def read_recording(path):
    """Samples of a WAV or RF64 file, [frames][channels]: floats as they are, integers as codes."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:4] in (b"RIFF", b"RF64") and data[8:12] == b"WAVE", f"{path}: no WAV"
    at, kind, channels, bits, long_data = 12, None, 0, 0, 0
    while at + 8 <= len(data):
        tag, size = data[at:at + 4], struct.unpack_from("<I", data, at + 4)[0]
        if tag == b"ds64":
            long_data = struct.unpack_from("<Q", data, at + 16)[0]
        elif tag == b"fmt ":
            kind, channels, _, _, _, bits = struct.unpack_from("<HHIIHH", data, at + 8)
            if kind == 0xFFFE:
                kind = struct.unpack_from("<H", data, at + 32)[0]
        elif tag == b"data":
            size = long_data if size == 0xFFFFFFFF else size
            body = np.frombuffer(data, np.uint8, min(size, len(data) - at - 8), at + 8)
            break
        at += 8 + size + size % 2
    else:
        raise AssertionError(f"{path}: no data chunk")
    width = bits // 8
    body = body[:len(body) // (width * channels) * width * channels]
    if kind == 3:
        samples = body.view(f"<f{width}")
    elif width == 3:
        wide = np.zeros((len(body) // 3, 4), np.uint8)
        wide[:, 1:] = body.reshape(-1, 3)
        samples = wide.view("<i4")[:, 0] >> 8
    else:
        samples = body.view({1: "u1", 2: "<i2", 4: "<i4"}[width])
    return samples.reshape(-1, channels)
