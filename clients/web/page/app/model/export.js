/*
 * Files for other programs: CSV with the facts in comment lines, and .npy (version 1.0, little
 * endian, C order). Pure: text and bytes out.
 */

function field(value) {
    if (typeof value === "number")
        return Number.isFinite(value) ? String(value) : "nan";
    return /[",\n\r]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value;
}

/* facts: {name: value}, written as "# name: value"; columns: [{name, values}] of one length. */
export function csv(facts, columns) {
    const lines = Object.entries(facts).map(([name, value]) => `# ${name}: ${String(value).replace(/[\r\n]+/g, " ")}`);
    lines.push(columns.map((column) => field(column.name)).join(","));
    const rows = columns.length > 0 ? columns[0].values.length : 0;
    for (let row = 0; row < rows; row++)
        lines.push(columns.map((column) => field(column.values[row])).join(","));
    return lines.join("\n") + "\n";
}

/* values: Float32Array or Float64Array of rows × columns → the bytes of a .npy file. */
export function npy(values, rows, columns) {
    const type = values instanceof Float64Array ? "<f8" : "<f4";
    let header = `{'descr': '${type}', 'fortran_order': False, 'shape': (${rows}, ${columns}), }`;
    header = header.padEnd(Math.ceil((10 + header.length + 1) / 64) * 64 - 11) + "\n";
    const bytes = new Uint8Array(10 + header.length + values.byteLength);
    bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 0xff, header.length >> 8]);
    for (let i = 0; i < header.length; i++)
        bytes[10 + i] = header.charCodeAt(i);
    const view = new DataView(bytes.buffer, 10 + header.length);
    for (let i = 0; i < values.length; i++)
        if (type === "<f8")
            view.setFloat64(8 * i, values[i], true);
        else
            view.setFloat32(4 * i, values[i], true);
    return bytes;
}

/* Columns side by side, row by row, in double. */
export function interleave(columns) {
    const rows = columns.length > 0 ? columns[0].values.length : 0;
    const values = new Float64Array(rows * columns.length);
    columns.forEach((column, c) => {
        for (let row = 0; row < rows; row++)
            values[row * columns.length + c] = column.values[row];
    });
    return values;
}
