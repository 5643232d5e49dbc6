/*
 * Latency: where the time of a block goes, stage by stage; load, rate error and losses over the
 * last ten minutes, from the status that comes twice a second.
 */
import { h, setText } from "../ui/dom.js";
import { LinePlot } from "../draw/plot.js";
import { drawHistograms } from "../draw/histograms.js";
import { channelColour, theme } from "../draw/palette.js";
import { lossesOf } from "../model/history.js";
import { ceil125, extremes } from "../model/scale.js";
import { count, nanoseconds, plain, signedFixed, trimmed } from "../model/units.js";

const QUANTILES = ["p50", "p90", "p99", "p99.9", "max"];
const STAGES = ["accumulate", "ingest", "wait", "device", "egress", "total"];
const CURVES = [
    { name: "load", title: "Load", unit: "%", factor: 100, least: 1 },
    { name: "p99", title: "Latency, 99 %", unit: "s", factor: 1e-9, least: 1e-6 },
    { name: "ppm", title: "Rate against the nominal one", unit: "ppm", factor: 1, least: 1, signed: true },
    { name: "lossRate", title: "Frames lost", unit: "frames/s", factor: 1, least: 1 },
];

class LatencyView {
    constructor(app, host) {
        this.app = app;
        this.canvas = h("canvas", { role: "img", "aria-label": "histograms of latency by stage" });
        this.body = h("tbody", {});
        this.facts = h("tbody", {});
        const head = h("tr", {}, h("th", {}, "stage"), QUANTILES.map((q) => h("th", { class: "number" }, q)), h("th", { class: "number" }, "blocks"));
        host.append(
            h("section", { class: "panel" }, h("h3", {}, "Latency by stage"), h("div", { class: "histograms" }, this.canvas),
                h("p", { class: "caption legend" }, "line: median · dashed: 99 % · dotted: 99.9 % · triangle: largest · heights: square root of the share")),
            h("div", { class: "columns" },
                h("section", { class: "panel" }, h("h3", {}, "Figures"), h("div", { class: "scroll" }, h("table", { class: "data" }, h("thead", {}, head), this.body))),
                h("section", { class: "panel" }, h("h3", {}, "Blocks, rate and losses"), h("div", { class: "scroll" }, h("table", { class: "data" }, this.facts)))));
        const columns = h("div", { class: "columns" });
        host.append(columns);
        this.plots = CURVES.map((curve) => {
            const box = h("div", { class: "small-plot" }), note = h("span", { class: "note" });
            columns.append(h("section", { class: "panel plot-panel" }, h("div", { class: "heading" }, h("h3", {}, curve.title), note), box));
            return { ...curve, note, plot: new LinePlot(box, { label: `${curve.title} over time` }) };
        });
        this.listeners = new AbortController();
        const on = (type, take) => app.addEventListener(type, take, { signal: this.listeners.signal });
        on("status", () => { this.dirty = !app.paused; });
        on("theme", () => { this.dirty = true; });
        this.resize = new ResizeObserver(() => { this.dirty = true; });
        this.resize.observe(this.canvas);
        this.dirty = true;
    }

    parametersChanged() {
        this.dirty = true;
    }

    stages(stream) {
        const latency = stream.latency_ns ?? {};
        return [...STAGES, ...Object.keys(latency).filter((name) => !STAGES.includes(name))].filter((name) => latency[name]).map((name) => [name, latency[name]]);
    }

    draw() {
        const stream = this.app.stream();
        if (!this.dirty || !stream)
            return false;
        this.dirty = false;
        this.drawn = this.taken(stream);
        const { stages, bounds, series } = this.drawn;
        drawHistograms(this.canvas, stages, bounds);
        this.writeRows(this.body, stages.map(([name, histogram]) => [name, ...QUANTILES.map((q) => histogram.count > 0 ? nanoseconds(histogram[q]) : "–"), count(histogram.count)]));
        this.writeRows(this.facts, this.factRows(this.drawn.stream));
        this.plots.forEach((shown, i) => series && this.drawCurve(shown, series[i], i));
        return true;
    }

    /* What is drawn of a stream: the latest, or what was drawn before as long as the page is paused. */
    taken(stream) {
        if (this.app.paused && this.drawn?.stream.name === stream.name)
            return this.drawn;
        const { status, histories } = this.app, history = histories.get(stream.name);
        return { stream, stages: this.stages(stream), bounds: status.histogram_bounds_ns ?? null, realtimeNs: status.realtime_ns,
            series: history && CURVES.map((curve) => history.series(curve.name)) };
    }

    factRows(stream) {
        const rows = [
            ["rate", `${trimmed(stream.measured_rate_hz ?? stream.rate_hz, 9)} Hz (nominal ${trimmed(stream.rate_hz, 9)} Hz)`],
            ["rate error, jitter", `${stream.rate_ppm !== undefined && stream.rate_ppm !== null ? `${signedFixed(stream.rate_ppm, 2)} ppm` : "–"}, ${nanoseconds(stream.jitter_ns)}`],
            ["filter's delay", `${trimmed(stream.delay_frames ?? NaN, 9)} frames = ${nanoseconds(1e9 * stream.delay_frames / stream.rate_hz)}`],
            ["load, worst", `${plain(100 * stream.load, 3)} %, ${plain(100 * stream.load_worst, 3)} %`],
            ["input ring filled", `${plain(100 * stream.buffer_fill, 3)} %`],
            ["deadlines missed", count(stream.deadline_misses)],
            ["frames received", count(stream.frames_in?.received)],
            ["invalid frames", count(stream.invalid_frames)],
        ];
        for (const [cause, frames] of Object.entries(lossesOf(stream)))
            if (frames > 0)
                rows.push([`lost: ${cause}`, `${count(frames)} frames`]);
        return rows;
    }

    writeRows(body, rows) {
        while (body.rows.length > rows.length)
            body.deleteRow(-1);
        rows.forEach((cells, r) => {
            const row = body.rows[r] ?? body.insertRow();
            cells.forEach((text, c) => {
                const cell = row.cells[c] ?? row.insertCell();
                cell.className = c > 0 ? "number" : "";
                setText(cell, text);
            });
        });
    }

    drawCurve(shown, { xs, ys }, i) {
        if (xs.length < 2)
            return;
        const values = ys.map((y) => y * shown.factor), [low, high] = extremes([values.filter(Number.isFinite)], null);
        const top = ceil125(Math.max(shown.least, high * 1.05, shown.signed ? -low * 1.05 : 0));
        const last = values[values.length - 1];
        setText(shown.note, Number.isFinite(last) ? shown.unit === "s" ? nanoseconds(last * 1e9) : `${plain(last, 3)} ${shown.unit}` : "–");
        shown.plot.show({ xs, curves: [{ name: shown.title, values, colour: channelColour(i), width: 1.5 }], mask: null, bands: [],
            range: [shown.signed && low < 0 ? -top : 0, top], xUnit: "s", yUnit: shown.unit, levels: shown.name === "load" && top >= 100 ? [{ y: 100, text: "real time", colour: theme().bad }] : [] });
    }

    exported() {
        const stream = this.drawn?.stream;
        if (!stream || this.plots.some((shown) => !shown.plot.scene))
            return null;
        return { name: `convolvd-${stream.name}-latency`, title: `${stream.name}: load, latency, rate, losses`,
            facts: { stream: stream.name, time: new Date(this.drawn.realtimeNs / 1e6).toISOString() },
            columns: [{ name: "time [s]", values: this.plots[0].plot.scene.xs }, ...this.plots.map(({ title, unit, plot }) => ({ name: `${title} [${unit}]`, values: plot.scene.curves[0].values }))],
            panels: [{ image: this.canvas, height: 1200 * this.canvas.clientHeight / this.canvas.clientWidth }, ...this.plots.map((shown) => shown.plot.figure(shown.title))] };
    }

    close() {
        this.listeners.abort();
        this.resize.disconnect();
        for (const shown of this.plots)
            shown.plot.close();
    }
}

export const latency = { id: "latency", title: "Latency", parameters: {}, create: (app, host) => new LatencyView(app, host) };
