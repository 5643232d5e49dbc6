"""`Stream`: a rig in Python. Sends arrays at the stream's pace, and opens the results that belong to them."""
from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

import numpy.typing as npt

from convolv._auth import Key
from convolv._errors import Error
from convolv._open import Source
from convolv._open import results as open_results
from convolv._results import Results
from convolv._sender import Sender, SenderOptions, SentLedger


class Stream:
    """Sends the samples of one stream to the daemon, as RTP unless `framing` says otherwise.

    address
        `udp://HOST:PORT` of the stream's source; a multicast group with `interface` and `ttl`.
    rate_hz, channels, format, full_scale
        As in the stream's section: `format` L16, L24, s32be, f32be, u8, s16le …; values are in the stream's unit,
        and `full_scale` is the value of full scale.
    framing
        `rtp`, `udp` (samples alone: loss cannot be seen) or `udp-seq` (GNU Radio's 64-bit sequence number).
    packet_frames, mtu
        Frames of a datagram, 0 for as many as fit an IP packet of `mtu` bytes.
    key
        The stream's key file, or its 32 bytes: each packet carries a tag.
    pace
        A packet is sent when its last frame would have been acquired, `send` returns with the last one. A program
        that is more than 0.1 s behind sends later, not faster (`ledger.late`). False: sends at once, as fast
        as it can.
    results
        Where the results come from, as for `convolv.results`; opened before anything is sent.

    An object belongs to one thread at a time.

    >>> with Stream("udp://127.0.0.1:5004", rate_hz=48e3, channels=2, full_scale=10) as stream:
    ...     stream.send(numpy.zeros((4800, 2)))       # 0.1 s, in volts
    ...     stream.ledger.frames
    4800
    """

    def __init__(self, address: str, *, rate_hz: float, channels: int = 1, format: str = "L16",
                 full_scale: float = 1.0, framing: str = "rtp", bits: int = 0, left: bool = False,
                 packet_frames: int = 0, mtu: int = 1500, payload_type: int = 96, ssrc: int | None = None,
                 big_endian_sequence: bool = False, key: Key | None = None, interface: str | None = None, ttl: int = 1,
                 send_buffer_bytes: int = 0, segment: bool = False, pace: bool = True,
                 results: Source | None = None) -> None:
        self._opened: Results | None = None
        self._sender = Sender(address, SenderOptions(
            rate_hz, channels, format, full_scale, framing, bits, left, packet_frames, mtu, payload_type, ssrc,
            big_endian_sequence, key, interface, ttl, send_buffer_bytes, segment, pace))
        if results is not None:
            try:
                self._opened = open_results(results)
            except Error:
                self.close()
                raise

    @property
    def ledger(self) -> SentLedger:
        """What was sent."""
        return self._sender.ledger

    @property
    def packet_frames(self) -> int:
        """Frames of a full datagram."""
        return self._sender.packet_frames

    @property
    def ssrc(self) -> int:
        """The sender's number; random unless it was given."""
        return self._sender.ssrc

    def send(self, values: npt.ArrayLike, new_record: bool = False) -> None:
        """Sends values of shape (frames, channels), or (frames,) of one channel, in the stream's unit.

        `new_record`: the first frame begins a record (RTP's marker bit; streams with `mode = record`).
        """
        for wait_s in self._sender.steps(values, False, new_record):
            time.sleep(wait_s)

    def send_codes(self, codes: npt.ArrayLike, new_record: bool = False) -> None:
        """The same with the codes of an integer format, as a converter gives them: signed, of unsigned formats too."""
        for wait_s in self._sender.steps(codes, True, new_record):
            time.sleep(wait_s)

    def skip(self, frames: int) -> None:
        """Frames that were not acquired: the time stamp and the pace go on by so many."""
        self._sender.skip(frames)

    def restart(self) -> None:
        """Acts as a restarted rig: new SSRC, sequence number and time stamp from the next packet on."""
        self._sender.restart()

    def results(self, source: Source | None = None, *, timeout: float | None = None, until_end: bool = False,
                **options: Any) -> Results:
        """The results that were opened with the stream, or with other `options` those of `source`, as by
        `convolv.results`."""
        if source is not None:
            return open_results(source, timeout=timeout, until_end=until_end, **options)
        if self._opened is None or options:
            raise Error("results: say where from, as in Stream(…, results=\"bearing.sdp\") or results(\"bearing.sdp\")")
        self._opened.timeout, self._opened.until_end = timeout, until_end
        return self._opened

    def close(self) -> None:
        """Closes the socket, and the results that were opened with the stream."""
        self._sender.close()
        if self._opened is not None:
            self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
