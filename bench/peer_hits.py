"""What bench_analysis.py compares with: hits with their features as one writes them with numpy, and with numba, from
the formulas of docs/analysis.md. Each takes one epoch, [frames, channels] float32, and returns a list, or an array,
of hits: channel, first, last, peak frame, counts, counts to peak, energy, strength, rms, crest, impulse, clearance,
shape, skewness, kurtosis."""
import numpy as np

try:
    import numba
except ImportError:
    numba = None

VALUES = 15


# ---- numpy --------------------------------------------------------------------------------------------------------

def numpy_features(y, first, last, positive, rate):
    """Of one hit: its samples in double, and the frames of its channel that are positive counts."""
    x = y[first:last + 1]
    magnitude, n = np.abs(x), last - first + 1
    peak = first + int(np.argmax(magnitude))
    amplitude, square, absolute = magnitude[peak - first], np.sum(x * x), np.sum(magnitude)
    rms, mean = np.sqrt(square / n), absolute / n
    d = x - x.mean()
    m2, m3, m4 = np.mean(d ** 2), np.mean(d ** 3), np.mean(d ** 4)
    low = np.searchsorted(positive, first)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (first, last, peak, np.searchsorted(positive, last, "right") - low,
                np.searchsorted(positive, peak, "right") - low, square / rate / 1e-14, absolute / rate / 1e-9, rms,
                amplitude / rms, amplitude / mean, amplitude / np.mean(np.sqrt(magnitude)) ** 2, rms / mean,
                m3 / m2 ** 1.5, m4 / m2 ** 2)


def numpy_hits(x, threshold, hdt, rate):
    above = np.abs(x) > threshold
    loud = np.flatnonzero(above.any(axis=0))
    # The arms of the next epoch's block, as the rules have them on all frames.
    arms = (x < 0).any(axis=0), (x > 0).any(axis=0)
    hits = []
    for channel in loud:
        y = x[:, channel].astype(np.float64)
        at = np.flatnonzero(above[:, channel])
        cuts = np.flatnonzero(np.diff(at) > hdt)
        side = np.where(y > threshold, 1, np.where(y < 0, -1, 0))
        events = np.flatnonzero(side)
        counting = side[events] == 1
        counting[1:] &= side[events[:-1]] == -1
        positive = events[counting]
        for first, last in zip(at[np.r_[0, cuts + 1]], at[np.r_[cuts, len(at) - 1]]):
            hits.append((channel, *numpy_features(y, first, last, positive, rate)))
    return hits, arms


# ---- numba --------------------------------------------------------------------------------------------------------

def numba_hits(x, threshold, hdt, rate, hits):
    """Frame by frame down each channel; hits[N, VALUES] is filled, and how many is returned."""
    count = 0
    for channel in range(x.shape[1]):
        armed, is_open = x[0, channel] <= threshold, False
        first, last, peak_frame, counts, to_peak, peak = 0, 0, 0, 0, 0, 0.0
        frames = x.shape[0]
        for i in range(frames):
            value = x[i, channel]
            if is_open and i > last + hdt:
                is_open = False
                count = numba_close(x, channel, first, last, peak_frame, counts, to_peak, rate, hits, count)
            if abs(value) > threshold:
                if not is_open:
                    is_open = True
                    first, counts, to_peak, peak = i, 0, 0, 0.0
                last = i
                if value > threshold and armed:
                    counts += 1
                if abs(value) > peak:
                    peak, peak_frame, to_peak = abs(value), i, counts
            armed = (armed and not value > threshold) or value < 0
        if is_open:
            count = numba_close(x, channel, first, last, peak_frame, counts, to_peak, rate, hits, count)
    return count


def numba_close(x, channel, first, last, peak_frame, counts, to_peak, rate, hits, count):
    n = last - first + 1
    total, square, absolute, root = 0.0, 0.0, 0.0, 0.0
    for i in range(first, last + 1):
        value = np.float64(x[i, channel])
        total += value
        square += value * value
        absolute += abs(value)
        root += np.sqrt(abs(value))
    mean = total / n
    m2, m3, m4 = 0.0, 0.0, 0.0
    for i in range(first, last + 1):
        d = x[i, channel] - mean
        m2 += d * d
        m3 += d * d * d
        m4 += d * d * d * d
    m2, m3, m4 = m2 / n, m3 / n, m4 / n
    amplitude, rms, absolute_mean = abs(np.float64(x[peak_frame, channel])), np.sqrt(square / n), absolute / n
    row = hits[count]
    row[0], row[1], row[2], row[3], row[4], row[5] = channel, first, last, peak_frame, counts, to_peak
    row[6], row[7], row[8] = square / rate / 1e-14, absolute / rate / 1e-9, rms
    row[9], row[10], row[11], row[12] = (amplitude / rms, amplitude / absolute_mean, amplitude / (root / n) ** 2,
                                         rms / absolute_mean)
    row[13] = m3 / m2 ** 1.5 if m2 > 0 else np.nan
    row[14] = m4 / m2 ** 2 if m2 > 0 else np.nan
    return count + 1


if numba:
    numba_close = numba.njit(numba_close)
    numba_hits = numba.njit(numba_hits)
