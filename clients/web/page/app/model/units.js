/*
 * Values as text: SI prefixes, decibels, times, counts. Pure functions.
 * Units come from the configuration and may be prefixed ("mV") or not scale at all ("%", "mm/s").
 */

const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"],
    [1e-9, "n"], [1e-12, "p"], [1e-15, "f"]];
const PREFIX_FACTORS = { T: 1e12, G: 1e9, M: 1e6, k: 1e3, c: 1e-2, m: 1e-3, "µ": 1e-6, "μ": 1e-6, u: 1e-6, n: 1e-9, p: 1e-12 };
/* Units that take a prefix; all others are written as they are, with a power of ten where needed. */
const SCALABLE = new Set(["V", "A", "Pa", "Hz", "s", "N", "W", "g", "m/s", "m/s²", "m/s^2", "m/s2", "B", "S/s", "C", "Ω", "strain"]);
/* What 0 dB means: acoustic emission (EN 1330-9: 1 µV at the sensor), ISO 1683 for the others. */
const REFERENCES = { V: [1e-6, "dB(AE)"], Pa: [1e-6, "dB re 1 µPa"], "m/s": [1e-9, "dB re 1 nm/s"],
    "m/s²": [1e-6, "dB re 1 µm/s²"], "m/s^2": [1e-6, "dB re 1 µm/s²"], "m/s2": [1e-6, "dB re 1 µm/s²"], N: [1e-6, "dB re 1 µN"] };
const MINUS = "−", THIN = "\u2009";

/* "mV" → {base: "V", factor: 1e-3}; a unit that takes no prefix is its own base. */
export function parseUnit(unit) {
    if (SCALABLE.has(unit))
        return { base: unit, factor: 1 };
    const factor = PREFIX_FACTORS[unit[0]];
    if (factor !== undefined && SCALABLE.has(unit.slice(1)))
        return { base: unit.slice(1), factor };
    return { base: unit, factor: 1 };
}

/* digits: significant ones. */
export function plain(value, digits = 4) {
    if (!Number.isFinite(value))
        return "–";
    if (value === 0)
        return "0";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-4) {
        const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
        return `${mantissa.replace("-", MINUS)}e${exponent.replace("+", "").replace("-", MINUS)}`;
    }
    const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Number(size.toPrecision(digits)))));
    return value.toFixed(decimals).replace("-", MINUS);
}

/* At most `digits` significant ones, none of them a trailing zero: 183, 0.5, 1e−9. */
export function trimmed(value, digits = 6) {
    return Number.isFinite(value) ? String(Number(value.toPrecision(digits))).replaceAll("-", MINUS) : "–";
}

/* The prefix for a size in the base unit: [factor, prefix]. */
export function prefixOf(size) {
    if (!(size > 0) || !Number.isFinite(size))
        return [1, ""];
    return PREFIXES.find(([factor]) => size >= factor * 0.9995) ?? PREFIXES[PREFIXES.length - 1];
}

/* 0.00123, "V" → "1.230 mV". */
export function si(value, unit, digits = 4) {
    if (value === null || value === undefined || !Number.isFinite(value))
        return "–";
    const { base, factor } = parseUnit(unit);
    if (!SCALABLE.has(base))
        return plain(value, digits) + (unit ? ` ${unit}` : "");
    const [scale, prefix] = value === 0 ? [1, ""] : prefixOf(Math.abs(value * factor));
    const text = plain(value * factor / scale, digits);
    return `${text} ${prefix}${base}`;
}

/* As si(), without trailing zeros: what a field for typing shows. */
export function siTrimmed(value, unit, digits = 6) {
    const { base, factor } = parseUnit(unit);
    if (!SCALABLE.has(base) || !Number.isFinite(value))
        return trimmed(value, digits) + (unit ? ` ${unit}` : "");
    const [scale, prefix] = prefixOf(Math.abs(value * factor) * (1 + 1e-12));
    return `${trimmed(value * factor / scale, digits)} ${prefix}${base}`;
}

/* One scale for a whole axis whose largest value is `size`: {scale (divide by it), unit}. */
export function axisUnit(size, unit) {
    const { base, factor } = parseUnit(unit);
    if (!SCALABLE.has(base))
        return { scale: 1, unit };
    const [scale, prefix] = prefixOf(size * factor);
    return { scale: scale / factor, unit: prefix + base };
}

export function decibels(ratio) {
    return ratio > 0 ? 20 * Math.log10(ratio) : -Infinity;
}

/* The reference of 0 dB for a unit: {value (in that unit), name}, or null where none is agreed. */
export function reference(unit) {
    const { base, factor } = parseUnit(unit);
    const known = REFERENCES[base];
    return known ? { value: known[0] / factor, name: known[1] } : null;
}

/*
 * A level: mode "db" is re the unit's reference (volts: dB(AE)), "fs" re full scale, "unit" as it is.
 * → {text, value, name}; falls back to the unit where a reference is missing.
 */
export function level(value, unit, mode, fullScale) {
    const ref = reference(unit);
    let of = null;
    if (mode === "db" && ref)
        of = ref;
    else if (mode === "fs" && fullScale > 0)
        of = { value: fullScale, name: "dBFS" };
    if (value === null || value === undefined || !Number.isFinite(value))
        return { text: "–", value: NaN, name: of ? of.name : unit };
    if (!of)
        return { text: si(value, unit, 3), value, name: unit };
    const db = decibels(value / of.value);
    return { text: db === -Infinity ? `${MINUS}∞` : signedFixed(db, 1), value: db, name: of.name };
}

export function signedFixed(value, decimals) {
    const text = value.toFixed(decimals);
    return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", MINUS);
}

/* 1234567 → "1 234 567" (thin spaces). */
export function count(value) {
    if (value === null || value === undefined || !Number.isFinite(value))
        return "–";
    return String(Math.round(value)).replace(/\B(?=(\d{3})+(?!\d))/g, THIN).replace("-", MINUS);
}

/* Nanoseconds → "1.23 ms". */
export function nanoseconds(value) {
    return value === null || value === undefined ? "–" : si(value * 1e-9, "s", 3);
}

/* Seconds of something that runs → "0:42", "12:05", "1:02:03", "3 d 04:00". */
export function elapsed(seconds) {
    if (!Number.isFinite(seconds) || seconds < 0)
        return "–";
    const two = (n) => String(n).padStart(2, "0");
    const s = Math.floor(seconds), minutes = Math.floor(s / 60) % 60, hours = Math.floor(s / 3600);
    if (hours >= 24)
        return `${Math.floor(hours / 24)} d ${two(hours % 24)}:${two(minutes)}`;
    return hours > 0 ? `${hours}:${two(minutes)}:${two(s % 60)}` : `${minutes}:${two(s % 60)}`;
}

/* Realtime nanoseconds → "14:03:07.123" of the viewer's clock. */
export function clockTime(ns) {
    if (!ns)
        return "–";
    const date = new Date(ns / 1e6), two = (n, w = 2) => String(n).padStart(w, "0");
    return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${two(date.getMilliseconds(), 3)}`;
}

/* "2 ms", "2ms", "0.002", "5 kHz" → the number in the base unit; NaN where it is none. */
export function parseQuantity(text, unit) {
    const match = /^\s*([-+−]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(\S*)\s*$/.exec(String(text));
    if (!match)
        return NaN;
    const number = Number(match[1].replace(MINUS, "-"));
    if (match[2] === "" || match[2] === unit)
        return number;
    const given = parseUnit(match[2]);
    if (given.base === unit)
        return number * given.factor;
    if (match[2].length === 1 && PREFIX_FACTORS[match[2]] !== undefined)
        return number * PREFIX_FACTORS[match[2]];
    return NaN;
}

/* As daemon/core/level.c: the units that have a reference of 0 dB, and how large it is. */
const LEVEL_REFERENCES = [["V", 1e-6], ["m/s2", 1e-6], ["m/s²", 1e-6], ["m/s^2", 1e-6], ["g", 1e-6 / 9.80665], ["m/s", 1e-9], ["Pa", 1e-6],
    ["m", 1e-12], ["N", 1e-6]];
const LEVEL_PREFIXES = { "": 1, p: 1e-12, n: 1e-9, u: 1e-6, "µ": 1e-6, "μ": 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9 };
const ACCELERATIONS = { "m/s2": 1, "m/s²": 1, "m/s^2": 1, g: 9.80665 };
const OTHER_UNITS = new Set(["", "%", "°", "deg", "s", "ms", "us", "µs", "μs", "ns", "min", "h", "d", "Hz", "kHz", "MHz", "GHz", "B", "KiB", "MiB", "GiB", "dB",
    "frames", "frame", "samples"]);

/* Converts one of unit `from` into unit `to`; NaN: units of different kinds. */
function unitFactor(from, to) {
    for (const [prefix, size] of Object.entries(LEVEL_PREFIXES))
        for (const [other, sizeOther] of Object.entries(LEVEL_PREFIXES))
            if (from.startsWith(prefix) && to.startsWith(other) && from.length > prefix.length && from.slice(prefix.length) === to.slice(other.length))
                return size / sizeOther;
    const size = (unit) => {
        for (const [name, value] of Object.entries(ACCELERATIONS))
            for (const [prefix, factor] of Object.entries(LEVEL_PREFIXES))
                if (unit === prefix + name)
                    return value * factor;
        return NaN;
    };
    return from === to ? 1 : size(from) / size(to);
}

function levelReference(unit) {
    for (const [name, value] of LEVEL_REFERENCES) {
        const factor = unitFactor(name, unit);
        if (Number.isFinite(factor) && !(name in ACCELERATIONS && !unit.endsWith(name)))
            return value * factor;
    }
    return 1;
}

const isLevelUnit = (unit) => !OTHER_UNITS.has(unit) && !/[()\s]/.test(unit) && !/^\d/.test(unit);

/* "20 uPa" or "uPa", in `unit`; NaN: it is no amplitude of that kind. */
function referenceIn(text, unit) {
    const [, number, of] = /^([\d.]+(?:[eE][-+]?\d+)?)?\s*(.*)$/.exec(text);
    const value = number === undefined ? 1 : Number(number);
    return value > 0 && isLevelUnit(of) ? value * unitFactor(of, unit) : NaN;
}

/* The amplitude of 0 dB in `unit`, from the text behind dB; NaN: an unknown reference. */
function decibelReference(behind, unit, full) {
    const bracketed = /^\((.*)\)$/.exec(behind.trim());
    const what = (bracketed ? bracketed[1] : behind).trim();
    const re = /^re[ .:]+(.*)$/i.exec(what);
    const of = re ? re[1].replace(/^[ .:]+/, "") : what;
    if (what === "")
        return bracketed ? NaN : levelReference(unit);
    if (/^(FS|full scale)$/i.test(of))
        return full;
    if (/^_?AE$/i.test(what))
        return 1e-6 * unitFactor("V", unit);
    const value = referenceIn(of, unit);
    return re || bracketed || Number.isFinite(unitFactor(of.replace(/^[\d.]+\s*/, ""), "V")) ? value : NaN;
}

/*
 * A level as the configuration takes it (daemon/core/level.h), in `unit`: "100 uV", "40 dB(AE)", "-20 dBFS", "10 %". fullScale: at
 * the sensor, 0: not known. A number alone only where no unit can be written, and 0. NaN: it is no level of such a channel.
 */
export function parseLevel(text, unit, fullScale = 0) {
    const match = /^\s*([-+−]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*(.*?)\s*$/.exec(String(text));
    if (!match)
        return NaN;
    const number = Number(match[1].replace(MINUS, "-")), behind = match[2], share = unit === "" || unit === "FS";
    const full = fullScale > 0 ? fullScale : share ? 1 : NaN;
    if (behind === "")
        return number === 0 || !isLevelUnit(unit) || (share && Math.abs(number) <= 1) ? number : NaN;
    if (behind.startsWith("dB"))
        return decibelReference(behind.slice(2), unit, full) * 10 ** (number / 20);
    if (behind === "%")
        return unit === "%" ? number : number / 100 * full;
    if (behind === "FS" && unit !== "FS")
        return number * full;
    return isLevelUnit(behind) ? number * unitFactor(behind, unit) : NaN;
}
