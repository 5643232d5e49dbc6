/*
 * Spectrum: averaged power density from convolv-web, in dB re unit²/Hz or linear, the frequency
 * axis linear or logarithmic; the largest held, the filter's response on its own scale, the
 * largest line named, and a waterfall of the first channel.
 */
import { h } from "../ui/dom.js";
import { Controls } from "../ui/controls.js";
import { CURSOR_PARAMETERS, Cursors } from "../ui/cursors.js";
import { plotPanel } from "../ui/panel.js";
import { LinePlot } from "../draw/plot.js";
import { RollingImage } from "../draw/image.js";
import { legendText } from "../draw/labels.js";
import { channelColour, channelDash, theme } from "../draw/palette.js";
import { ask } from "../wire/commands.js";
import { bandRms, densityDb, holdLargest, largestLine } from "../model/spectrum.js";
import { extremes, StickyRange } from "../model/scale.js";
import { clockTime, plain, si, trimmed } from "../model/units.js";

const MAX_CHANNELS = 8, ROWS = 300, RESPONSE_SPAN_DB = 120;

const PARAMETERS = {
    channels: { type: "channels", default: [1], high: MAX_CHANNELS },
    side: { type: "choice", choices: ["output", "input"], default: "output" },
    fft: { type: "number", default: 4096, low: 256, high: 65536 },
    average: { type: "number", default: 16, low: 1, high: 1000 },
    window: { type: "choice", choices: ["hann", "flat-top", "blackman-harris", "rectangular"], default: "hann" },
    scale: { type: "choice", choices: ["db", "linear"], default: "db" },
    log: { type: "flag", default: false },
    hold: { type: "flag", default: false },
    response: { type: "flag", default: true },
    waterfall: { type: "flag", default: true },
    span: { type: "number", default: 80, low: 20, high: 200 },
    zoom: { type: "span", default: null },
    ...CURSOR_PARAMETERS,
};

class SpectrumView {
    constructor(app, host) {
        this.app = app;
        this.makeControls(host);
        this.stage = h("div", { class: "stage" });
        host.append(this.stage);
        this.panel = plotPanel(this.stage, "Power density");
        this.cursors = new Cursors(app, host, { xUnit: "Hz", extras: ["largest line", "RMS of the span"], plots: () => [this.plot], rows: () => this.rows() });
        this.plot = new LinePlot(this.panel.element, { label: "power density over frequency", onzoom: (window) => app.set({ zoom: window }), ...this.cursors.handlers() });
        this.fallPanel = plotPanel(this.stage, "Waterfall");
        this.fall = new RollingImage(this.fallPanel.element, {
            label: "power density over frequency and time", rows: ROWS, area: () => this.plot.area(), x: () => this.plot.shownX(),
            setX: (window) => this.plot.setWindow(window), index: (x) => this.plot.fromAxis(x) / (this.picture?.step ?? 1),
            logX: () => this.app.parameters.log, rowText: (age) => this.rowText(age),
            onclick: (x) => this.cursors.place("a", this.plot.fromAxis(x)),
        });
        this.range = new StickyRange({ symmetric: false });
        this.held = [];
        this.keys = [...this.cursors.keys, ["l", "linear or logarithmic frequency", () => app.set({ log: !app.parameters.log })],
            ["h", "hold the largest", () => app.set({ hold: !app.parameters.hold })]];
        this.listeners = new AbortController();
        const on = (type, take) => app.addEventListener(type, take, { signal: this.listeners.signal });
        on("status", () => this.sync());
        on("role", () => this.loadResponse());
        on("theme", () => { this.dirty = true; });
        this.pictureAt = performance.now();
        this.wanted = "";
    }

    makeControls(host) {
        const c = this.controls = new Controls(this.app, host);
        c.segments("side", "Side", [["input", "input"], ["output", "output"]]);
        c.select("fft", "FFT", [256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536].map((n) => [String(n), String(n)]), { write: Number });
        c.select("average", "Averages", [1, 4, 16, 64, 256].map((n) => [String(n), String(n)]), { write: Number });
        c.select("window", "Window", [["hann", "Hann"], ["flat-top", "flat top"], ["blackman-harris", "Blackman–Harris"], ["rectangular", "none"]]);
        c.segments("scale", "Density", [["db", "dB"], ["linear", "linear"]]);
        c.segments("log", "Frequency", [[false, "linear"], [true, "log"]]);
        c.toggle("hold", "Hold", { title: "hold the largest of each bin (h)" });
        c.toggle("response", "Response", { title: "the filter's response over it" });
        c.toggle("waterfall", "Waterfall");
        c.channels("channels", { most: MAX_CHANNELS, colourOf: channelColour, count: () => this.app.channelCount(this.app.stream(), this.app.parameters.side),
            nameOf: (i) => this.app.channel(this.app.stream(), i, this.app.parameters.side).name });
    }

    sync() {
        const p = this.app.parameters, stream = this.app.stream();
        this.controls.sync();
        this.fallPanel.element.hidden = !p.waterfall;
        if (!stream)
            return;
        const total = this.app.channelCount(stream, p.side), channels = p.channels.filter((channel) => channel <= total);
        const spec = { stream: stream.name, view: "spectrum", side: p.side, channels: channels.length > 0 ? channels : [1],
            fft: p.fft, average: p.average, window: p.window };
        const key = JSON.stringify(spec), filter = stream.filter;
        if (this.responseOf !== JSON.stringify([stream.name, filter?.as_configured === false ? { filter: filter.name } : {}]))
            this.loadResponse();
        if (key === this.wanted)
            return;
        this.wanted = key;
        this.channels = spec.channels;
        if (this.id !== undefined)
            this.app.link.drop(this.id);
        this.picture = null;
        this.units = null;
        this.refusal = null;
        this.held = [];
        this.range.reset();
        this.fall.clear();
        this.id = this.app.link.want(spec, { picture: (picture) => this.take(picture), refused: (text) => { this.refusal = text; },
            granted: (message) => { this.units = message.unit; } });
    }

    async loadResponse() {
        const stream = this.app.streamName();
        if (!stream || !this.app.commands?.has("response"))
            return;
        const now = this.app.stream()?.filter, exchanged = now?.as_configured === false ? { filter: now.name } : {};
        this.responseOf = JSON.stringify([stream, exchanged]);
        const answer = await ask("response", { stream, ...exchanged });
        if (stream !== this.app.streamName())
            return;
        this.responses = answer.ok ? (answer.filters ?? []).filter((filter) => filter.magnitude_db).map((filter) => ({ ...filter,
            frequencies: filter.magnitude_db.map((_, i) => filter.first_hz + i * filter.step_hz) })) : [];
        this.dirty = true;
    }

    take(picture) {
        const gap = performance.now() - this.pictureAt;
        if (this.picture && gap > 2500)
            this.fall.push(null, null, {});
        this.picture = picture;
        this.pictureAt = performance.now();
        this.db = picture.values.map(densityDb);
        if (this.app.parameters.hold)
            this.held = picture.values.map((values, i) => holdLargest(this.held[i], values));
        else
            this.held = [];
        this.fall.push(this.db[0], null, { captureNs: picture.captureNs });
        this.refusal = null;
        this.dirty = true;
    }

    unit(i = 0) {
        return this.units?.[i] ?? this.app.channel(this.app.stream(), this.channels[i] - 1, this.app.parameters.side).unit;
    }

    densityUnit() {
        const unit = this.unit();
        return this.app.parameters.scale === "db" ? `dB re ${/[/ ]/.test(unit) ? `(${unit})` : unit}²/Hz` : `${/[/ ]/.test(unit) ? `(${unit})` : unit}²/Hz`;
    }

    name(i) {
        return `${this.app.parameters.side} ${this.app.channel(this.app.stream(), this.channels[i] - 1, this.app.parameters.side).name}`;
    }

    key(i) {
        return legendText(this.channels[i], this.app.channel(this.app.stream(), this.channels[i] - 1, this.app.parameters.side).name, this.name(i));
    }

    scene(now) {
        const p = this.app.parameters, decibel = p.scale === "db", shown = decibel ? this.db : this.picture.values;
        const curves = shown.map((values, i) => ({ name: this.name(i), key: this.key(i), label: String(this.channels[i]), values, colour: channelColour(this.channels[i] - 1), dash: channelDash(this.channels[i] - 1) }));
        this.held.forEach((values, i) => curves.push({ name: `${this.name(i)} held`, key: `${this.key(i)} held`, label: String(this.channels[i]), values: decibel ? densityDb(values) : values,
            colour: channelColour(this.channels[i] - 1), dash: [2, 3], width: 1 }));
        let [low, high] = extremes(curves.map((curve) => curve.values.subarray(1)), null);
        if (decibel)
            low = Math.max(low, high - 160);
        else
            low = 0;
        const under = p.response ? (this.responses ?? []).slice(0, 4).map((filter, i) => ({ name: filter.name, xs: filter.frequencies, ys: filter.magnitude_db,
            colour: theme().muted, dash: i === 0 ? [6, 4] : [2, 3], scale: [-RESPONSE_SPAN_DB, 6], width: 1.5 })) : [];
        return { x0: 0, dx: this.picture.step, curves, under, range: this.range.update(low, high, now), yUnit: this.densityUnit(), xUnit: "Hz", logX: p.log };
    }

    draw(now) {
        this.cursors.read(now);
        const age = now - this.pictureAt, p = this.app.parameters;
        this.panel.alert(this.refusal ?? (!this.app.paused && age > 3000 ? "no data" : ""));
        if (!this.dirty || !this.picture)
            return false;
        this.dirty = false;
        this.plot.show(this.scene(now));
        const complete = this.picture.complete ? "" : `${this.picture.averages} of ${p.average} averages · `;
        const under = this.plot.scene.under.map((line) => line.name).join(", ");
        this.panel.note(`${complete}${trimmed(this.picture.step, 5)} Hz a bin · ${clockTime(this.picture.captureNs)}${under ? ` · dashed: response of ${under}, 6 to −${RESPONSE_SPAN_DB} dB` : ""}`);
        if (p.waterfall) {
            this.fall.autoLimits(p.span);
            this.fallPanel.note(`${this.name(0)} · newest on top`);
            this.fall.draw();
        }
        return true;
    }

    rowText(age) {
        const newest = this.fall.rows[0]?.facts?.captureNs, row = this.fall.rows[Math.min(this.fall.rows.length - 1, Math.round(age))];
        return age === 0 ? "0 s" : row?.facts?.captureNs && age < this.fall.rows.length ? `${plain((row.facts.captureNs - newest) / 1e9, 3)}` : "";
    }

    rows() {
        if (!this.picture || !this.plot.scene)
            return [];
        const p = this.app.parameters, decibel = p.scale === "db", [low, high] = this.plot.shownX().map((x) => this.plot.fromAxis(x));
        const step = this.picture.step, from = Math.max(0, Math.floor(low / step));
        return this.plot.scene.curves.map((curve, i) => {
            const c = i % this.channels.length, db = this.db[c].subarray(from, Math.ceil(high / step) + 1);
            const line = db.length > 3 ? largestLine(db) : null;
            return { name: curve.key, colour: curve.colour, unit: this.densityUnit(), plot: this.plot, curve: i,
                format: (value, difference) => decibel ? `${value.toFixed(2).replace("-", "−")} ${difference ? "dB" : this.densityUnit()}` : `${plain(value, 4)} ${this.densityUnit()}`,
                extra: [line ? `${si((from + line.bin) * step, "Hz", 6)}, ${line.db.toFixed(1).replace("-", "−")} dB` : "–", si(bandRms(this.picture.values[c], step, low, high), this.unit(c), 4)] };
        });
    }

    parametersChanged(names) {
        if (names.has("stream") || names.has("log") || names.has("side"))
            this.app.set({ zoom: null });
        const zoom = this.app.parameters.zoom;
        if (this.plot.scene)
            this.plot.scene.logX = this.app.parameters.log;
        this.plot.window = zoom && zoom.map((x) => this.app.parameters.log ? Math.log10(Math.max(x, 1e-12)) : x);
        this.sync();
        this.range.reset();
        this.cursors.sync();
        this.dirty = true;
    }

    exported() {
        if (!this.picture || !this.plot.scene)
            return null;
        const stream = this.app.streamName(), picture = this.picture, p = this.app.parameters;
        const facts = { stream, side: p.side, fft: p.fft, averages: picture.averages, window: p.window, rate: `${picture.rateHz} Hz`, unit: this.densityUnit(),
            time: new Date(picture.captureNs / 1e6).toISOString() };
        const columns = [{ name: "frequency [Hz]", values: Float64Array.from({ length: picture.points }, (_, i) => i * picture.step) },
            ...this.plot.scene.curves.map((curve) => ({ name: `${curve.name} [${this.densityUnit()}]`, values: curve.values }))];
        const panels = [this.plot.figure()];
        if (p.waterfall)
            panels.push(this.fall.figure());
        return { name: `convolvd-${stream}-spectrum`, title: `${stream}: power density`, facts, columns, panels };
    }

    close() {
        this.listeners.abort();
        if (this.id !== undefined)
            this.app.link.drop(this.id);
        this.plot.close();
        this.fall.close();
    }
}

export const spectrum = { id: "spectrum", title: "Spectrum", parameters: PARAMETERS, create: (app, host) => new SpectrumView(app, host) };
