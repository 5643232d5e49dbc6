/*
 * What is shown, drawn anew for a file: one drawing routine, two backends, an SVG text and a canvas
 * for PNG. A figure is {title, facts: {name: value}, panels: [plot.figure() | {image, height, area}]};
 * area {x, w, width}: where the image, `width` wide, has what belongs to the plot above it.
 */
import { gutter, lineEnd, placeLabels, TextRows } from "./labels.js";
import { hatch, theme } from "./palette.js";

const WIDTH = 1200, PANEL = 420, LEFT = 70, RIGHT = 20, HEAD = 54, ROW = 17, FOOT = 34;

class CanvasPen {
    constructor(width, height, scale) {
        this.canvas = document.createElement("canvas");
        this.canvas.width = width * scale;
        this.canvas.height = height * scale;
        this.context = this.canvas.getContext("2d");
        this.context.scale(scale, scale);
    }

    rect(x, y, w, h, colour) {
        this.context.fillStyle = colour;
        this.context.fillRect(x, y, w, h);
    }

    band(x, y, w, h, colour) {
        this.context.fillStyle = hatch(this.context, colour);
        this.context.fillRect(x, y, w, h);
    }

    lines(points, colour, width, dash) {
        const c = this.context;
        c.strokeStyle = colour;
        c.lineWidth = width;
        c.setLineDash(dash ?? []);
        c.beginPath();
        for (const run of points)
            run.forEach(([x, y], i) => i === 0 ? c.moveTo(x, y) : c.lineTo(x, y));
        c.stroke();
    }

    text(x, y, text, { colour, size = 13, anchor = "start", bold = false }) {
        const c = this.context;
        c.fillStyle = colour;
        c.font = `${bold ? "600 " : ""}${size}px system-ui, sans-serif`;
        c.textAlign = anchor === "middle" ? "center" : anchor;
        c.fillText(text, x, y);
    }

    image(source, x, y, w, h) {
        this.context.drawImage(source, x, y, w, h);
    }

    clip(x, y, w, h, draw) {
        this.context.save();
        this.context.beginPath();
        this.context.rect(x, y, w, h);
        this.context.clip();
        draw();
        this.context.restore();
    }
}

function escape(text) {
    return String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
}

const n = (value) => Number(value.toFixed(2));

class SvgPen {
    constructor(width, height) {
        this.parts = [`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" font-family="system-ui, sans-serif">`,
            `<defs><pattern id="invalid" width="7" height="7" patternUnits="userSpaceOnUse"><path d="M-1 8L8 -1" stroke="${theme().invalid}"/></pattern></defs>`];
        this.clips = 0;
    }

    rect(x, y, w, h, colour) {
        this.parts.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" fill="${colour}"/>`);
    }

    band(x, y, w, h) {
        this.rect(x, y, w, h, "url(#invalid)");
    }

    lines(points, colour, width, dash) {
        const d = points.map((run) => run.map(([x, y], i) => `${i === 0 ? "M" : "L"}${n(x)} ${n(y)}`).join("")).join("");
        if (d)
            this.parts.push(`<path d="${d}" fill="none" stroke="${colour}" stroke-width="${width}"${dash ? ` stroke-dasharray="${dash.join(" ")}"` : ""}/>`);
    }

    text(x, y, text, { colour, size = 13, anchor = "start", bold = false }) {
        this.parts.push(`<text x="${n(x)}" y="${n(y)}" fill="${colour}" font-size="${size}" text-anchor="${anchor}"${bold ? ' font-weight="600"' : ""}>${escape(text)}</text>`);
    }

    image(source, x, y, w, h) {
        this.parts.push(`<image x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" href="${source.toDataURL("image/png")}" preserveAspectRatio="none"/>`);
    }

    clip(x, y, w, h, draw) {
        const id = `clip${this.clips++}`;
        this.parts.push(`<clipPath id="${id}"><rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}"/></clipPath><g clip-path="url(#${id})">`);
        draw();
        this.parts.push("</g>");
    }

    finish() {
        return [...this.parts, "</svg>\n"].join("\n");
    }
}

/* Runs of finite points. */
function runs(xs, ys, px, py) {
    const result = [];
    let run = null;
    for (let i = 0; i < ys.length; i++) {
        if (!Number.isFinite(ys[i]) || !Number.isFinite(xs[i])) {
            run = null;
            continue;
        }
        if (!run)
            result.push(run = []);
        run.push([px(xs[i]), py(ys[i])]);
    }
    return result;
}

function drawPlot(pen, figure, y, height) {
    const { text, muted, grid, line, well } = theme(), h = height - FOOT, w = WIDTH - LEFT - Math.max(RIGHT, gutter(figure.curves, h));
    const [low, high] = figure.window, [bottom, top] = figure.range;
    const px = (x) => LEFT + (x - low) / (high - low) * w;
    const scaled = ([from, to]) => (v) => y + h - (v - from) / (to - from) * h;
    const py = scaled([bottom, top]);
    for (const { v, label } of figure.xTicks(w)) {
        pen.lines([[[px(v), y], [px(v), y + h]]], grid, 1);
        pen.text(px(v), y + h + 18, label, { colour: muted, anchor: "middle" });
    }
    for (const { v, label } of figure.yTicks(h)) {
        pen.lines([[[LEFT, py(v)], [LEFT + w, py(v)]]], grid, 1);
        pen.text(LEFT - 8, py(v) + 4, label, { colour: muted, anchor: "end" });
    }
    pen.clip(LEFT, y, w, h, () => {
        for (const band of figure.bands) {
            const left = Math.max(LEFT, px(band.from)), right = Math.min(LEFT + w, px(band.to));
            if (right >= left) {
                pen.rect(left, y, Math.max(1.5, right - left), h, well);
                if (!band.unseen)
                    pen.band(left, y, Math.max(1.5, right - left), h, theme().invalid);
            }
        }
        for (const under of figure.under)
            pen.lines(runs(under.xs, under.ys, px, scaled(under.scale ?? figure.range)), under.colour, under.width ?? 1, under.dash);
        for (const curve of figure.curves)
            pen.lines(runs(curve.xs, curve.ys, px, py), curve.colour, 1.5, curve.dash);
        drawMarks(pen, figure, px, py, { y, w, h });
        for (const cursor of figure.cursors) {
            pen.lines([[[px(cursor.x), y], [px(cursor.x), y + h]]], theme().accent, 1);
            pen.text(px(cursor.x) + 4, y + 14, cursor.name, { colour: theme().accent, bold: true });
        }
    });
    drawLabels(pen, placeLabels(figure.curves.map(({ label, colour, dash, xs, ys }) => ({ label, colour, dash, end: py(lineEnd(xs, ys, low, high)) })), { x: LEFT, y, w, h }), LEFT + w);
    pen.lines([[[LEFT, y], [LEFT, y + h], [LEFT + w, y + h]]], line, 1);
    pen.text(LEFT + 6, y + 16, [figure.title, figure.yUnit].filter(Boolean).join(", "), { colour: text, bold: true });
    return w;
}

/* Lines at a place of either axis, with their texts. */
function drawMarks(pen, { marks, levels }, px, py, { y, w, h }) {
    const { accent } = theme(), rows = new TextRows(), dash = [5, 4];
    for (const { x, text = "", colour = accent } of marks) {
        pen.lines([[[px(x), y], [px(x), y + h]]], colour, 1, dash);
        if (text)
            pen.text(px(x) + 4, y + h - 6 - 14 * rows.take(px(x), 7 * text.length), text, { colour, size: 12 });
    }
    for (const { y: at, text = "", colour = accent } of levels) {
        pen.lines([[[LEFT, py(at)], [LEFT + w, py(at)]]], colour, 1, dash);
        if (text)
            pen.text(LEFT + w - 4, py(at) - 4, text, { colour, size: 12, anchor: "end" });
    }
}

/* An image over the whole width, or with its area under the plot above it, which is `room` wide. */
function drawImage(pen, { image, height, area }, y, room) {
    const scale = area ? room / area.w : 1, left = area ? LEFT - area.x * scale : 0;
    pen.clip(0, y, WIDTH, height, () => pen.image(image, left, y, area ? area.width * scale : WIDTH, height));
}

/* The numbers of channels, from the plot's right edge on. */
function drawLabels(pen, labels, right) {
    const { text, panel } = theme();
    for (const { colour, dash, end, x, y } of labels)
        pen.lines([[[right, end], [x, y]]], colour, 1, dash);
    for (const { text: number, colour, x, y, w, h } of labels) {
        const [left, top, end, bottom] = [x - w / 2, y - h / 2, x + w / 2, y + h / 2];
        pen.rect(left, top, w, h, panel);
        pen.lines([[[left, top], [end, top], [end, bottom], [left, bottom], [left, top]]], colour, 1);
        pen.text(x, y + 4, number, { colour: text, size: 11, anchor: "middle", bold: true });
    }
}

/* Items side by side in rows of at most `room` px. items: [{width, …}] → [[items of a row]]. */
function inRows(items, room) {
    const rows = [];
    let left = 0;
    for (const item of items) {
        if (rows.length === 0 || left + item.width > room) {
            rows.push([]);
            left = 0;
        }
        rows.at(-1).push({ ...item, left });
        left += item.width;
    }
    return rows;
}

/* The head: facts and names of curves in as many rows as they take; names stand beside the title where they fit. */
function headOf(figure) {
    const room = WIDTH - LEFT - RIGHT, titleWidth = 9.8 * figure.title.length + 30;
    const facts = inRows(Object.entries(figure.facts).map(([name, value]) => {
        const text = `${name} ${typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value}`;
        return { text, width: 6.6 * text.length + 16 };
    }), room);
    const curves = figure.panels.flatMap((p) => p.curves ?? []).filter((c, i, all) => all.findIndex((d) => d.name === c.name) === i).slice(0, 16);
    const names = curves.map((curve) => ({ text: curve.key ?? curve.name, colour: curve.colour, width: 8 * (curve.key ?? curve.name).length + 14 }));
    const beside = names.reduce((sum, { width }) => sum + width, titleWidth) <= room;
    const legend = beside ? [] : inRows(names, room);
    return { facts, names, beside, legend, height: HEAD + ROW * (Math.max(0, facts.length - 1) + legend.length) };
}

function drawHead(pen, figure, { facts, names, beside, legend }) {
    const { text, muted } = theme();
    pen.text(LEFT, 24, figure.title, { colour: text, size: 17, bold: true });
    facts.forEach((row, i) => pen.text(LEFT, 43 + ROW * i, row.map((fact) => fact.text).join(" · "), { colour: muted, size: 12 }));
    let right = WIDTH - RIGHT;
    for (const name of beside ? [...names].reverse() : []) {
        pen.text(right, 24, name.text, { colour: name.colour, anchor: "end", bold: true });
        right -= name.width;
    }
    legend.forEach((row, i) => row.forEach((name) =>
        pen.text(LEFT + name.left, 43 + ROW * (facts.length + i), name.text, { colour: name.colour, bold: true })));
}

function draw(pen, figure, height) {
    const head = headOf(figure);
    pen.rect(0, 0, WIDTH, height, theme().panel);
    drawHead(pen, figure, head);
    let y = head.height, room = WIDTH - LEFT - RIGHT;
    for (const part of figure.panels) {
        if (part.image) {
            drawImage(pen, part, y, room);
            y += part.height;
        } else {
            room = drawPlot(pen, part, y, PANEL);
            y += PANEL;
        }
    }
}

function heightOf(figure) {
    return headOf(figure).height + figure.panels.reduce((sum, part) => sum + (part.image ? part.height : PANEL), 0) + 10;
}

export function figureSvg(figure) {
    const height = heightOf(figure), pen = new SvgPen(WIDTH, height);
    draw(pen, figure, height);
    return pen.finish();
}

/* → Promise of a Blob. */
export function figurePng(figure) {
    const height = heightOf(figure), pen = new CanvasPen(WIDTH, height, 2);
    draw(pen, figure, height);
    return new Promise((resolve) => pen.canvas.toBlob(resolve, "image/png"));
}
