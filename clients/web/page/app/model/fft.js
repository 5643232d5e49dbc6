/*
 * The envelope of a real record by its analytic signal: a radix-2 FFT in double precision, small,
 * for records of a screen's size. Pure.
 */

/* In place, length a power of two; inverse is not scaled. */
export function fft(re, im, inverse) {
    const n = re.length;
    for (let i = 1, j = 0; i < n; i++) {
        let bit = n >> 1;
        for (; j & bit; bit >>= 1)
            j ^= bit;
        j ^= bit;
        if (i < j) {
            [re[i], re[j]] = [re[j], re[i]];
            [im[i], im[j]] = [im[j], im[i]];
        }
    }
    for (let size = 2; size <= n; size *= 2) {
        const angle = (inverse ? 2 : -2) * Math.PI / size, half = size / 2;
        for (let k = 0; k < half; k++) {
            const wr = Math.cos(angle * k), wi = Math.sin(angle * k);
            for (let a = k; a < n; a += size) {
                const b = a + half;
                const tr = re[b] * wr - im[b] * wi, ti = re[b] * wi + im[b] * wr;
                re[b] = re[a] - tr;
                im[b] = im[a] - ti;
                re[a] += tr;
                im[a] += ti;
            }
        }
    }
}

/* |x + jH{x}| of a record, its mean removed, padded with zeros to a power of two. */
export function envelope(values) {
    const points = values.length;
    if (points === 0)
        return new Float32Array(0);
    let n = 1;
    while (n < points)
        n *= 2;
    const re = new Float64Array(n), im = new Float64Array(n);
    let mean = 0;
    for (let i = 0; i < points; i++)
        mean += values[i] / points;
    for (let i = 0; i < points; i++)
        re[i] = values[i] - mean;
    fft(re, im, false);
    for (let k = 1; k < n / 2; k++) {
        re[k] *= 2;
        im[k] *= 2;
    }
    for (let k = n / 2 + 1; k < n; k++)
        re[k] = im[k] = 0;
    fft(re, im, true);
    const result = new Float32Array(points);
    for (let i = 0; i < points; i++)
        result[i] = Math.hypot(re[i], im[i]) / n;
    return result;
}
