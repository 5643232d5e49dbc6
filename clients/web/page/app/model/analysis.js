/*
 * Events of analyses as the page keeps them: the newest ones of each analysis, in the order in
 * which they came, and what a person wants to see of them: a history, a distribution, columns.
 * Pure but for the store.
 */

const KEPT = 20000;

/* {analysis name: events}; each event as docs/web.md has it. */
export class EventStore {
    constructor(kept = KEPT) {
        this.kept = kept;
        this.clear();
    }

    clear() {
        this.lists = new Map();
        this.known = new Set();
        this.missed = 0;
        this.version = 0;
    }

    /* Adds what is new of a message. */
    put({ events = [], missed = 0 }) {
        this.missed += missed;
        for (const event of events) {
            const key = `${event.analysis} ${event.kind} ${event.epoch} ${event.number}`;
            if (this.known.has(key))
                continue;
            this.known.add(key);
            if (!this.lists.has(event.analysis))
                this.lists.set(event.analysis, []);
            this.lists.get(event.analysis).push(event);
        }
        for (const list of this.lists.values())
            for (const old of list.splice(0, Math.max(0, list.length - this.kept)))
                this.known.delete(`${old.analysis} ${old.kind} ${old.epoch} ${old.number}`);
        this.version++;
    }

    /* Of one analysis; channels: those that count (from 1), null: all. */
    of(analysis, channels = null) {
        const list = this.lists.get(analysis) ?? [];
        return channels ? list.filter((event) => channels.includes(event.channel)) : list;
    }
}

/* The value of a field; "time", "channel" and parameters are fields too. NaN: undefined. */
export function valueOf(event, name, since = 0) {
    if (name === "time")
        return (event.arrival_ns - since) / 1e9;
    if (name === "channel" || name === "frame")
        return event[name];
    const value = event.values?.[name] ?? event.parameters?.[name];
    return value === null || value === undefined ? NaN : value;
}

/*
 * Events a second and their sum over the last `seconds`, in `bins` bins: {xs (seconds before the
 * newest, bin centres), rate, total}. endNs: the right edge.
 */
export function historyOf(events, endNs, seconds, bins) {
    const width = seconds / bins, rate = new Float32Array(bins), total = new Float32Array(bins);
    let before = 0;
    for (const event of events) {
        const at = Math.floor(((event.arrival_ns - endNs) / 1e9 + seconds) / width);
        if (at < 0)
            before++;
        else
            rate[Math.min(at, bins - 1)] += 1;
    }
    let sum = before;
    for (let i = 0; i < bins; i++) {
        sum += rate[i];
        total[i] = sum;
        rate[i] /= width;
    }
    return { xs: Float64Array.from({ length: bins }, (_, i) => (i + 0.5) * width - seconds), rate, total };
}

/* How many events have a level in [l, l + step), and how many one of l or more: {xs, each, above}. */
export function distributionOf(levels, step = 1) {
    const finite = levels.filter(Number.isFinite);
    if (finite.length === 0)
        return { xs: new Float64Array(0), each: new Float32Array(0), above: new Float32Array(0) };
    const low = Math.floor(Math.min(...bounds(finite)) / step), high = Math.floor(Math.max(...bounds(finite)) / step);
    const count = Math.min(4096, high - low + 1), each = new Float32Array(count), above = new Float32Array(count);
    for (const level of finite)
        each[Math.min(count - 1, Math.floor(level / step) - low)]++;
    for (let i = count - 1, sum = 0; i >= 0; i--)
        above[i] = sum += each[i];
    return { xs: Float64Array.from({ length: count }, (_, i) => (low + i) * step), each, above };
}

function bounds(values) {
    let low = Infinity, high = -Infinity;
    for (const value of values) {
        low = Math.min(low, value);
        high = Math.max(high, value);
    }
    return [low, high];
}

/* Base64 of little-endian float32 → Float32Array. */
export function decodeSamples(text) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0)), view = new DataView(bytes.buffer);
    return Float32Array.from({ length: bytes.length >> 2 }, (_, i) => view.getFloat32(4 * i, true));
}

/*
 * What to mark in the transient of a hit: [{x (seconds after the hit's first frame), text}].
 */
export function hitMarks(event, rateHz) {
    const { rise_us: rise, duration_us: duration, pick_frames: pick } = event.values ?? {}, marks = [{ x: 0, text: "first" }];
    if (Number.isFinite(rise) && rise > 0)
        marks.push({ x: rise * 1e-6, text: "peak" });
    if (Number.isFinite(duration) && duration > 0)
        marks.push({ x: duration * 1e-6, text: "last" });
    if (Number.isFinite(pick) && pick !== 0)
        marks.push({ x: pick / rateHz, text: "arrival" });
    return marks;
}

/* "rise_us" → {label: "rise", unit: "µs"}, "peak_us_2" → {label: "peak 2", unit: "µs"}. */
export function fieldLabel(field) {
    const units = { us: "µs", db: "dB", khz: "kHz", eu: "eu", nvs: "nVs", mm: "mm", frames: "frames", hz: "Hz", mm_s: "mm/s", nv: "nV", us_v: "µs/V" };
    const [, stem, place] = /^(.*?)(_\d+)?$/.exec(field.name);
    const ending = Object.keys(units).sort((a, b) => b.length - a.length).find((e) => stem.endsWith(`_${e}`));
    const label = ((ending ? stem.slice(0, -ending.length - 1) : stem) + (place ?? "")).replaceAll("_", " ");
    return { label, unit: ending ? units[ending] : field.unit ?? "" };
}
