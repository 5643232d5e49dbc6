"""Talk to convolvd, the real-time convolution daemon for non-destructive testing, from Python.

    Stream      sends arrays as a rig does: RTP, paced, with tags
    results     iterates over results as arrays with frame numbers, epoch, capture times, validity, causes and latency,
                from RTP, OSC, a recording with its sidecar, or the pipe of convolv-tap
    collect     blocks of one epoch as one array
    Control     asks and steers the daemon by its own table of commands
    Hits        events of analyses as they happen: hits, sources, A-scans; `records` makes them one array,
                `read_hits` reads them from the files of a jsonl sink
    level       the amplitude of a level as the configuration takes it: level("40 dB(AE)", "V")
    aio         the same for asyncio

One program that sends and receives; `bearing.sdp` is what the daemon's sink writes:

>>> import numpy
>>> from convolv import Stream, collect
>>> time_s = numpy.arange(9600) / 48e3
>>> volts = numpy.sin(2 * numpy.pi * 1000 * time_s)[:, None] * [1.0, 2.0]
>>> with Stream("udp://127.0.0.1:5004", rate_hz=48e3, channels=2, full_scale=10, results="bearing.sdp") as stream:
...     stream.send(volts)
...     got = collect(stream.results(), frames=8192)
>>> got.samples.shape
(8192, 2)
>>> bool(got.valid[200:].all())         # after the filter has settled
True

Nothing is aligned, scaled or searched here: frame n is the daemon's frame n. What arrives from the network never
raises; it is counted in `results.ledger` by reason. Errors of use raise `convolv.Error` with a sentence that says what
to do. An object belongs to one thread at a time.
"""
from convolv import aio
from convolv._block import CAUSES, CLOCKS, Block, Ledger, Range, Stages
from convolv._control import Control, Event
from convolv._errors import Error
from convolv._hits import Hit, Hits, Transient, read_hits, records
from convolv._level import level
from convolv._open import Collected, collect, results
from convolv._results import DEAD_S, Results
from convolv._sender import SentLedger
from convolv._stream import Stream

__version__ = "0.1.0"
__all__ = ["CAUSES", "CLOCKS", "DEAD_S", "Block", "Collected", "Control", "Error", "Event", "Hit", "Hits", "Ledger", "Range", "Results",
           "SentLedger", "Stages", "Stream", "Transient", "aio", "collect", "level", "read_hits", "records", "results"]
