/*
 * Figures of a stream over time, from the status that comes twice a second: load, ppm, losses a
 * second, latency. A bounded ring; a restart of the counters never gives a negative rate. Pure.
 */

export function sumOf(object) {
    return Object.values(object ?? {}).reduce((sum, value) => sum + (typeof value === "number" ? value : 0), 0);
}

/* Frames lost so far, by cause: what the network and the daemon lost, in and out. */
export function lossesOf(stream) {
    const losses = {};
    for (const [cause, frames] of Object.entries(stream.frames_in?.gap ?? {}))
        losses[cause] = (losses[cause] ?? 0) + frames;
    for (const [cause, frames] of Object.entries(stream.frames_out?.shed ?? {}))
        losses[`shed: ${cause}`] = frames;
    return losses;
}

export class History {
    constructor(length = 1200) {
        this.length = length;
        this.samples = [];
        this.last = null;
    }

    /* stream: its status; seconds: of the daemon's clock. */
    put(stream, seconds) {
        const lost = sumOf(lossesOf(stream)), before = this.last;
        const step = before ? seconds - before.seconds : 0;
        if (before && step <= 0)
            this.samples = [];
        const rate = before && step > 0 && lost >= before.lost ? (lost - before.lost) / step : 0;
        this.last = { seconds, lost };
        this.samples.push({ seconds, load: stream.load ?? NaN, ppm: stream.rate_ppm ?? NaN, lossRate: rate,
            p50: stream.latency_ns?.total?.p50 ?? NaN, p99: stream.latency_ns?.total?.["p99"] ?? NaN });
        if (this.samples.length > this.length)
            this.samples.splice(0, this.samples.length - this.length);
    }

    /* A gap in the curve: the daemon or the connection was away. */
    interrupt() {
        const end = this.samples[this.samples.length - 1];
        if (end && !Number.isNaN(end.load))
            this.samples.push({ seconds: end.seconds + 1e-3, load: NaN, ppm: NaN, lossRate: NaN, p50: NaN, p99: NaN });
        this.last = null;
    }

    /* Seconds before the newest sample, and a figure, as arrays. */
    series(name) {
        const end = this.samples.length > 0 ? this.samples[this.samples.length - 1].seconds : 0;
        return { xs: Float64Array.from(this.samples, (s) => s.seconds - end), ys: Float32Array.from(this.samples, (s) => s[name]) };
    }
}

/*
 * The state of a stream in a word: facts {running, silentNs (age of the last frame), lossRate,
 * alarms, standsBy (another daemon computes its partition)} → [class, word].
 */
export function streamState({ running, silentNs, lossRate, alarms, standsBy }) {
    if (!running)
        return ["bad", "daemon away"];
    if (standsBy)
        return ["good", "standing by"];
    if (silentNs === undefined)
        return ["warn", "waiting for a sender"];
    if (silentNs > 2e9)
        return ["bad", "silent"];
    if (lossRate > 0)
        return ["bad", "losing frames"];
    return alarms > 0 ? ["bad", alarms === 1 ? "alarm" : `${alarms} alarms`] : ["good", "running"];
}
