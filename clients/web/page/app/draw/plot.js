/*
 * A line plot: dygraphs draws lines and grid; invalid ranges, overlays and earlier traces go under
 * them; cursors lie above as elements. What is shown is one "scene":
 *
 *   {x0, dx | xs        x of point i: x0 + i·dx, or xs[i] (ascending)
 *    curves: [{name, values, colour, dash, width, label, key}]   values: Float32Array, NaN: not drawn;
 *                       label: the channel's number (draw/labels.js); key: what a legend calls it
 *    mask               Uint8Array or null: wire/picture.js, invalidMask
 *    bands: [{from, to, text, unseen}]               invalid ranges in x; unseen: not received yet
 *    under: [{xs, ys, colour, dash, scale: [low, high], width}]   lines, on a scale of their own where they have one
 *    ghosts: [[Float32Array]]                        earlier traces, oldest first
 *    range: [low, high] of y, yUnit, xUnit, logX, marks: [{x, text}], levels: [{y, text}]}
 *
 * Window and vertical zoom belong to the plot; its owner hears of them by onzoom.
 */
import { fitCanvas, h, setHidden } from "../ui/dom.js";
import { axisUnit } from "../model/units.js";
import { interpolate, linearTicks, logTicks, reduce, reducedPoint } from "../model/scale.js";
import { NOTHING } from "../wire/picture.js";
import { Gestures } from "./gestures.js";
import { gutter, lineEnd, placeLabels, TextRows } from "./labels.js";
import { hatch, theme } from "./palette.js";

const AXIS_PX = 52, RIGHT_PX = 10, X_AXIS_PX = 24;

export class LinePlot {
    /* options: {label (for screen readers), onzoom(window or null), onclick(x, y, event), cursors: bool, oncursor(name, x)} */
    constructor(host, options) {
        this.options = options;
        this.canvasHost = h("div", { class: "plot-canvas" });
        this.yLabel = h("span", { class: "axis-label y" });
        this.labelCanvas = h("canvas", { class: "image-canvas", hidden: true });
        this.layer = h("div", { class: "plot-layer" });
        this.element = h("div", { class: "plot", role: "img", "aria-label": options.label },
            this.canvasHost, this.yLabel, this.labelCanvas, this.layer);
        host.append(this.element);
        this.window = null;
        this.yWindow = null;
        this.scene = null;
        this.cursors = {};
        this.gestures = new Gestures(this.layer, {
            area: () => this.area(), x: () => this.shownX(), setX: (window) => this.setWindow(window),
            y: () => this.shownY(), setY: (window) => this.setYWindow(window),
            click: (x, y, event) => options.onclick?.(this.fromAxis(x), y, event),
        });
    }

    /* ---- axes: a logarithmic x axis is plotted over log10(x) ---- */

    toAxis(x) {
        return this.scene?.logX ? Math.log10(Math.max(x, 1e-12)) : x;
    }

    fromAxis(x) {
        return this.scene?.logX ? 10 ** x : x;
    }

    pointX(i) {
        const { xs, x0, dx } = this.scene;
        return xs ? xs[i] : x0 + dx * i;
    }

    points() {
        return this.scene.xs ? this.scene.xs.length : this.scene.curves[0]?.values.length ?? 0;
    }

    fullX() {
        const last = this.points() - 1;
        if (!this.scene || last < 0)
            return this.scene?.span ? this.scene.span.map((x) => this.toAxis(x)) : [0, 1];
        const [first, end] = this.scene.span ?? [this.pointX(this.scene.logX && this.pointX(0) <= 0 ? 1 : 0), this.pointX(last)];
        const low = this.toAxis(first), high = this.toAxis(end);
        return high > low ? [low, high] : [low, low + 1];
    }

    shownX() {
        return this.window ?? (this.scene ? this.fullX() : [0, 1]);
    }

    shownY() {
        return this.yWindow ?? this.scene?.range ?? [0, 1];
    }

    area() {
        return this.graph ? this.graph.getArea() : { x: AXIS_PX, y: 0, w: 1, h: 1 };
    }

    setWindow(window) {
        if (window && this.scene) {
            const [low, high] = this.fullX(), width = Math.min(window[1] - window[0], high - low);
            if (!(width > (high - low) * 1e-6))
                return;
            const start = Math.min(Math.max(window[0], low), high - width);
            window = width >= (high - low) * 0.999 ? null : [start, start + width];
        }
        this.window = window;
        this.options.onzoom?.(window && window.map((x) => this.fromAxis(x)));
        this.redraw();
    }

    setYWindow(window) {
        this.yWindow = window && window[1] > window[0] ? window : null;
        this.redraw();
    }

    /* ---- drawing ---- */

    show(scene) {
        this.scene = scene;
        this.redraw();
    }

    /* The points in the window, one beyond each side. */
    visible() {
        const points = this.points(), [low, high] = this.shownX();
        const find = (x) => {
            let left = 0, right = points;
            while (left < right) {
                const middle = (left + right) >> 1;
                if (this.toAxis(this.pointX(middle)) < x)
                    left = middle + 1;
                else
                    right = middle;
            }
            return left;
        };
        const from = Math.max(this.scene.logX && this.pointX(0) <= 0 ? 1 : 0, find(low) - 1);
        return [from, Math.max(from, Math.min(points, find(high) + 2))];
    }

    masked(values) {
        const mask = this.scene.mask;
        if (!mask)
            return values;
        const copy = Float32Array.from(values);
        for (let i = 0; i < copy.length; i++)
            if (mask[i])
                copy[i] = NaN;
        return copy;
    }

    xOfReduced(k, from, to, kept) {
        const at = reducedPoint(k, from, to, kept);
        if (!this.scene.xs)
            return this.toAxis(this.scene.x0 + this.scene.dx * at);
        return this.toAxis(interpolate(this.scene.xs, Math.min(Math.max(at, 0), this.scene.xs.length - 1)));
    }

    rows() {
        const [from, to] = this.visible(), columns = Math.max(64, Math.round(this.element.clientWidth - AXIS_PX));
        const reduced = this.scene.curves.map((curve) => reduce(this.masked(curve.values), from, to, columns));
        const kept = reduced.length > 0 ? reduced[0].length : 0, rows = new Array(kept);
        for (let k = 0; k < kept; k++) {
            const row = rows[k] = [this.xOfReduced(k, from, to, kept)];
            for (const values of reduced)
                row.push(values[k]);
        }
        return kept > 0 ? rows : [[this.shownX()[0], ...this.scene.curves.map(() => null)]];
    }

    /* The last tick of the x axis carries the unit. */
    ticker(low, high, pixels, vertical) {
        const wanted = Math.max(2, Math.floor(pixels / (vertical ? 28 : 84)));
        if (vertical)
            return linearTicks(low, high, wanted).map((v) => ({ v, label: this.tickText(v, this.yAxis.scale, high - low) }));
        const ticks = this.scene.logX
            ? logTicks(10 ** low, 10 ** high, wanted).map((v) => ({ v: Math.log10(v), label: this.tickText(v, this.xAxis.scale, v) }))
            : linearTicks(low, high, wanted).map((v) => ({ v, label: this.tickText(v, this.xAxis.scale, high - low) }));
        const last = ticks.findLast(({ v }) => v < high - (high - low) * 1e-6); /* one on the edge is not drawn */
        if (last)
            last.label += ` ${this.xAxis.unit}`;
        return ticks;
    }

    tickText(value, scale, width) {
        const scaled = value / scale, decimals = Math.max(0, Math.ceil(1.2 - Math.log10(Math.max(width / scale, 1e-12))));
        return String(Number(scaled.toFixed(Math.min(9, decimals)))).replace("-", "−");
    }

    redraw() {
        if (!this.scene || this.element.clientWidth === 0)
            return;
        const scene = this.scene, [low, high] = this.shownX(), range = this.shownY();
        const largest = scene.logX ? this.fromAxis(high) : Math.max(Math.abs(low), Math.abs(high));
        this.xAxis = axisUnit(scene.logX ? largest / 3 : largest, scene.xUnit ?? "");
        this.yAxis = axisUnit(Math.max(Math.abs(range[0]), Math.abs(range[1])), scene.yUnit ?? "");
        this.yLabel.textContent = this.yAxis.unit;
        this.shownRows = this.rows();
        const options = { file: this.shownRows, labels: ["x", ...scene.curves.map((_, i) => `c${i}`)],
            dateWindow: [low, high], valueRange: range, series: {}, rightGap: Math.max(RIGHT_PX, gutter(scene.curves, this.element.clientHeight - X_AXIS_PX)), gridLineColor: theme().grid, axisLineColor: theme().line };
        scene.curves.forEach((curve, i) => {
            options.series[`c${i}`] = { color: curve.colour, strokePattern: curve.dash ?? null, strokeWidth: curve.width ?? 1.25 };
        });
        if (this.graph)
            this.graph.updateOptions(options);
        else
            this.create(options);
        this.drawLabels();
        this.placeCursors();
    }

    create(options) {
        const { file, ...rest } = options, axis = (vertical) => ({
            ticker: (low, high, pixels) => this.ticker(low, high, pixels, vertical),
            axisLabelWidth: vertical ? AXIS_PX - 6 : 70, drawGrid: true, pixelsPerLabel: 50,
        });
        this.graph = new window.Dygraph(this.canvasHost, file, {
            ...rest, interactionModel: {}, legend: "never", legendFormatter: () => "", highlightCircleSize: 0,
            axes: { x: axis(false), y: axis(true) }, animatedZooms: false, resizable: "passive",
            underlayCallback: (context, area) => this.drawUnder(context, area),
        });
        this.observer = new ResizeObserver(() => {
            if (this.element.clientWidth > 0 && this.element.clientHeight > 0) {
                this.graph.resize();
                this.redraw();
            }
        });
        this.observer.observe(this.element);
    }

    drawUnder(context, area) {
        const scene = this.scene, [low, high] = this.shownX(), [bottom, top] = this.shownY();
        const px = (x) => area.x + (this.toAxis(x) - low) / (high - low) * area.w;
        const py = (y, [from, to] = [bottom, top]) => area.y + area.h - (y - from) / (to - from) * area.h;
        context.save();
        context.beginPath();
        context.rect(area.x, area.y, area.w, area.h);
        context.clip();
        for (const band of scene.bands ?? [])
            this.drawBand(context, area, Math.max(area.x, px(band.from)), Math.min(area.x + area.w, px(band.to)), band);
        this.drawGhosts(context, px, py);
        this.drawInvalid(context, px, py);
        for (const line of scene.under ?? [])
            strokeLine(context, line, (i) => px(line.xs[i]), (i) => py(line.ys[i], line.scale));
        this.drawMarks(context, area, px, py);
        context.restore();
    }

    drawBand(context, area, left, right, { text, unseen }) {
        if (right < left)
            return;
        const width = Math.max(1.5, right - left);
        context.fillStyle = theme().well;
        context.fillRect(left, area.y, width, area.h);
        if (!unseen) {
            context.fillStyle = hatch(context, theme().invalid);
            context.fillRect(left, area.y, width, area.h);
        }
        context.font = "11px system-ui, sans-serif";
        if (context.measureText(text).width + 8 < width) {
            context.fillStyle = unseen ? theme().muted : theme().bad;
            context.fillText(text, left + 5, area.y + 30);
        }
    }

    /* The values of invalid points, as what they are: grey and dashed. */
    drawInvalid(context, px, py) {
        const { mask, curves } = this.scene;
        if (!mask)
            return;
        const [from, to] = this.visible();
        for (const curve of curves) {
            const ys = Float32Array.from(curve.values);
            for (let i = 0; i < ys.length; i++)
                if (!(mask[i] || mask[i - 1] || mask[i + 1]) || mask[i] === NOTHING)
                    ys[i] = NaN;
            const kept = reduce(ys, from, to, Math.max(64, this.area().w));
            strokeLine(context, { ys: kept, colour: theme().muted, dash: [3, 3] },
                (k) => px(this.fromAxis(this.xOfReduced(k, from, to, kept.length))), (k) => py(kept[k]));
        }
    }

    drawGhosts(context, px, py) {
        const ghosts = this.scene.ghosts ?? [], [from, to] = this.visible();
        ghosts.forEach((ghost, age) => {
            context.globalAlpha = 0.08 + 0.3 * (age + 1) / ghosts.length;
            ghost.forEach((values, c) => {
                if (values.length !== this.points() || !this.scene.curves[c])
                    return;
                const kept = reduce(values, from, to, Math.max(64, this.area().w));
                strokeLine(context, { ys: kept, colour: this.scene.curves[c].colour },
                    (k) => px(this.fromAxis(this.xOfReduced(k, from, to, kept.length))), (k) => py(kept[k]));
            });
        });
        context.globalAlpha = 1;
    }

    drawMarks(context, area, px, py) {
        context.font = "11px system-ui, sans-serif";
        context.lineWidth = 1;
        context.setLineDash([5, 4]);
        const rows = new TextRows();
        for (const mark of sortedMarks(this.scene)) {
            context.strokeStyle = context.fillStyle = mark.colour ?? theme().accent;
            const x = Math.round(px(mark.x)) + 0.5;
            context.beginPath();
            context.moveTo(x, area.y);
            context.lineTo(x, area.y + area.h);
            context.stroke();
            context.fillText(mark.text ?? "", x + 4, area.y + area.h - 6 - 13 * rows.take(x, context.measureText(mark.text ?? "").width));
        }
        for (const mark of this.scene.levels ?? []) {
            context.strokeStyle = context.fillStyle = mark.colour ?? theme().accent;
            const y = Math.round(py(mark.y)) + 0.5;
            context.beginPath();
            context.moveTo(area.x, y);
            context.lineTo(area.x + area.w, y);
            context.stroke();
            context.fillText(mark.text ?? "", area.x + area.w - context.measureText(mark.text ?? "").width - 4, y - 4);
        }
        context.setLineDash([]);
    }

    /* On a canvas of its own: dygraphs clips its own to the plot. */
    drawLabels() {
        const area = this.area(), [low, high] = this.shownX(), [bottom, top] = this.shownY(), rows = this.shownRows;
        const wanted = gutter(this.scene.curves, area.h) > 0, xs = wanted ? rows.map((row) => row[0]) : [];
        const end = (c) => lineEnd(xs, rows.map((row) => row[c + 1] ?? NaN), low, high);
        setHidden(this.labelCanvas, !wanted);
        this.labels = !wanted ? [] : placeLabels(this.scene.curves.map(({ label, colour, dash }, c) => (
            { label, colour, dash, end: area.y + area.h - (end(c) - bottom) / (top - bottom) * area.h })), area);
        if (!wanted)
            return;
        const { context, width, height } = fitCanvas(this.labelCanvas);
        context.clearRect(0, 0, width, height);
        context.font = "600 11px system-ui, sans-serif";
        context.textAlign = "center";
        context.textBaseline = "middle";
        for (const label of this.labels)
            strokeLine(context, { ys: [label.end, label.y], colour: label.colour, dash: label.dash }, (i) => [area.x + area.w, label.x][i], (i) => [label.end, label.y][i]);
        for (const { text, colour, x, y, w, h: high_ } of this.labels) {
            context.fillStyle = theme().panel;
            context.strokeStyle = colour;
            context.fillRect(x - w / 2, y - high_ / 2, w, high_);
            context.strokeRect(x - w / 2, y - high_ / 2, w, high_);
            context.fillStyle = theme().text;
            context.fillText(text, x, y + 0.5);
        }
    }

    /* ---- cursors: {name: x or null} ---- */

    setCursors(cursors) {
        for (const [name, x] of Object.entries(cursors)) {
            if (!this.cursors[name])
                this.cursors[name] = this.makeCursor(name);
            this.cursors[name].x = x;
        }
        this.placeCursors();
    }

    makeCursor(name) {
        const element = h("div", { class: `cursor cursor-${name}`, hidden: true }, h("span", {}, name.toUpperCase()));
        const move = (event) => {
            const x = this.gestures.toX(event.clientX - this.layer.getBoundingClientRect().left);
            this.options.oncursor?.(name, this.fromAxis(x));
        };
        element.addEventListener("pointerdown", (event) => {
            event.preventDefault();
            element.setPointerCapture(event.pointerId);
            element.addEventListener("pointermove", move);
        });
        element.addEventListener("pointerup", () => element.removeEventListener("pointermove", move));
        element.addEventListener("pointercancel", () => element.removeEventListener("pointermove", move));
        this.layer.append(element);
        return { element, x: null };
    }

    placeCursors() {
        const area = this.area(), [low, high] = this.shownX();
        for (const cursor of Object.values(this.cursors)) {
            const share = cursor.x === null || !this.scene ? -1 : (this.toAxis(cursor.x) - low) / (high - low);
            cursor.element.hidden = !(share >= 0 && share <= 1);
            cursor.element.style.transform = `translateX(${area.x + share * area.w}px)`;
            cursor.element.style.height = `${area.y + area.h}px`;
        }
    }

    /* The value of a curve at x, by linear interpolation; NaN where it is invalid. */
    valueAt(curve, x) {
        const { x0, dx, xs, mask } = this.scene;
        let at = (x - x0) / dx;
        if (xs) {
            let right = xs.findIndex((v) => v >= x);
            right = right < 0 ? xs.length - 1 : Math.max(1, right);
            at = right - 1 + (x - xs[right - 1]) / (xs[right] - xs[right - 1]);
        }
        if (Math.abs(at - Math.round(at)) < 1e-6)
            at = Math.round(at);
        if (mask && (mask[Math.floor(at)] || mask[Math.ceil(at)]))
            return NaN;
        return interpolate(this.scene.curves[curve].values, at);
    }

    /* What is shown, for export (draw/figure.js). */
    figure(title = "") {
        const [low, high] = this.shownX(), rows = this.scene ? this.rows() : [];
        return {
            title, window: [low, high], range: this.shownY(), yUnit: this.yAxis?.unit ?? "",
            xTicks: (width) => this.ticker(low, high, width, false),
            yTicks: (height) => this.ticker(...this.shownY(), height, true),
            bands: (this.scene?.bands ?? []).map((band) => ({ ...band, from: this.toAxis(band.from), to: this.toAxis(band.to) })),
            curves: (this.scene?.curves ?? []).map((curve, c) => ({ name: curve.name, colour: curve.colour, dash: curve.dash, label: curve.label, key: curve.key,
                xs: rows.map((row) => row[0]), ys: rows.map((row) => row[c + 1] ?? NaN) })),
            under: (this.scene?.under ?? []).map((line) => ({ ...line, xs: Array.from(line.xs, (x) => this.toAxis(x)) })),
            marks: sortedMarks(this.scene).map((mark) => ({ ...mark, x: this.toAxis(mark.x) })), levels: this.scene?.levels ?? [],
            cursors: Object.entries(this.cursors).filter(([, c]) => c.x !== null).map(([name, c]) => ({ name: name.toUpperCase(), x: this.toAxis(c.x) })),
        };
    }

    close() {
        this.observer?.disconnect();
        this.graph?.destroy();
        this.element.remove();
    }
}

function sortedMarks(scene) {
    return [...scene?.marks ?? []].sort((a, b) => a.x - b.x);
}

function strokeLine(context, { ys, colour, dash, width }, px, py) {
    context.strokeStyle = colour;
    context.lineWidth = width ?? 1;
    context.setLineDash(dash ?? []);
    context.beginPath();
    let down = false;
    for (let i = 0; i < ys.length; i++) {
        if (!Number.isFinite(ys[i])) {
            down = false;
            continue;
        }
        if (down)
            context.lineTo(px(i), py(i));
        else
            context.moveTo(px(i), py(i));
        down = true;
    }
    context.stroke();
    context.setLineDash([]);
}
