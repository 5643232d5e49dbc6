/*
 * Gates and Vibration: the newest event of one channel with what it was read from, an averaged
 * A-scan with its gates or an envelope spectrum with the lines of the bearing; all of its values;
 * and one of them over time.
 */
import { h } from "../ui/dom.js";
import { Controls } from "../ui/controls.js";
import { CURSOR_PARAMETERS, Cursors } from "../ui/cursors.js";
import { plotPanel } from "../ui/panel.js";
import { LinePlot } from "../draw/plot.js";
import { channelColour, theme } from "../draw/palette.js";
import { fieldLabel, valueOf } from "../model/analysis.js";
import { extremes, StickyRange } from "../model/scale.js";
import { clockTime, count, plain } from "../model/units.js";
import { AnalysisSource, analysisControl, StandStill, ValueList } from "./analysis.js";

const TREND = 2000, ASK_MS = 250;

const PARAMETERS = {
    analysis: { type: "text", default: "" },
    channels: { type: "channels", default: [1], high: 1 },
    value: { type: "text", default: "" },
    zoom: { type: "span", default: null },
    ...CURSOR_PARAMETERS,
};

class TraceView {
    /* what: {kind, title, xUnit, axis(answer, event) → {x0, dx}, marks(event, settings), none} */
    constructor(app, host, what) {
        this.app = app;
        this.what = what;
        const c = this.controls = new Controls(app, host);
        c.channels("channels", { most: 1, colourOf: channelColour, count: () => this.source?.chosen()?.channels ?? 0, nameOf: (i) => `${i + 1}` });
        c.select("value", "Over time", [], { read: (value) => this.valueShown(value) });
        this.valueSelect = host.querySelector("select[name=value]");
        this.stage = h("div", { class: "stage" });
        host.append(this.stage);
        this.panel = plotPanel(this.stage, what.title);
        this.cursors = new Cursors(app, host, { xUnit: what.xUnit, inverse: what.xUnit === "s", plots: () => [this.plot], rows: () => this.rows() });
        this.plot = new LinePlot(this.panel.element, { label: what.title, onzoom: (window) => app.set({ zoom: window }), ...this.cursors.handlers() });
        this.trendPanel = plotPanel(this.stage, "Over time");
        this.trend = new LinePlot(this.trendPanel.element, { label: "one value over time" });
        this.values = new ValueList(host, "Values");
        this.range = new StickyRange({ symmetric: what.xUnit === "s" });
        this.keys = [...this.cursors.keys];
        this.askedAt = -Infinity;
        this.listeners = new AbortController();
        const on = (type, take) => app.addEventListener(type, take, { signal: this.listeners.signal });
        on("theme", () => { this.dirty = this.repaint = true; });
        on("status", () => this.controls.sync());
        this.source = new AnalysisSource(app, [what.kind], () => { this.dirty = true; });
        this.still = new StandStill(app);
        this.syncAnalysis = analysisControl(this.controls, this.source);
    }

    events() {
        return this.source.events(this.app.parameters.channels);
    }

    /* The one of the URL where there is such a field, else the first. */
    valueShown(value) {
        const names = [...this.valueSelect?.options ?? []].map((option) => option.value);
        return names.includes(value) ? value : names[0] ?? "";
    }

    /* The fields that make a curve over time. */
    syncValues(fields) {
        const names = fields.map((field) => field.name);
        if ([...this.valueSelect.options].map((o) => o.value).join() === names.join())
            return;
        this.valueSelect.replaceChildren(...fields.map((field) => new Option(fieldLabel(field).label, field.name)));
        this.valueSelect.value = this.valueShown(this.app.parameters.value);
    }

    async fetchTrace(event) {
        this.asked = event;
        const answer = await this.source.samples(event);
        if (this.asked !== event)
            return;
        this.refusal = answer.ok ? "" : answer.error;
        if (answer.ok)
            this.trace = { event, answer, values: answer.values };
        this.dirty = true;
    }

    draw(now) {
        this.syncAnalysis();
        this.cursors.read(now);
        const analysis = this.source.chosen();
        this.panel.alert(!analysis ? this.source.refusal ?? this.what.none : this.refusal ?? "");
        if (!analysis || (this.app.paused && !this.repaint))
            return false;
        const newest = this.events().at(-1);
        if (!this.app.paused && newest && newest !== this.asked && now - this.askedAt > ASK_MS) {
            this.askedAt = now;
            this.fetchTrace(newest);
        }
        if (!this.dirty)
            return false;
        this.dirty = this.repaint = false;
        this.syncValues(analysis.fields ?? []);
        this.drawTrace(analysis, now);
        this.drawTrend(analysis);
        if (newest && !this.app.paused)
            this.values.write(newest, (analysis.fields ?? []).filter((field) => (newest.values?.[field.name] ?? null) !== null));
        return true;
    }

    drawTrace(analysis, now) {
        if (!this.trace)
            return;
        if (!this.app.paused || !this.drawn)
            this.drawn = this.trace;
        const { event, answer, values } = this.drawn, { x0, dx } = this.what.axis(answer, event);
        const marks = this.what.marks(event, analysis.settings ?? {}), [low, high] = extremes([values, ...(marks.under ?? []).map((line) => line.ys)], null);
        this.plot.show({ x0, dx, curves: [{ name: `channel ${event.channel}`, values, colour: channelColour(event.channel - 1) }], xUnit: this.what.xUnit, yUnit: answer.unit ?? "",
            range: this.range.update(this.what.xUnit === "s" ? low : 0, high, now), ...marks });
        const flags = [...(event.flags ?? []), ...(event.causes ?? [])].join(", ");
        this.panel.note(`${clockTime(event.arrival_ns)} · channel ${event.channel} · number ${count(event.number)}${flags ? ` · ${flags}` : ""}`);
    }

    drawTrend(analysis) {
        const field = (analysis.fields ?? []).find((f) => f.name === this.valueSelect.value);
        const events = this.still.of(this.events()).events.slice(-TREND);
        if (!field || events.length < 2)
            return;
        const endNs = events.at(-1).arrival_ns, xs = Float64Array.from(events, (event) => (event.arrival_ns - endNs) / 1e9);
        const values = Float32Array.from(events, (event) => valueOf(event, field.name)), [low, high] = extremes([values], null);
        if (!Number.isFinite(low))
            return this.trendPanel.note(`${fieldLabel(field).label} is undefined here`);
        const margin = high > low ? Math.max((high - low) * 0.08, Math.abs(high) * 1e-6) : Math.max(Math.abs(high) * 0.1, 1e-12);
        this.trend.show({ xs, curves: [{ name: field.name, values, colour: theme().accent }], xUnit: "s", yUnit: fieldLabel(field).unit, range: [low - margin, high + margin] });
        this.trendPanel.note(`${fieldLabel(field).label}: ${plain(values.at(-1), 5)} ${fieldLabel(field).unit} now`);
    }

    rows() {
        if (!this.trace || !this.plot.scene)
            return [];
        const { event, answer } = this.trace;
        return [{ name: `channel ${event.channel}`, colour: channelColour(event.channel - 1), unit: answer.unit ?? "", plot: this.plot, curve: 0, extra: [] }];
    }

    parametersChanged(names) {
        this.controls.sync();
        if (names.has("channels") || names.has("analysis")) {
            this.trace = this.drawn = null;
            this.still.forget();
            this.asked = null;
            this.range.reset();
        }
        this.plot.window = this.app.parameters.zoom;
        this.cursors.sync();
        this.dirty = true;
    }

    exported() {
        if (!this.drawn)
            return null;
        const { event, answer, values } = this.drawn, { x0, dx } = this.what.axis(answer, event);
        const facts = { analysis: event.analysis, channel: event.channel, number: event.number, arrival_ns: String(event.arrival_ns),
            ...Object.fromEntries(Object.entries(event.values ?? {}).filter(([, value]) => value !== null)) };
        return { name: `convolvd-${event.analysis}-${event.number}`, title: `${event.analysis}: ${this.what.title}`, facts, panels: [this.plot.figure(), ...(this.trend.scene ? [this.trend.figure(fieldLabel({ name: this.trend.scene.curves[0].name }).label)] : [])],
            columns: [{ name: this.what.xUnit === "s" ? "time [s]" : "frequency [Hz]", values: Float64Array.from(values, (_, i) => x0 + i * dx) }, { name: `channel ${event.channel}`, values }] };
    }

    close() {
        this.listeners.abort();
        this.source.close();
        this.plot.close();
        this.trend.close();
    }
}

/* Gates as bars at their level over the time they cover; the echo each has found as a mark. */
function gateMarks(event, settings) {
    const marks = [], under = [];
    (settings.gates ?? []).forEach((gate, i) => {
        const name = gate.name ?? `${i + 1}`, found = event.values?.[`time_us_${i + 1}`];
        const after = gate.after ? event.values?.[`time_us_${gate.after}`] : 0, level = gate.levels?.[event.channel - 1];
        if (!Number.isFinite(after) || !Number.isFinite(level))
            return; // it starts from an echo that is not there
        const start = (after + gate.start_us) * 1e-6, end = start + gate.width_us * 1e-6;
        under.push({ name: `gate ${name}`, xs: [start, end], ys: [level, level], colour: theme().warn, width: 3 });
        if (Number.isFinite(found))
            marks.push({ x: found * 1e-6, text: name });
    });
    return { marks, levels: [], under };
}

/* The bearing's frequencies, where the event has them: BPFO, BPFI, BSF, FTF and the shaft's. */
function lineMarks(event) {
    const marks = [];
    for (const [name, value] of Object.entries(event.values ?? {})) {
        const match = /^(bpfo|bpfi|bsf|ftf|shaft|speed)_hz$/.exec(name);
        if (match && Number.isFinite(value) && value > 0)
            marks.push({ x: value, text: match[1].toUpperCase() });
    }
    return { marks };
}

const GATES = { kind: "ascan", title: "A-scan with gates", xUnit: "s", none: "no analysis of type ascan is configured",
    axis: (answer, event) => ({ x0: (event.values?.start_us ?? 0) * 1e-6, dx: 1 / answer.rate_hz }), marks: gateMarks };
const VIBRATION = { kind: "condition", title: "Envelope spectrum", xUnit: "Hz", none: "no analysis of type vibration is configured",
    axis: (answer, event) => ({ x0: 0, dx: event.values?.bin_hz ?? 1 }), marks: lineMarks };

export const gates = { id: "gates", title: "Gates", kind: "ascan", parameters: PARAMETERS, create: (app, host) => new TraceView(app, host, GATES) };
export const vibration = { id: "vibration", title: "Vibration", kind: "condition", parameters: PARAMETERS, create: (app, host) => new TraceView(app, host, VIBRATION) };
