/*
 * What a tile shows of a channel, and the judgement "dead, clipping, …" that must be seen at a
 * glance. Meter keeps the ballistics of one bar; channelState is a pure function of facts.
 */
import { decibels } from "./units.js";

const FALL_DB_PER_S = 40;   /* the bar falls slowly, so that the eye catches a burst */
const RECENT_MS = 1500;     /* an overload stays lit at least as long */

export class Meter {
    constructor() {
        this.db = -Infinity;
        this.target = -Infinity;
        this.rms = this.peak = this.held = 0;
        this.overloads = null;
        this.overloadAt = -Infinity;
        this.at = 0;
    }

    /* Values in the channel's unit; `scale` is what 0 dB of the bar means; now in ms. */
    put({ rms, peak, held, overloads }, scale, now) {
        this.rms = rms;
        this.peak = peak;
        this.held = held;
        if (this.overloads !== null && overloads > this.overloads)
            this.overloadAt = now;
        this.overloads = overloads;
        this.target = decibels(peak / scale);
        this.advance(now);
    }

    /* → dB of the bar: up at once, down at FALL_DB_PER_S. */
    advance(now) {
        const fallen = this.db - FALL_DB_PER_S * Math.max(0, now - this.at) / 1000;
        this.db = Math.max(this.target, fallen);
        this.at = now;
        return this.db;
    }

    clipping(now) {
        return now - this.overloadAt < RECENT_MS;
    }
}

/* In order of urgency: each state with its word, its symbol's id and its class. */
export const STATES = {
    clip: "clipping", dead: "dead", stale: "no data", invalid: "invalid", muted: "muted",
    unused: "unused", ok: "ok",
};

/*
 * facts: {stale, unused, flat (all values of the last second equal), alarm (text or null),
 * clipping, invalid (of the newest points), muted} → key of STATES.
 */
export function channelState(facts) {
    if (facts.unused)
        return "unused";
    if (facts.stale)
        return "stale";
    if (facts.clipping)
        return "clip";
    if (facts.flat || facts.alarm)
        return "dead";
    if (facts.invalid)
        return "invalid";
    return facts.muted ? "muted" : "ok";
}

/*
 * Whether the newest `points` min/max pairs of a channel are one single value. Invalid points
 * decide nothing, and it takes at least half of them valid.
 */
export function isFlat(low, high, mask, points) {
    const from = Math.max(0, low.length - points);
    let value = NaN, seen = 0;
    for (let i = from; i < low.length; i++) {
        if (mask && mask[i])
            continue;
        if (low[i] !== high[i])
            return false;
        if (seen > 0 && low[i] !== value)
            return false;
        value = low[i];
        seen++;
    }
    return seen > 0 && seen * 2 >= low.length - from;
}

/*
 * Levels of a stream with many channels come in parts, from `first_channel` (1 without it) on: the
 * part in its place among those known so far.
 */
export function mergeLevels(before, part) {
    const at = (part.first_channel ?? 1) - 1, merged = {};
    for (const name of ["rms", "peak", "held", "overloads"]) {
        merged[name] = before ? [...before[name]] : [];
        (part[name] ?? []).forEach((value, i) => { merged[name][at + i] = value; });
    }
    return merged;
}
