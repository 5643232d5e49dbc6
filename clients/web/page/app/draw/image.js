/*
 * A rolling image on a canvas: waterfall and B-scan. Rows of values go in, the newest is drawn at
 * the top; colours by draw/palette.js between two limits. A missing row is hatched, never invented.
 */
import { h, fitCanvas } from "../ui/dom.js";
import { linearTicks, reduce } from "../model/scale.js";
import { spectrumColumns } from "../model/spectrum.js";
import { Gestures } from "./gestures.js";
import { hatch, IMAGE_MAP, theme } from "./palette.js";

const SCALE_PX = 10;

export class RollingImage {
    /*
     * options: {label, rows (kept), area() → {x, w} of the plot above, x() → [low, high] shown,
     * setX(window or null), index(x) → fractional point of an axis position, logX() → bool,
     * rowText(age) → text of the vertical axis, onclick(x, row age)}
     */
    constructor(host, options) {
        this.options = options;
        this.rows = [];
        this.canvas = h("canvas", { class: "image-canvas" });
        this.layer = h("div", { class: "plot-layer" });
        this.element = h("div", { class: "image", role: "img", "aria-label": options.label }, this.canvas, this.layer);
        host.append(this.element);
        this.buffer = document.createElement("canvas");
        this.limits = [-100, 0];
        this.total = 0;
        this.gestures = new Gestures(this.layer, {
            area: () => this.area(), x: options.x, setX: options.setX,
            y: () => null, setY: () => {},
            click: (x, _, event) => options.onclick?.(x, this.rowAt(event.clientY)),
        });
        this.observer = new ResizeObserver(() => this.draw());
        this.observer.observe(this.element);
    }

    area() {
        const { x, w } = this.options.area();
        return { x, y: 4, w, h: Math.max(1, this.canvas.clientHeight - 22) };
    }

    rowAt(clientY) {
        const area = this.area(), y = clientY - this.canvas.getBoundingClientRect().top - area.y;
        return Math.floor(y / area.h * this.options.rows);
    }

    /* values: Float32Array, or null for a row that is missing; mask: invalid points or null. */
    push(values, mask, facts) {
        this.rows.unshift({ values, mask, facts });
        this.total++;
        if (this.rows.length > this.options.rows)
            this.rows.length = this.options.rows;
    }

    clear() {
        this.rows = [];
        this.draw();
    }

    /* The limits that the newest rows ask for: the top from the largest, `span` below it. */
    autoLimits(span) {
        let high = -Infinity;
        for (const row of this.rows.slice(0, 60))
            if (row.values)
                for (let i = 1; i < row.values.length; i++)
                    if (row.values[i] > high)
                        high = row.values[i];
        if (Number.isFinite(high)) {
            const top = Math.ceil(high / 10) * 10;
            this.limits = [top - span, top];
        }
    }

    pixelsOf(row, columns, low, high) {
        const from = this.options.index(low), to = this.options.index(high);
        const logarithmic = this.options.logX?.() ?? false;
        if (to - from <= columns || logarithmic)
            return spectrumColumns(row.values, Math.max(from, logarithmic ? 0.5 : 0), to, columns, logarithmic);
        const pairs = reduce(row.values, Math.max(0, Math.floor(from)), Math.min(row.values.length, Math.ceil(to)), columns);
        const pixels = new Float32Array(columns);
        for (let c = 0; c < columns; c++)
            pixels[c] = Math.max(pairs[2 * c], pairs[2 * c + 1]);
        return pairs.length === 2 * columns ? pixels : spectrumColumns(row.values, from, to, columns, false);
    }

    draw() {
        if (this.element.clientWidth === 0)
            return;
        const { context, width, height } = fitCanvas(this.canvas), area = this.area();
        const columns = Math.max(1, Math.round(area.w)), [low, high] = this.options.x();
        context.clearRect(0, 0, width, height);
        context.fillStyle = theme().well;
        context.fillRect(area.x, area.y, area.w, area.h);
        this.paint(columns, low, high);
        context.imageSmoothingEnabled = false;
        if (this.rows.length > 0)
            context.drawImage(this.buffer, 0, 0, columns, this.rows.length, area.x, area.y, area.w, area.h * this.rows.length / this.options.rows);
        this.drawMissing(context, area);
        this.drawAxes(context, area);
    }

    paint(columns, low, high) {
        const count = this.rows.length;
        if (count === 0)
            return;
        if (this.buffer.width !== columns || this.buffer.height !== this.options.rows) {
            this.buffer.width = columns;
            this.buffer.height = this.options.rows;
        }
        const context = this.buffer.getContext("2d"), image = context.createImageData(columns, count);
        const pixels = new Uint32Array(image.data.buffer), [bottom, top] = this.limits, scale = 255 / (top - bottom);
        this.rows.forEach((row, r) => {
            if (!row.values)
                return;
            const key = `${columns} ${low} ${high}`;
            if (row.key !== key) {
                row.pixels = this.pixelsOf(row, columns, low, high);
                row.key = key;
            }
            for (let c = 0, at = r * columns; c < columns; c++, at++) {
                const level = (row.pixels[c] - bottom) * scale;
                pixels[at] = level === level ? IMAGE_MAP[level <= 0 ? 0 : level >= 255 ? 255 : level | 0] : 0;
            }
        });
        context.putImageData(image, 0, 0);
    }

    drawMissing(context, area) {
        const [low, high] = this.options.x(), from = this.options.index(low), to = this.options.index(high);
        const each = area.h / this.options.rows;
        context.fillStyle = hatch(context, theme().invalid);
        this.rows.forEach((row, r) => {
            if (!row.values)
                context.fillRect(area.x, area.y + r * each, area.w, Math.max(1, each));
            for (const range of row.mask ?? []) {
                const left = Math.max(0, (range.first - from) / (to - from));
                const right = Math.min(1, (range.first + range.points - from) / (to - from));
                if (right > left)
                    context.fillRect(area.x + left * area.w, area.y + r * each, (right - left) * area.w, Math.max(1, each));
            }
        });
    }

    drawAxes(context, area) {
        if (this.rows.length === 0)
            return;
        context.fillStyle = theme().muted;
        context.font = "11px system-ui, sans-serif";
        context.textAlign = "right";
        context.textBaseline = "middle";
        for (const age of linearTicks(0, this.options.rows, Math.max(2, area.h / 40)))
            context.fillText(this.options.rowText(age), area.x - 6, area.y + Math.min(area.h - 5, Math.max(5, age / this.options.rows * area.h)));
        const [bottom, top] = this.limits, y = area.y + area.h + 6, w = Math.min(180, area.w / 2), left = area.x + area.w - w - 44;
        for (let i = 0; i < w; i++) {
            const colour = IMAGE_MAP[Math.round(i / w * 255)];
            context.fillStyle = `rgb(${colour & 255} ${colour >> 8 & 255} ${colour >> 16 & 255})`;
            context.fillRect(left + i, y, 1.5, SCALE_PX);
        }
        context.fillStyle = theme().muted;
        context.fillText(String(Math.round(bottom)).replace("-", "−"), left - 5, y + SCALE_PX / 2);
        context.textAlign = "left";
        context.fillText(`${String(Math.round(top)).replace("-", "−")} dB`, left + w + 5, y + SCALE_PX / 2);
    }

    /* For export (draw/figure.js): what is on the canvas. */
    figure() {
        const { x, w } = this.area(), width = this.canvas.clientWidth;
        return { image: this.canvas, height: 1200 * this.canvas.clientHeight / Math.max(1, width), area: { x, w, width } };
    }

    close() {
        this.observer.disconnect();
        this.element.remove();
    }
}
