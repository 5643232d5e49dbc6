/*
 * Spectra as they are drawn: power density in dB, the largest held, lines found, columns of a
 * logarithmic frequency axis. Pure.
 */

const LEAST = 1e-40;

/* Power density [unit²/Hz] → dB re 1 unit²/Hz. */
export function densityDb(density) {
    const db = new Float32Array(density.length);
    for (let i = 0; i < density.length; i++)
        db[i] = 10 * Math.log10(Math.max(density[i], LEAST));
    return db;
}

/* The larger of each bin, into `held` (made where it is missing or of another length). */
export function holdLargest(held, values) {
    if (!held || held.length !== values.length)
        return Float32Array.from(values);
    for (let i = 0; i < values.length; i++)
        if (values[i] > held[i])
            held[i] = values[i];
    return held;
}

/*
 * The largest line: {bin (fractional, by a parabola through three bins in dB), db}. Bin 0 is left
 * out: it is the offset.
 */
export function largestLine(db) {
    let best = 1;
    for (let i = 2; i < db.length; i++)
        if (db[i] > db[best])
            best = i;
    if (!(best > 1 && best < db.length - 1))
        return { bin: best, db: db[best] };
    const [a, b, c] = [db[best - 1], db[best], db[best + 1]];
    const curve = a - 2 * b + c, shift = curve < 0 ? 0.5 * (a - c) / curve : 0;
    return { bin: best + shift, db: b - 0.25 * (a - c) * shift };
}

/* RMS of a band of density [unit²/Hz]: sqrt(sum · Hz a bin). */
export function bandRms(density, hzPerBin, low, high) {
    const from = Math.max(0, Math.ceil(low / hzPerBin));
    const to = Math.min(density.length - 1, Math.floor(high / hzPerBin));
    let sum = 0;
    for (let i = from; i <= to; i++)
        sum += density[i];
    return Math.sqrt(sum * hzPerBin);
}

/*
 * For each of `columns` pixels, the largest of the bins it covers, or the nearest one:
 * low, high in bins, the axis linear or logarithmic.
 */
export function spectrumColumns(values, low, high, columns, logarithmic) {
    const result = new Float32Array(columns);
    const edge = (x) => logarithmic ? low * (high / low) ** (x / columns) : low + (high - low) * x / columns;
    for (let column = 0; column < columns; column++) {
        const last = Math.min(values.length - 1, Math.max(0, Math.ceil(edge(column + 1)) - 1));
        let from = Math.min(values.length - 1, Math.max(0, Math.floor(edge(column))));
        let largest = values[from];
        for (from++; from <= last; from++)
            if (values[from] > largest)
                largest = values[from];
        result[column] = largest;
    }
    return result;
}
