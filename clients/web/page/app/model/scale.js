/*
 * Axes and ranges: ticks at round numbers, ranges that do not jump with every picture, and the
 * reduction of long waveforms to what a row of pixels can show. Pure but for StickyRange.
 */

/* The largest of 1, 2, 5 × 10^n that is at most `value`. */
export function floor125(value) {
    const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
    const digit = value / power;
    return (digit >= 5 * (1 - 1e-9) ? 5 : digit >= 2 * (1 - 1e-9) ? 2 : 1) * power;
}

/* The least of 1, 2, 5 × 10^n that is at least `value`. */
export function ceil125(value) {
    const below = floor125(value);
    return below >= value * (1 - 1e-9) ? below : floor125(below * 2.5);
}

/* Round numbers within [low, high], about `wanted` of them. */
export function linearTicks(low, high, wanted) {
    if (!(high > low) || wanted < 1)
        return [];
    const step = ceil125((high - low) / wanted), ticks = [];
    const first = Math.ceil(low / step - 1e-9);
    for (let i = first; i * step <= high + step * 1e-9; i++)
        ticks.push(i === 0 ? 0 : Number((i * step).toPrecision(12)));
    return ticks;
}

/* Ticks of a logarithmic axis between two positive values: decades, with 2 and 5 where there is room. */
export function logTicks(low, high, wanted) {
    if (!(low > 0) || !(high > low))
        return [];
    const decades = Math.log10(high / low);
    if (decades < 0.7)
        return linearTicks(low, high, wanted);
    const digits = decades * 3 <= wanted * 1.5 ? [1, 2, 5] : [1];
    const ticks = [];
    for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++)
        for (const digit of digits) {
            const value = Number((digit * 10 ** power).toPrecision(6));
            if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9))
                ticks.push(value);
        }
    return ticks;
}

/*
 * A vertical range that widens at once and narrows only after the signal has been small for
 * `patience` ms, in steps of 1-2-5: the picture stands still. Symmetric about 0 on request.
 */
export class StickyRange {
    constructor({ patience = 2000, symmetric = true } = {}) {
        this.patience = patience;
        this.symmetric = symmetric;
        this.reset();
    }

    reset() {
        this.low = this.high = NaN;
        this.smallSince = 0;
    }

    fit(low, high) {
        if (this.symmetric) {
            const size = ceil125(Math.max(Math.abs(low), Math.abs(high), 1e-15) * 1.02);
            return [-size, size];
        }
        const step = ceil125(Math.max(high - low, 1e-12) / 5);
        return [Math.floor(low / step) * step, Math.ceil(high / step) * step];
    }

    /* now: ms of a monotonic clock → [low, high]. */
    update(low, high, now) {
        if (!Number.isFinite(low) || !Number.isFinite(high))
            return Number.isNaN(this.low) ? [-1, 1] : [this.low, this.high];
        const [wantedLow, wantedHigh] = this.fit(low, high);
        const grows = !(wantedLow >= this.low && wantedHigh <= this.high);
        const shrinks = !grows && wantedHigh - wantedLow < (this.high - this.low) * 0.999;
        if (!shrinks)
            this.smallSince = now;
        if (grows) {
            this.low = Number.isNaN(this.low) ? wantedLow : Math.min(this.low, wantedLow);
            this.high = Number.isNaN(this.high) ? wantedHigh : Math.max(this.high, wantedHigh);
        } else if (shrinks && now - this.smallSince > this.patience) {
            [this.low, this.high] = [wantedLow, wantedHigh];
            this.smallSince = now;
        }
        return [this.low, this.high];
    }
}

/* The extremes of some arrays where no mask forbids; [Infinity, −Infinity] where nothing is. */
export function extremes(arrays, mask) {
    let low = Infinity, high = -Infinity;
    for (const values of arrays)
        for (let i = 0; i < values.length; i++)
            if (!mask || !mask[i]) {
                if (values[i] < low)
                    low = values[i];
                if (values[i] > high)
                    high = values[i];
            }
    return [low, high];
}

/*
 * Points [from, to) of a waveform for `columns` pixel columns: all of them where they are few, else
 * two a column, the least and the largest in the order in which they came, so that no peak is
 * lost. NaN (invalid) is skipped; a column of nothing else stays NaN.
 */
export function reduce(values, from, to, columns) {
    const points = Math.max(0, to - from);
    if (points <= 2 * columns)
        return Float32Array.from(values.subarray(from, to));
    const kept = new Float32Array(2 * columns);
    for (let column = 0; column < columns; column++) {
        const next = from + Math.floor((column + 1) * points / columns);
        let low = -1, high = -1;
        for (let i = from + Math.floor(column * points / columns); i < next; i++) {
            if (low < 0 ? values[i] === values[i] : values[i] < values[low])
                low = i;
            if (high < 0 ? values[i] === values[i] : values[i] > values[high])
                high = i;
        }
        kept[2 * column] = low < 0 ? NaN : values[Math.min(low, high)];
        kept[2 * column + 1] = low < 0 ? NaN : values[Math.max(low, high)];
    }
    return kept;
}

/* Where value k of reduce() lies, in points. */
export function reducedPoint(k, from, to, kept) {
    return kept === to - from ? from + k : from + (k + 0.5) * (to - from) / kept - 0.5;
}

/* The value at a fractional point, linear between its neighbours; NaN outside. */
export function interpolate(values, at) {
    const left = Math.floor(at);
    if (!(at >= 0 && at <= values.length - 1))
        return NaN;
    if (left === values.length - 1 || at === left)
        return values[left];
    return values[left] + (values[left + 1] - values[left]) * (at - left);
}
