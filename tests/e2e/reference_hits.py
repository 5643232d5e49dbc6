"""A detector of hits written from docs/analysis.md alone: sample by sample, channel by channel, in double, with no
regard for speed. What the daemon's detector is held against; it shares no code and no idea with it.

    hits(x, rate, volts=1, threshold=…, hdt=…, …) -> [{"channel": …, "frame": …, "flags": …, …}, …]

x is [frames, channels]; times are in frames; invalid is [(from, until, cause)], saturated [(from, until, channel)].
Undefined values are None."""
import numpy as np

TIMEOUT, SATURATED, AFTER_TIMEOUT = 1, 16, 256
CUT, EDGE, INCOMPLETE = 1 << 16, 1 << 17, 1 << 19
FLT_MIN = float(np.finfo(np.float32).tiny)

DEFAULTS = {"hdt": 0, "hlt": 0, "pdt": 0, "longest": 10 ** 15, "counts": "positive", "energy": "duration",
            "pre": 0, "post": 0, "record": 0, "interval": 0, "floating": 0.0, "floating_time": 100000, "picker": "threshold",
            "interpolate": False, "window": 0, "alpha": 5.0, "ratio": 100, "points": 0, "bands": (), "settling": 0}


def ratio(a, b):
    return None if b is None or not b > 0 else a / b


# ---- arrival ------------------------------------------------------------------------------------------------------

def aic(x):
    """The criterion of every i; the pick is the first least one."""
    n = len(x)
    values = []
    for i in range(n - 1):
        left, right = max(np.var(x[:i + 1]), FLT_MIN), max(np.var(x[i + 1:]), FLT_MIN)
        values.append((i + 1) * np.log10(left) + (n - i - 2) * np.log10(right))
    return np.array(values)


def hinkley(x, alpha):
    squares = np.cumsum(x ** 2)
    return np.array([squares[i] - i * squares[-1] / (alpha * len(x)) for i in range(len(x))])


def energy_ratio(x, w):
    """Negative, so that the pick is the least; the first w have none."""
    n = len(x)
    values = [-np.sum(x[i + 1:i + w + 1] ** 2) / (FLT_MIN + np.sum(x[i - w + 1:i + 1] ** 2)) for i in range(w, n - w)]
    return np.array([np.inf] * w + values) if n > 2 * w else np.array([])


def crossing(x, a, valid, threshold):
    if a == 0 or not valid[a - 1] or not x[a - 1] * x[a] > 0:
        return 0.0
    low, high = abs(x[a - 1]), abs(x[a])
    return (threshold - low) / (high - low) - 1 if high > low and threshold >= low else 0.0


# ---- features -----------------------------------------------------------------------------------------------------

def spectrum(record, rate, o):
    M, B = o["points"], o["points"] // 2 + 1
    x = np.zeros(M)
    n = min(M, len(record))
    x[:n] = record[:n]
    X = np.abs(np.fft.rfft(x * (0.54 - 0.46 * np.cos(2 * np.pi * np.arange(M) / (M - 1)))))
    P, f = X ** 2, np.arange(B) * rate / M
    if not P.sum() > 0:
        return {}
    half = np.cumsum(X) >= X.sum() / 2
    values = {"magnitudes": X, "bin_hz": rate / M, "peak_khz": f[1 + np.argmax(X[1:])] / 1e3, "median_khz": f[np.argmax(half)] / 1e3,
              "centroid_khz": np.sum(f * P) / P.sum() / 1e3}
    for i, (low, high) in enumerate(o["bands"]):
        first, last = (int(np.floor((B - 1) * edge / (rate / 2))) for edge in (low, high))
        values[f"partial_{i + 1}"] = P[first:last].sum() / P.sum()
    return values


def level_db(amplitude, volts):
    return 20 * np.log10(amplitude * volts / 1e-6)


def features(x, valid, hit, rate, volts, o):
    """Values of a hit from its frames a … b, its peak p and its counts."""
    a, b, p, end = hit["a"], hit["b"], hit["p"], hit["end"]
    y = x[a:b + 1]
    peak = abs(x[p])
    D, R = (b - a) / rate, (p - a) / rate
    N = {"positive": hit["positive"], "both": (hit["positive"] + hit["negative"] + 1) // 2,
         "plain": hit["crossings"]}[o["counts"]]
    window = x[a:end + 1] if o["energy"] == "hit" else y
    rms, mean = np.sqrt(np.mean(y ** 2)), np.mean(np.abs(y))
    m = [np.mean((y - np.mean(y)) ** k) for k in range(5)]
    values = {
        "last_frame": b, "peak_frame": p, "counts": N, "counts_to_peak": hit["to_peak"],
        "amplitude": peak, "peak_db": level_db(peak, volts), "rise_us": R * 1e6, "duration_us": D * 1e6,
        "energy_eu": np.sum((window * volts) ** 2) / rate / 1e-14,
        "strength_nvs": np.sum(np.abs(window * volts)) / rate / 1e-9,
        "average_khz": ratio(N, D * 1e3), "initiation_khz": ratio(hit["to_peak"], R * 1e3),
        "reverberation_khz": ratio(N - hit["to_peak"], (b - p) / rate * 1e3),
        "rms": rms, "noise_rms": hit["noise"], "ra_us_v": R * 1e6 / (peak * volts),
        "crest": peak / rms, "impulse": peak / mean, "clearance": peak / np.mean(np.sqrt(np.abs(y))) ** 2,
        "shape": rms / mean, "skewness": ratio(m[3], m[2] ** 1.5), "kurtosis": ratio(m[4], m[2] ** 2),
        "peak_khz": None, "median_khz": None, "centroid_khz": None, "threshold": hit["threshold"],
        "margin_db": 20 * np.log10(hit["threshold"] / hit["noise"]) if hit["noise"] and hit["threshold"] else None,
    }
    values.update({f"partial_{i + 1}": None for i in range(len(o["bands"]))})
    lead = hit["lead"]
    if o["points"] > 0:
        values.update(spectrum(x[a - lead:hit["record_until"]], rate, o))
    # The arrival: the criterion too, since two places may be as good to the last digits.
    window = x[a - lead:min(p, a + o["window"])]
    criterion = {"threshold": None, "aic": lambda: aic(window), "hinkley": lambda: hinkley(window, o["alpha"]),
                 "energy-ratio": lambda: energy_ratio(window, o["ratio"])}[o["picker"]]
    if criterion is None:
        values["pick_frames"] = crossing(x, a, valid, hit["threshold"]) if o["interpolate"] else 0.0
    else:
        values["criterion"] = criterion()
        values["pick_frames"] = None if len(values["criterion"]) == 0 else int(np.argmin(values["criterion"])) - lead
    values["samples"] = x[a - lead:min(hit["record_until"], a + o["record"])] if o["record"] > 0 else x[:0]
    values["first_sample"] = -lead if len(values["samples"]) else 0
    return values


# ---- detection ----------------------------------------------------------------------------------------------------

def causes_at(invalid, frame):
    mask = 0
    for low, high, cause in invalid:
        if low <= frame < high:
            mask |= 1 << cause
    return mask


def channel_hits(x, valid, saturated, invalid, base, o):
    """The hits of one channel: frames, counts, flags, causes."""
    found, hit = [], None
    may_begin, after_timeout, noise, threshold = 0, None, None, base
    armed = {"+": False, "-": False}
    before = None                       # the frame before: None, or whether it was above on the positive side
    interval, quiet, whole, square, average = o["interval"], False, False, 0.0, None
    weight = -np.expm1(-interval / o["floating_time"])

    def close(end, flags=0, causes=0):
        hit.update(end=end, flags=hit["flags"] | flags, causes=hit["causes"] | causes)
        found.append(hit)

    for i, value in enumerate(np.append(x, 0.0)):
        if hit:  # ended before this frame?
            limit = hit["a"] + o["longest"] - 1
            if hit["b"] + o["hdt"] <= min(limit, i - 1):
                close(hit["b"] + o["hdt"])
                may_begin, hit = hit["b"] + o["hdt"] + o["hlt"] + 1, None
            elif limit <= i - 1:
                close(limit, TIMEOUT)
                may_begin = after_timeout = limit + 1
                hit = None
        if i == len(x):
            break
        if interval and i % interval == 0:
            if whole and i > 0:
                mean = square / interval
                average = mean if average is None else average + weight * (mean - average)
                noise = np.sqrt(mean) if quiet else noise
                if o["floating"] > 0:
                    threshold = max(base, o["floating"] * np.sqrt(average))
            whole, quiet, square = True, True, 0.0
        if not valid[i]:
            if hit:
                close(i - 1, CUT, causes_at(invalid, i))
            hit, before, quiet, whole = None, None, False, False
            continue
        edge = i == 0 or not valid[i - 1]
        above, positive = abs(value) > threshold, value > threshold
        if edge:
            armed = {"+": value <= threshold, "-": value >= -threshold}
            may_begin, after_timeout, before = i, None, positive
        if above and not hit and i >= may_begin:
            hit = {"a": i, "b": i, "p": i, "peak": -1.0, "positive": 0, "negative": 0, "crossings": 0, "to_peak": 0,
                   "flags": (EDGE if edge else 0) | (AFTER_TIMEOUT if i == after_timeout else 0),
                   "causes": causes_at(invalid, i - 1) if edge and i > 0 else 0,
                   "threshold": threshold, "noise": noise}
        if hit or above:
            quiet = False
        square += value * value
        # Arms, on all valid frames.
        for side, sign in (("+", 1), ("-", -1)):
            if sign * value > threshold:
                if hit and armed[side]:
                    hit["positive" if sign > 0 else "negative"] += 1
                armed[side] = False
            elif sign * value < 0:
                armed[side] = True
        if hit and positive and not before:
            hit["crossings"] += 1
        before = positive
        if hit and above:
            hit["b"] = i
            if abs(value) > hit["peak"] and (o["pdt"] == 0 or i - hit["p"] <= o["pdt"]):
                hit.update(peak=abs(value), p=i, to_peak=hit["positive"])
    if hit:
        close(len(x) - 1, CUT)
    return finish_channel(x, valid, saturated, invalid, found, o)


def finish_channel(x, valid, saturated, invalid, found, o):
    """Records and what depends on them: up to the next hit, over valid frames alone."""
    for k, hit in enumerate(found):
        a, b = hit["a"], hit["b"]
        lead = 0
        while lead < o["pre"] and a - lead > 0 and valid[a - lead - 1]:
            lead += 1
        if lead < o["pre"] and a - lead > 0:
            hit["flags"] |= INCOMPLETE
            hit["causes"] |= causes_at(invalid, a - lead - 1)
        until = b + 1
        following = found[k + 1]["a"] if k + 1 < len(found) else len(x)
        wanted = min(b + o["post"] + 1, a - lead + o["capacity"]) if o["capacity"] else b + 1
        while until < min(wanted, following, len(x)) and valid[until]:
            until += 1
        if wanted > hit["end"] + 1 and until < min(wanted, following, len(x)) and not hit["flags"] & CUT:
            hit["flags"] |= INCOMPLETE
            hit["causes"] |= causes_at(invalid, until)
        hit.update(lead=lead, record_until=min(until, a - lead + o["capacity"]))
        if saturated[max(a - o["settling"], 0):b + 1].any():
            hit["flags"] |= SATURATED
    return found


def hits(x, rate, volts=1.0, threshold=0.0, invalid=(), saturated=(), **options):
    o = {**DEFAULTS, **options}
    o["capacity"] = max(o["pre"] + o["record"] if o["record"] else 0, o["points"],
                        o["pre"] + o["window"] if o["picker"] != "threshold" else 0)
    if 0 < o["capacity"] <= o["pre"]:
        o["capacity"] = o["pre"] + 1
    x = np.asarray(x, dtype=np.float64)
    frames, channels = x.shape
    valid, full = np.ones(frames, bool), np.zeros((frames, channels), bool)
    for low, high, _ in invalid:
        valid[low:high] = False
    for low, high, channel in saturated:
        full[low:high, channel] = True
    thresholds = np.broadcast_to(threshold, channels)
    events = []
    for channel in range(channels):
        column = x[:, channel]
        for hit in channel_hits(column, valid, full[:, channel], invalid, float(thresholds[channel]), o):
            values = features(column, valid, hit, rate, volts, o)
            events.append({"channel": channel, "frame": hit["a"], "end": hit["end"], "flags": hit["flags"],
                           "causes": hit["causes"], **values})
    return sorted(events, key=lambda event: (event["frame"], event["channel"]))
