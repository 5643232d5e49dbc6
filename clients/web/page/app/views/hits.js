/*
 * Hits: how many and when, two features against each other, the distribution of amplitudes, and
 * the hit that was clicked: its transient with first and last frame, peak and arrival, and all of
 * its values. Below, what the hits of each channel add up to, as the daemon's status says.
 */
import { h, setText } from "../ui/dom.js";
import { Controls } from "../ui/controls.js";
import { plotPanel } from "../ui/panel.js";
import { LinePlot } from "../draw/plot.js";
import { PointPlot } from "../draw/points.js";
import { channelColour, channelMark, MARKS, theme } from "../draw/palette.js";
import { distributionOf, fieldLabel, hitMarks, historyOf, valueOf } from "../model/analysis.js";
import { ceil125, extremes } from "../model/scale.js";
import { clockTime, count, plain } from "../model/units.js";
import { AnalysisSource, analysisControl, StandStill, ValueList } from "./analysis.js";

const BINS = 240, MAX_CHANNELS = 64, POINTS = 5000;
const SPANS = [[10, "10 s"], [60, "1 min"], [600, "10 min"], [3600, "1 h"], [36000, "10 h"]];
const AXES = ["time", "channel", "peak_db", "duration_us", "rise_us", "counts", "energy_eu", "peak_khz", "average_khz", "rms", "margin_db"];

/* Of each channel: the title of a column and the member of the status; null: the channel. */
const TOTALS = [["channel", null], ["hits/s", "events_per_s"], ["hits", "events"], ["counts/s", "counts_per_s"], ["counts", "counts"],
    ["energy [eu/s]", "energy_eu_per_s"], ["energy [eu]", "energy_eu"],
    ["strength [nVs/s]", "strength_nvs_per_s"], ["strength [nVs]", "strength_nvs"]];

const PARAMETERS = {
    analysis: { type: "text", default: "" },
    channels: { type: "channels", default: [], high: MAX_CHANNELS },
    x: { type: "text", default: "duration_us" },
    y: { type: "text", default: "peak_db" },
    span: { type: "number", default: 60, low: 1, high: 36000 },
    hit: { type: "number", default: null },
};

class HitsView {
    constructor(app, host) {
        this.app = app;
        this.makeControls(host);
        const columns = h("div", { class: "quarters" });
        host.append(columns);
        const panel = (title) => plotPanel(columns, title);
        this.historyPanel = panel("History");
        this.history = new LinePlot(this.historyPanel.element, { label: "hits a second over time" });
        this.scatterPanel = panel("Features");
        this.scatter = new PointPlot(this.scatterPanel.element, { label: "two features of each hit", onpick: (event) => this.pick(event) });
        this.amplitudePanel = panel("Amplitudes");
        this.amplitudes = new LinePlot(this.amplitudePanel.element, { label: "hits by amplitude" });
        this.transientPanel = panel("Transient");
        this.transient = new LinePlot(this.transientPanel.element, { label: "transient of the chosen hit" });
        this.values = new ValueList(host, "Values of the chosen hit");
        this.totals = h("tbody", {});
        host.append(h("section", { class: "panel scroll", "aria-label": "Rates and sums of each channel" },
            h("table", { class: "data" }, h("thead", {}, h("tr", {}, TOTALS.map(([title, name]) => h("th", { class: name === null ? "" : "number" }, title)))), this.totals)));
        this.listeners = new AbortController();
        const on = (type, take) => app.addEventListener(type, take, { signal: this.listeners.signal });
        on("status", () => {
            this.controls.sync();
            this.writeTotals();
        });
        on("theme", () => { this.dirty = this.repaint = true; });
        this.source = new AnalysisSource(app, ["hit"], () => { this.dirty = true; });
        this.still = new StandStill(app);
        this.syncAnalysis = analysisControl(this.controls, this.source);
    }

    makeControls(host) {
        const c = this.controls = new Controls(this.app, host), axes = AXES.map((name) => [name, fieldLabel({ name }).label]);
        c.select("span", "Shown", SPANS.map(([s, text]) => [String(s), text]), { write: Number });
        c.select("x", "Across", axes);
        c.select("y", "Up", axes);
        c.channels("channels", { most: MAX_CHANNELS, colourOf: channelColour, count: () => this.source?.chosen()?.channels ?? 0, nameOf: (i) => `${i + 1}` });
        c.button("All channels", "hits of every channel", () => this.app.set({ channels: [] }));
    }

    shown() {
        const { channels } = this.app.parameters;
        return this.source.events(channels.length > 0 ? channels : null);
    }

    parametersChanged(names) {
        this.controls.sync();
        if (names.has("analysis") || names.has("channels"))
            this.still.forget();
        if (names.has("x") || names.has("y") || names.has("analysis"))
            this.scatter.zoom(null, null);
        this.dirty = true;
    }

    async pick(event) {
        this.chosenEvent = event;
        this.app.set({ hit: event.number });
        this.values.write(event, this.source.chosen()?.fields ?? Object.keys(event.values ?? {}).map((name) => ({ name })));
        const answer = await this.source.samples(event);
        if (this.chosenEvent !== event)
            return;
        this.wave = answer.ok ? { event, rateHz: answer.rate_hz, first: answer.first_sample, unit: answer.unit, values: answer.values } : null;
        this.transientPanel.alert(answer.ok ? "" : answer.error);
        this.dirty = true;
    }

    writeTotals() {
        const analysis = this.source.chosen(), stream = this.app.status?.streams?.find((s) => s.name === analysis?.stream);
        const totals = stream?.analyses?.find((a) => a.name === analysis.name)?.totals ?? [], { channels } = this.app.parameters;
        const row = (total, i) => h("tr", {}, TOTALS.map(([, name]) => name === null ? h("th", {}, `${i + 1}`)
            : h("td", { class: "number" }, ["events", "counts"].includes(name) ? count(total[name]) : plain(total[name], 5))));
        const rows = totals.map((total, i) => ({ total, i })).filter(({ i }) => channels.length === 0 || channels.includes(i + 1));
        this.totals.replaceChildren(...rows.slice(0, MAX_CHANNELS).map(({ total, i }) => row(total, i)));
    }

    draw(now) {
        this.syncAnalysis();
        const analysis = this.source.chosen();
        if (!analysis) {
            this.historyPanel.alert(this.source.refusal ?? "no analysis of type hits is configured");
            return false;
        }
        this.historyPanel.alert("");
        /* The right edge moves with time though no hit comes. */
        if (!this.dirty && now - (this.drawnAt ?? 0) < 1000)
            return false;
        if (this.app.paused && !this.repaint)
            return false;
        this.dirty = this.repaint = false;
        this.drawnAt = now;
        const { events, endNs } = this.still.of(this.shown()), { span } = this.app.parameters;
        const inside = events.filter((event) => event.arrival_ns > endNs - span * 1e9);
        this.drawHistory(events, endNs, span);
        this.drawScatter(inside, endNs);
        this.drawAmplitudes(inside);
        this.drawTransient();
        return true;
    }

    drawHistory(events, endNs, span) {
        const { xs, rate, total } = historyOf(events, endNs, span, BINS), most = ceil125(Math.max(1e-9, ...rate) * 1.05), last = total.at(-1) || 1;
        this.history.show({ xs, span: [-span, 0], curves: [{ name: "hits a second", values: rate, colour: theme().accent }], xUnit: "s", yUnit: "1/s", range: [0, most],
            under: [{ name: "sum", xs, ys: total, colour: theme().muted, dash: [6, 4], scale: [0, last * 1.05] }] });
        const missed = this.app.analysisEvents.missed;
        this.historyPanel.note(`${count(events.length)} hits kept here · dashed: their sum${missed > 0 ? ` · ${count(missed)} left out here, not in files` : ""}`);
    }

    drawScatter(events, endNs) {
        const { x, y } = this.app.parameters, points = [];
        for (const event of events.slice(-POINTS)) {
            const px = valueOf(event, x, endNs), py = valueOf(event, y, endNs);
            if (Number.isFinite(px) && Number.isFinite(py))
                points.push({ x: px, y: py, colour: channelColour(event.channel - 1), mark: channelMark(event.channel - 1), ring: (event.flags ?? []).length > 0, data: event,
                    radius: event === this.chosenEvent ? 6.5 : 3.2 });
        }
        const range = (get) => {
            const [low, high] = extremes([Float64Array.from(points, get)], null);
            const step = Number.isFinite(low) ? ceil125(Math.max(high - low, 1e-9) / 8) : 1;
            return Number.isFinite(low) ? [Math.floor(low / step - 0.2) * step, Math.ceil(high / step + 0.2) * step] : [0, 1];
        };
        const label = (name) => {
            const { label: text, unit } = fieldLabel({ name });
            return name === "time" ? "seconds before now" : unit ? `${text} [${unit}]` : text;
        };
        this.scatter.show({ points, xRange: range((p) => p.x), yRange: range((p) => p.y), xLabel: label(x), yLabel: label(y) });
        const channels = [...new Set(points.map((point) => point.data.channel))].sort((a, b) => a - b);
        const marks = channels.length > 1 && channels.length <= 16 ? ` · channel ${channels.map((channel) => `${MARKS[channelMark(channel - 1)]} ${channel}`).join("  ")}` : "";
        this.scatterPanel.note(`${count(points.length)} hits${marks} · hollow: flagged (cut, timeout, saturated …) · click one`);
    }

    drawAmplitudes(events) {
        const { xs, each, above } = distributionOf(events.map((event) => valueOf(event, "peak_db")));
        if (xs.length === 0) {
            this.amplitudePanel.note("no hit in this time");
            return;
        }
        const most = Math.max(...each);
        this.amplitudes.show({ xs, span: [xs[0] - 1, xs.at(-1) + 1], curves: [{ name: "hits", values: each, colour: theme().accent }], xUnit: "dB", yUnit: "hits", range: [0, ceil125(most * 1.05)],
            under: [{ name: "at this level or above", xs, ys: above.map((n) => Math.log10(Math.max(n, 1))), colour: theme().muted, dash: [6, 4], scale: [0, Math.log10(Math.max(above[0], 10)) * 1.05] }] });
        this.amplitudePanel.note("each dB · dashed: this level or above, logarithmic");
    }

    drawTransient() {
        if (!this.wave) {
            this.transientPanel.note("click a hit above");
            return;
        }
        const { event, rateHz, first, unit, values } = this.wave, [low, high] = extremes([values], null);
        const size = ceil125(Math.max(Math.abs(low), Math.abs(high), 1e-12) * 1.05), threshold = event.values?.threshold;
        this.transient.show({ x0: first / rateHz, dx: 1 / rateHz, curves: [{ name: `channel ${event.channel}`, values, colour: channelColour(event.channel - 1) }],
            xUnit: "s", yUnit: unit, range: [-size, size], marks: hitMarks(event, rateHz),
            levels: Number.isFinite(threshold) ? [{ y: threshold, text: "threshold" }, { y: -threshold, text: "" }] : [] });
        setText(this.transientPanel.element.querySelector("h3"), `Hit ${event.number}, channel ${event.channel}`);
        const flags = [...(event.flags ?? []), ...(event.causes ?? [])].join(", ");
        this.transientPanel.note(`${clockTime(event.arrival_ns)} · epoch ${event.epoch}, frame ${count(event.frame)}${flags ? ` · ${flags}` : ""}`);
    }

    exported() {
        const { events } = this.still.of(this.shown()), analysis = this.source.chosen();
        if (!analysis || events.length === 0)
            return null;
        const fields = (analysis.fields ?? []).map((field) => field.name);
        const columns = ["number", "channel", "epoch", "frame"].map((name) => ({ name, values: events.map((event) => event[name]) }));
        columns.push({ name: "arrival_ns", values: events.map((event) => String(event.arrival_ns)) });
        for (const name of fields)
            columns.push({ name, values: events.map((event) => valueOf(event, name)) });
        columns.push({ name: "flags", values: events.map((event) => (event.flags ?? []).join(" ")) });
        return { name: `convolvd-${analysis.name}-hits`, title: `${analysis.name}: hits`, facts: { analysis: analysis.name, hits: events.length, left_out: this.app.analysisEvents.missed },
            columns, numeric: false, panels: [this.history.figure("history"), this.scatter.figure(),
                ...[[this.amplitudes, "amplitudes"], [this.transient, "transient"]].filter(([plot]) => plot.scene).map(([plot, title]) => plot.figure(title))] };
    }

    close() {
        this.listeners.abort();
        this.source.close();
        for (const plot of [this.history, this.scatter, this.amplitudes, this.transient])
            plot.close();
    }
}

export const hits = { id: "hits", title: "Hits", kind: "hit", parameters: PARAMETERS, create: (app, host) => new HitsView(app, host) };
