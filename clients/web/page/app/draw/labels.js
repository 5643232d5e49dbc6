/*
 * The number of each channel at the right end of its line, so that nobody needs colours to tell
 * lines apart. Numbers stand in a gutter right of the plot: none hides a line. Where ends lie close
 * together the numbers move apart, and a short line leads from each end to its number.
 */

/* With more channels than this there is no room that would help: no numbers. */
const MOST = 16;

/* Of one number in px: its height with the distance to the next one, and its box. */
const APART = 15, HIGH = 13, DIGIT = 7, MARGIN = 7, LEAD = 9, EDGE = 3;

/*
 * Places for `wanted` within [low, high], in the same order, each at least `apart` from the next,
 * moved as little as that takes. Neighbours that collide form a block around their mean.
 */
export function spread(wanted, apart, low, high) {
    const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b] || a - b), blocks = [];
    const place = (block) => {
        block.at = Math.max(low, Math.min(high - (block.members.length - 1) * apart, block.sum / block.members.length));
    };
    for (const i of order) {
        let block = { members: [i], sum: wanted[i] };
        place(block);
        for (let last = blocks.at(-1); last && last.at + last.members.length * apart > block.at; last = blocks.at(-1)) {
            blocks.pop();
            block = { members: [...last.members, ...block.members], sum: last.sum + block.sum - last.members.length * apart * block.members.length };
            place(block);
        }
        blocks.push(block);
    }
    const places = new Array(wanted.length);
    for (const { at, members } of blocks)
        members.forEach((i, k) => { places[i] = at + k * apart; });
    return places;
}

/* Rows for the texts of marks, which come from left to right: none lies on another. */
export class TextRows {
    constructor() {
        this.ends = [];
    }

    /* The first row that is free at x, for a text of this width. */
    take(x, width) {
        const free = this.ends.findIndex((end) => end < x), row = free < 0 ? this.ends.length : free;
        this.ends[row] = x + 6 + width;
        return row;
    }
}

/* What the legend calls a curve: with the channel's number where its name does not say it. */
export function legendText(number, channelName, curveName) {
    return channelName === String(number) ? curveName : `${number}: ${curveName}`;
}

/* The curves that get a number: none where there is but one channel, or too many. */
function labelled(curves) {
    const channels = new Set(curves.map((curve) => curve.label).filter(Boolean));
    return channels.size < 2 || channels.size > MOST ? [] : curves.filter((curve) => curve.label);
}

function columnsFor(count, height) {
    return Math.max(1, Math.ceil(count / Math.max(1, Math.floor(height / APART))));
}

function boxWidth(curves) {
    return MARGIN + DIGIT * Math.max(1, ...curves.map((curve) => curve.label.length));
}

/* The gutter that the numbers of these curves need beside a plot of this height, in px; 0: none. */
export function gutter(curves, height) {
    const shown = labelled(curves);
    return shown.length === 0 ? 0 : LEAD + columnsFor(shown.length, height) * (boxWidth(shown) + EDGE);
}

/*
 * Where the line through `xs` and `ys` ends within [low, high]: y there, at the right edge between
 * two points that lie around it; NaN: it has no point there.
 */
export function lineEnd(xs, ys, low, high) {
    for (let i = ys.length - 1; i >= 0; i--) {
        if (!Number.isFinite(ys[i]) || xs[i] > high)
            continue;
        if (Number.isFinite(ys[i + 1] ?? NaN) && xs[i + 1] > xs[i])
            return ys[i] + (ys[i + 1] - ys[i]) * (high - xs[i]) / (xs[i + 1] - xs[i]);
        return xs[i] < low ? NaN : ys[i];
    }
    return NaN;
}

/*
 * Numbers beside `area` {x, y, w, h}: [{text, colour, dash, end: y of the line's end, x, y: the
 * middle of the number's box, w, h}]. curves: [{label, colour, dash, end: y in px, NaN: not shown}].
 */
export function placeLabels(curves, area) {
    const all = labelled(curves), shown = all.filter((curve) => Number.isFinite(curve.end)).sort((a, b) => a.end - b.end);
    const columns = columnsFor(all.length, area.h), width = boxWidth(all), placed = [];
    for (let column = 0; column < columns; column++) {
        const members = shown.filter((_, i) => i % columns === column);
        const ends = members.map((curve) => Math.max(area.y, Math.min(area.y + area.h, curve.end)));
        const places = spread(ends, APART, area.y + HIGH / 2, area.y + area.h - HIGH / 2);
        members.forEach((curve, i) => placed.push({ text: curve.label, colour: curve.colour, dash: curve.dash, end: ends[i], w: width, h: HIGH,
            x: area.x + area.w + LEAD + column * (width + EDGE) + width / 2, y: places[i] }));
    }
    return placed;
}
