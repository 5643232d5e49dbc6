/*
 * A time gate on an A-scan: the largest value between two times and where it is. Invalid points
 * count for nothing. Pure.
 */

/*
 * values of a scan, [from, to] in seconds; `magnitude`: whichever sign, else the largest (dB) →
 * {value (with its sign), seconds}, or null where nothing is.
 */
export function gatePeak(values, rateHz, [from, to], mask, magnitude) {
    const first = Math.max(0, Math.ceil(from * rateHz - 1e-9)), last = Math.min(values.length - 1, Math.floor(to * rateHz + 1e-9));
    const size = magnitude ? Math.abs : (value) => value;
    let best = -1;
    for (let i = first; i <= last; i++)
        if (!(mask && mask[i]) && (best < 0 || size(values[i]) > size(values[best])))
            best = i;
    return best < 0 ? null : { value: values[best], seconds: best / rateHz };
}
