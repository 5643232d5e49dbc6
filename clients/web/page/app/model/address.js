/*
 * The state of the page in its URL: "#/scope?stream=vessel&channels=1,2". Each view has a table
 * of parameters with type and default; what is not in the table or not valid becomes the default,
 * and what is the default is left out. Pure.
 */

/* "1-4,7" → [1, 2, 3, 4, 7]; ascending, each once, at most 4096 of them. */
export function parseChannels(text) {
    const found = new Set();
    for (const part of String(text).split(",")) {
        const match = /^(\d+)(?:-(\d+))?$/.exec(part.trim());
        if (!match)
            continue;
        const last = Number(match[2] ?? match[1]);
        for (let c = Number(match[1]); c <= last && found.size < 4096; c++)
            if (c >= 1)
                found.add(c);
    }
    return [...found].sort((a, b) => a - b);
}

/* [1, 2, 3, 4, 7] → "1-4,7". */
export function formatChannels(channels) {
    const parts = [];
    for (let i = 0; i < channels.length;) {
        let last = i;
        while (last + 1 < channels.length && channels[last + 1] === channels[last] + 1)
            last++;
        parts.push(last === i ? `${channels[i]}` : last === i + 1 ? `${channels[i]},${channels[last]}` : `${channels[i]}-${channels[last]}`);
        i = last + 1;
    }
    return parts.join(",");
}

/* One value by its row of the table {type, default, choices, low, high}. */
function readValue(row, text) {
    switch (row.type) {
    case "choice":
        return row.choices.includes(text) ? text : row.default;
    case "flag":
        return text === "1" ? true : text === "0" ? false : row.default;
    case "channels": {
        const channels = parseChannels(text);
        return channels.length > 0 ? channels.slice(0, row.high ?? channels.length) : row.default;
    }
    case "number": {
        const value = text.trim() === "" ? NaN : Number(text);
        return Number.isFinite(value) && value >= (row.low ?? -Infinity) && value <= (row.high ?? Infinity)
            ? value : row.default;
    }
    case "span": {
        const ends = text.split("~").map(Number);
        return ends.length === 2 && ends.every(Number.isFinite) && ends[0] < ends[1] ? ends : row.default;
    }
    default:
        return text;
    }
}

function writeValue(row, value) {
    switch (row.type) {
    case "flag":
        return value ? "1" : "0";
    case "channels":
        return formatChannels(value);
    case "number":
        return String(Number(value.toPrecision(9)));
    case "span":
        return value.map((end) => String(Number(end.toPrecision(9)))).join("~");
    default:
        return String(value);
    }
}

function same(a, b) {
    return a === b || (Array.isArray(a) && Array.isArray(b) && a.length === b.length && a.every((v, i) => v === b[i]));
}

/* "#/scope?a=1" → {view, values: Map of text}. */
export function splitHash(hash) {
    const match = /^#?\/?([a-z]*)(?:\?(.*))?$/.exec(hash) ?? [];
    return { view: match[1] ?? "", values: new Map(new URLSearchParams(match[2] ?? "")) };
}

/* table: {name: row} → {name: value}, each present. */
export function readParameters(table, values) {
    const result = {};
    for (const [name, row] of Object.entries(table))
        result[name] = values.has(name) ? readValue(row, values.get(name)) : row.default;
    return result;
}

/* → "#/view?…" without defaults; legible: commas and tildes stay. */
export function formatHash(view, table, parameters) {
    const parts = [];
    for (const [name, row] of Object.entries(table)) {
        const value = parameters[name];
        if (value === null || value === undefined || same(value, row.default))
            continue;
        parts.push(`${name}=${encodeURIComponent(writeValue(row, value)).replaceAll("%2C", ",").replaceAll("%20", "+")}`);
    }
    return `#/${view}` + (parts.length > 0 ? `?${parts.join("&")}` : "");
}
