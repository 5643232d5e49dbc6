"""The daemon's job as a GNU Radio flowgraph: UDP source, deinterleave, one FIR filter by FFT for each
channel, interleave, UDP sink. Samples without headers, in this machine's order.

The source is polled every millisecond: as shipped its thread sleeps 250 ms whenever it finds nothing.

    flowgraph_gnuradio.py LISTEN-PORT TO-PORT L16|f32 TAPS.npy [CHANNELS]
"""
import signal
import sys
import threading

import numpy as np
from gnuradio import blocks, filter as gr_filter, gr, network

FULL_SCALE = 32768
POLL_MS = 1
MTU_PAYLOAD_BYTES = 1460


def flowgraph(listen, port, short, taps, channels):
    graph = gr.top_block()
    sample = gr.sizeof_short if short else gr.sizeof_float
    payload = MTU_PAYLOAD_BYTES // (sample * channels) * sample * channels
    none = 0  # the header: none
    source = network.udp_source(sample, 1, listen, none, payload, False, False, False)
    source.set_blkd_input_timer_value(POLL_MS)
    sink = network.udp_sink(sample, 1, "127.0.0.1", port, none, payload, False)
    split = blocks.deinterleave(gr.sizeof_float, 1)
    join = blocks.interleave(gr.sizeof_float, 1)
    if short:
        graph.connect(source, blocks.short_to_float(1, FULL_SCALE), split)
        graph.connect(join, blocks.float_to_short(1, FULL_SCALE), sink)
    else:
        graph.connect(source, split)
        graph.connect(join, sink)
    for channel in range(channels):
        graph.connect((split, channel), gr_filter.fft_filter_fff(1, taps), (join, channel))
    return graph


def main():
    listen, port, wire, path = sys.argv[1:5]
    channels = int(sys.argv[5]) if len(sys.argv) > 5 else 16
    graph = flowgraph(int(listen), int(port), wire == "L16", np.load(path).tolist(), channels)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    graph.start()
    print("ready", flush=True)
    stopping.wait()
    graph.stop()
    graph.wait()


if __name__ == "__main__":
    main()
