/*
 * The binary frames that convolv-web sends, "pictures": decoded and proven, one function, no state.
 * Layout: docs/web.md, little endian, 72 bytes of header, 16 bytes an invalid range, then float32.
 * A frame that is short, long or of another version throws a RangeError; the link counts those.
 */

export const KIND_MINMAX = 1, KIND_FRAMES = 2, KIND_SPECTRUM = 3;
const MAGIC = 0x31564e43; /* "CNV1" */
const HEADER_BYTES = 72, RANGE_BYTES = 16;
const FLAG_TRIGGERED = 1, FLAG_CLIPPED = 2, FLAG_RECORD_BEGINS = 4, FLAG_COMPLETE = 8;
export const VALID = 0, INVALID = 1, NOTHING = 2;
const EMPTY = new Set(["absent", "unseen"]);
const MAX_CHANNELS = 65536, MAX_POINTS = 1 << 24;

function readRanges(view, count, points) {
    const ranges = [];
    for (let i = 0, at = HEADER_BYTES; i < count; i++, at += RANGE_BYTES) {
        const first = view.getUint32(at, true);
        const length = Math.min(view.getUint32(at + 4, true), Math.max(0, points - first));
        if (length > 0)
            ranges.push({ first, points: length, causes: view.getUint32(at + 8, true) });
    }
    return ranges;
}

/*
 * ArrayBuffer → {kind, id, channels, points, epoch, first (frame of point 0), step (frames a point;
 * spectra: Hz a point), rateHz, captureNs, ranges: [{first, points, causes}], triggered, clipped,
 * recordBegins, complete, trigger (point, −1: none), averages, and
 * high, low: [Float32Array of a channel] (min/max) or values: [Float32Array] (frames, spectra)}.
 * The arrays are views of the buffer.
 */
export function decodePicture(buffer) {
    if (buffer.byteLength < HEADER_BYTES)
        throw new RangeError(`picture of ${buffer.byteLength} bytes, at least ${HEADER_BYTES}`);
    const view = new DataView(buffer);
    if (view.getUint32(0, true) !== MAGIC)
        throw new RangeError("not a picture of version 1");
    const kind = view.getUint16(4, true), channels = view.getUint32(8, true);
    const points = view.getUint32(12, true), count = view.getUint32(56, true);
    if (kind < KIND_MINMAX || kind > KIND_SPECTRUM)
        throw new RangeError(`picture of unknown kind ${kind}`);
    if (channels > MAX_CHANNELS || points > MAX_POINTS)
        throw new RangeError(`picture of ${channels} channels × ${points} points`);
    const arrays = channels * (kind === KIND_MINMAX ? 2 : 1);
    const start = HEADER_BYTES + count * RANGE_BYTES;
    if (buffer.byteLength !== start + 4 * arrays * points)
        throw new RangeError(`picture of ${buffer.byteLength} bytes, ${start + 4 * arrays * points} announced`);
    const flags = view.getUint32(60, true);
    const picture = {
        kind, channels, points,
        id: view.getUint16(6, true),
        epoch: Number(view.getBigUint64(16, true)),
        first: Number(view.getBigUint64(24, true)),
        step: view.getFloat64(32, true),
        rateHz: view.getFloat64(40, true),
        captureNs: Number(view.getBigInt64(48, true)),
        ranges: readRanges(view, count, points),
        triggered: (flags & FLAG_TRIGGERED) !== 0,
        clipped: (flags & FLAG_CLIPPED) !== 0,
        recordBegins: (flags & FLAG_RECORD_BEGINS) !== 0,
        complete: (flags & FLAG_COMPLETE) !== 0,
        trigger: view.getInt32(64, true),
        averages: view.getUint32(68, true),
    };
    const array = (i) => new Float32Array(buffer, start + 4 * i * points, points);
    if (kind === KIND_MINMAX) {
        picture.low = Array.from({ length: channels }, (_, c) => array(2 * c));
        picture.high = Array.from({ length: channels }, (_, c) => array(2 * c + 1));
    } else {
        picture.values = Array.from({ length: channels }, (_, c) => array(c));
    }
    return picture;
}

/* The names of a mask of causes, in words: "network, settling". */
export function causeText(causes, names) {
    const words = [];
    for (let bit = 0; bit < 32; bit++)
        if (causes & (1 << bit))
            words.push(names[bit] ?? `cause ${bit}`);
    return words.join(", ") || "invalid";
}

/* Whether a range holds no samples at all: not there in the input, or not received by the server yet. */
export function isEmpty(causes, names) {
    const known = (1 << names.length) - 1, empty = names.reduce((mask, name, bit) => EMPTY.has(name) ? mask | (1 << bit) : mask, 0);
    return (causes & empty) !== 0 && (causes & known & ~empty) === 0;
}

/* Of each point: VALID, INVALID (computed, not to be trusted) or NOTHING (no sample). */
export function invalidMask(picture, names) {
    const mask = new Uint8Array(picture.points);
    for (const range of picture.ranges)
        mask.fill(isEmpty(range.causes, names) ? NOTHING : INVALID, range.first, range.first + range.points);
    return mask;
}

/* A range as a plot's band: x0 + point · dx; what the server has not received yet says so. */
export function band(range, x0, dx, names) {
    const text = causeText(range.causes, names), unseen = text === "unseen";
    return { from: x0 + range.first * dx, to: x0 + (range.first + range.points) * dx, text: unseen ? "not seen yet" : text, unseen };
}
