/*
 * A plot of points on a canvas: scatter diagrams and maps. What is shown is one scene:
 *
 *   {points: [{x, y, colour, mark, radius, ring, data}]   mark: of MARKS; ring: hollow; drawn in order
 *    xRange, yRange: [low, high]; equal: one scale on both axes (a map)
 *    xLabel, yLabel, shapes(context, px, py): draws under the points}
 *
 * Zoom belongs to the plot (a double click shows all); a click picks the nearest point.
 */
import { h, fitCanvas } from "../ui/dom.js";
import { linearTicks } from "../model/scale.js";
import { Gestures } from "./gestures.js";
import { theme } from "./palette.js";

const LEFT = 58, RIGHT = 12, TOP = 8, BOTTOM = 34, NEAR_PX = 14, FIGURE_PX = 1200;

/* Corners on a circle around the middle: [how many, angle of the first, every second one's radius]. */
const OUTLINES = [null, [4, 45, 1], [4, 0, 1], [3, -90, 1], [3, 90, 1], [3, 180, 1], [3, 0, 1], [10, -90, 0.45]];

/* The corners of a mark of radius 1; null: a circle. */
export function markCorners(mark) {
    if (OUTLINES[mark] === null)
        return null;
    const [count, first, inner] = OUTLINES[mark];
    return Array.from({ length: count }, (_, i) => {
        const angle = (first + i * 360 / count) * Math.PI / 180, radius = i % 2 === 1 ? inner : 1;
        return [radius * Math.cos(angle), radius * Math.sin(angle)];
    });
}

/* The outline of a mark, which covers about what a circle of that radius does. */
function outline(context, mark, x, y, radius) {
    const corners = markCorners(mark), reach = radius * (corners?.length === 3 ? 1.5 : 1.3);
    context.beginPath();
    if (corners === null) {
        context.arc(x, y, radius, 0, 2 * Math.PI);
        return;
    }
    for (const [dx, dy] of corners)
        context.lineTo(x + reach * dx, y + reach * dy);
    context.closePath();
}

export class PointPlot {
    /* options: {label, onpick(data)} */
    constructor(host, options) {
        this.options = options;
        this.canvas = h("canvas", { class: "image-canvas" });
        this.layer = h("div", { class: "plot-layer" });
        this.element = h("div", { class: "plot", role: "img", "aria-label": options.label }, this.canvas, this.layer);
        host.append(this.element);
        this.scene = null;
        this.window = null;
        this.yWindow = null;
        this.gestures = new Gestures(this.layer, {
            area: () => this.area(), x: () => this.shown()[0], setX: (window) => this.zoom(window, this.yWindow),
            y: () => this.shown()[1], setY: (window) => this.zoom(this.window, window),
            click: (x, y, event) => this.pick(event),
        });
        this.observer = new ResizeObserver(() => this.draw());
        this.observer.observe(this.element);
    }

    area() {
        return { x: LEFT, y: TOP, w: Math.max(1, this.canvas.clientWidth - LEFT - RIGHT), h: Math.max(1, this.canvas.clientHeight - TOP - BOTTOM) };
    }

    /* [x range, y range]; of a map the smaller scale holds for both. */
    shown() {
        const scene = this.scene, area = this.area();
        if (!scene)
            return [[0, 1], [0, 1]];
        let x = this.window ?? scene.xRange, y = this.yWindow ?? scene.yRange;
        if (scene.equal) {
            const scale = Math.max((x[1] - x[0]) / area.w, (y[1] - y[0]) / area.h);
            const around = ([low, high], pixels) => [(low + high - scale * pixels) / 2, (low + high + scale * pixels) / 2];
            x = around(x, area.w);
            y = around(y, area.h);
        }
        return [x, y];
    }

    zoom(x, y) {
        this.window = x && x[1] > x[0] ? x : null;
        this.yWindow = y && y[1] > y[0] ? y : null;
        this.draw();
    }

    show(scene) {
        this.scene = scene;
        this.draw();
    }

    mapping() {
        const area = this.area(), [[x0, x1], [y0, y1]] = this.shown();
        return { px: (x) => area.x + (x - x0) / (x1 - x0) * area.w, py: (y) => area.y + area.h - (y - y0) / (y1 - y0) * area.h };
    }

    pick(event) {
        const box = this.canvas.getBoundingClientRect(), { px, py } = this.mapping();
        const cx = event.clientX - box.left, cy = event.clientY - box.top;
        let nearest = null, least = NEAR_PX * NEAR_PX;
        for (const point of this.scene?.points ?? []) {
            const distance = (px(point.x) - cx) ** 2 + (py(point.y) - cy) ** 2;
            if (distance <= least) {
                least = distance;
                nearest = point;
            }
        }
        if (nearest)
            this.options.onpick?.(nearest.data);
    }

    draw() {
        if (!this.scene || this.element.clientWidth === 0)
            return;
        const { context, width, height } = fitCanvas(this.canvas);
        context.clearRect(0, 0, width, height);
        this.paint(context);
    }

    paint(context) {
        const area = this.area(), { px, py } = this.mapping();
        this.drawAxes(context, area, px, py);
        context.save();
        context.beginPath();
        context.rect(area.x, area.y, area.w, area.h);
        context.clip();
        this.scene.shapes?.(context, px, py);
        for (const { x, y, colour, mark = 0, radius = 2.5, ring } of this.scene.points) {
            outline(context, mark, px(x), py(y), radius);
            context.fillStyle = context.strokeStyle = colour;
            context.lineWidth = 1.5;
            if (ring)
                context.stroke();
            else
                context.fill();
        }
        context.restore();
    }

    drawAxes(context, area, px, py) {
        const [[x0, x1], [y0, y1]] = this.shown();
        context.font = "11px system-ui, sans-serif";
        context.lineWidth = 1;
        for (const [low, high, across] of [[x0, x1, true], [y0, y1, false]])
            for (const tick of linearTicks(low, high, Math.max(2, (across ? area.w / 90 : area.h / 36)))) {
                context.strokeStyle = theme().grid;
                context.beginPath();
                context.moveTo(across ? px(tick) : area.x, across ? area.y : py(tick));
                context.lineTo(across ? px(tick) : area.x + area.w, across ? area.y + area.h : py(tick));
                context.stroke();
                context.fillStyle = theme().muted;
                context.textAlign = across ? "center" : "right";
                context.textBaseline = across ? "top" : "middle";
                context.fillText(String(tick).replace("-", "−"), across ? px(tick) : area.x - 6, across ? area.y + area.h + 4 : py(tick));
            }
        context.textAlign = "center";
        context.textBaseline = "bottom";
        context.fillText(this.scene.xLabel ?? "", area.x + area.w / 2, area.y + area.h + BOTTOM - 1);
        context.textAlign = "left";
        context.textBaseline = "top";
        context.fillText(this.scene.yLabel ?? "", area.x + 5, area.y + 3);
    }

    /* For export (draw/figure.js): what is on the canvas, drawn anew for the picture's width. */
    figure() {
        const { clientWidth, clientHeight } = this.canvas, scale = FIGURE_PX / Math.max(1, clientWidth), image = document.createElement("canvas");
        image.width = 2 * FIGURE_PX;
        image.height = Math.max(1, Math.round(2 * scale * clientHeight));
        const context = image.getContext("2d");
        context.scale(2 * scale, 2 * scale);
        if (this.scene)
            this.paint(context);
        return { image, height: scale * clientHeight };
    }

    close() {
        this.observer.disconnect();
        this.element.remove();
    }
}
