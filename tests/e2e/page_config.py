"""A configuration with something for every view of the live page: two channels of a sine, acoustic emission that is
located, an ultrasonic thickness gauge, a machine with a damaged bearing, and an alarm that is active; and the first of
them with any number of channels."""

RATE_HZ, FREQUENCY_HZ, AMPLITUDE_V = 50_000, 1000, 0.5


def vessel(channels):
    """A sine whose phase differs from channel to channel, band-passed."""
    return f"""
[stream vessel]
source = generator
waveform = sine
frequency = {FREQUENCY_HZ} Hz
channel phase = 25 deg
amplitude = {AMPLITUDE_V} V
rate = {RATE_HZ} Hz
channels = {channels}
full scale = 1 V
format = L16
block = 512 frames
filter = band

[filter band]
type = bandpass
low = 500 Hz
high = 3 kHz
transition = 400 Hz
"""


VESSEL = vessel(2) + """
[alarm loud]
stream = vessel
quantity = level
above = 1 mV
within = 0.5 s
"""

PLATE = """
[stream plate]
source = generator
waveform = ae
sensors = 0 0, 600 mm 0, 600 mm 400 mm, 0 400 mm
sources = 150 mm 120 mm, 420 mm 310 mm
velocity = 5000 m/s
arrivals = 10 /s
frequency = 60 kHz
rise = 0
decay = 60 us
amplitude = 20 mV
noise = 20 uV
rate = 500 kHz
channels = 4
format = s16le
full scale = 100 mV
unit = V
block = 4096 frames
filter = all

[filter all]
type = identity

[analysis bursts]
type = hits
stream = plate
threshold = 50 dB
hdt = 300 us
pre-trigger = 50 us
max record = 500 us

[analysis where]
type = location
analysis = bursts
sensors = 0 0, 600 mm 0, 600 mm 400 mm, 0 400 mm
velocity = 5000 m/s
velocity error = 1 %
cluster radius = 20 mm
"""

MACHINES = """
[stream gauge]
source = generator
waveform = tone-burst
frequency = 5 kHz
cycles = 5
period = 20 ms
amplitude = 0.5 V
rate = 50 kHz
channels = 1
full scale = 1 V
block = 200 frames
filter = all

[analysis thickness]
type = ascan
stream = gauge
period = 20 ms
range = 10 ms
averages = 4
sound velocity = 5920 m/s
gate = surface: start 0 us, width 2000 us, level 0.2 V, peak

[stream motor]
source = generator
waveform = tone-burst
frequency = 6 kHz
cycles = 3
period = 9.453125 ms
amplitude = 2 g
noise = 0.25 g
rate = 51.2 kHz
channels = 1
full scale = 5 V
sensitivity = 100 mV/g
block = 512 frames
filter = all

[analysis bearing]
type = vibration
stream = motor
segment = 200 ms
segments = 3
envelope low = 4 kHz
envelope high = 8 kHz
highest = 500 Hz
kurtosis segment = 256 frames
speed = 1770 rpm
elements = 9
element diameter = 7.94 mm
pitch diameter = 39.04 mm
"""

EVERYTHING = VESSEL + PLATE + MACHINES
