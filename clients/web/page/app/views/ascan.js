/*
 * A-scan and B-scan: records, or periods of a given length, averaged by convolv-web; the newest as
 * a curve with gate and cursors, and all of them stacked as an image of the envelope in dB.
 */
import { h } from "../ui/dom.js";
import { Controls } from "../ui/controls.js";
import { CURSOR_PARAMETERS, Cursors } from "../ui/cursors.js";
import { plotPanel } from "../ui/panel.js";
import { LinePlot } from "../draw/plot.js";
import { RollingImage } from "../draw/image.js";
import { channelColour, theme } from "../draw/palette.js";
import { band, invalidMask } from "../wire/picture.js";
import { envelope } from "../model/fft.js";
import { gatePeak } from "../model/gate.js";
import { extremes, StickyRange } from "../model/scale.js";
import { clockTime, count, decibels, signedFixed, si } from "../model/units.js";

const MAX_FRAMES = 65536;

const PARAMETERS = {
    channels: { type: "channels", default: [1], high: 1 },
    side: { type: "choice", choices: ["output", "input"], default: "output" },
    frames: { type: "number", default: 2000, low: 64, high: MAX_FRAMES },
    period: { type: "number", default: null, low: 1e-6, high: 1000 },
    average: { type: "number", default: 1, low: 1, high: 10000 },
    scan: { type: "choice", choices: ["rf", "envelope", "db"], default: "rf" },
    rows: { type: "number", default: 200, low: 20, high: 1000 },
    span: { type: "number", default: 60, low: 10, high: 160 },
    gate: { type: "span", default: null },
    zoom: { type: "span", default: null },
    ...CURSOR_PARAMETERS,
};

class AscanView {
    constructor(app, host) {
        this.app = app;
        this.makeControls(host);
        this.stage = h("div", { class: "stage" });
        host.append(this.stage);
        this.panel = plotPanel(this.stage, "A-scan");
        this.cursors = new Cursors(app, host, { xUnit: "s", inverse: true, extras: ["in the gate", "at"], plots: () => [this.plot], rows: () => this.rows() });
        this.plot = new LinePlot(this.panel.element, { label: "the newest A-scan", onzoom: (window) => app.set({ zoom: window }), ...this.cursors.handlers() });
        this.stack = plotPanel(this.stage, "B-scan");
        this.makeImage();
        this.range = new StickyRange();
        this.keys = [...this.cursors.keys, ["g", "gate from cursor A to cursor B, or none", () => this.toggleGate()], ["x", "clear the B-scan", () => this.clear()]];
        this.listeners = new AbortController();
        const on = (type, take) => app.addEventListener(type, take, { signal: this.listeners.signal });
        on("status", () => this.sync());
        on("theme", () => { this.dirty = true; });
        this.pictureAt = performance.now();
        this.wanted = "";
    }

    makeImage() {
        this.image?.close();
        this.image = new RollingImage(this.stack.element, {
            label: "A-scans stacked, the newest on top", rows: this.app.parameters.rows, area: () => this.plot.area(), x: () => this.plot.shownX(),
            setX: (window) => this.plot.setWindow(window), index: (x) => x * (this.picture?.rateHz ?? 1), rowText: (age) => String(age),
            onclick: (x, row) => this.pick(x, row),
        });
    }

    makeControls(host) {
        const c = this.controls = new Controls(this.app, host);
        c.segments("side", "Side", [["input", "input"], ["output", "output"]]);
        c.quantity("frames", "Frames", { low: 64, high: MAX_FRAMES, integer: true });
        c.quantity("period", "Period", { unit: "s", low: 1e-6, high: 1000, optional: true, placeholder: "records" });
        c.select("average", "Averages", [1, 2, 4, 8, 16, 32, 64, 128, 256].map((n) => [String(n), String(n)]), { write: Number });
        c.segments("scan", "A-scan", [["rf", "RF"], ["envelope", "envelope"], ["db", "dB"]]);
        c.select("span", "B-scan", [20, 40, 60, 80, 100].map((n) => [String(n), `${n} dB`]), { write: Number });
        c.select("rows", "Scans", [50, 100, 200, 400, 800].map((n) => [String(n), String(n)]), { write: Number });
        this.gateButton = c.button("Gate", "A gate from cursor A to cursor B (g)", () => this.toggleGate());
        c.button("Clear", "Clear the B-scan (x)", () => this.clear());
        c.channels("channels", { most: 1, colourOf: channelColour, count: () => this.app.channelCount(this.app.stream(), this.app.parameters.side),
            nameOf: (i) => this.app.channel(this.app.stream(), i, this.app.parameters.side).name });
    }

    toggleGate() {
        const { a, b, gate } = this.app.parameters;
        if (gate)
            return this.app.set({ gate: null });
        if (a !== null && b !== null && a !== b)
            return this.app.set({ gate: [Math.min(a, b), Math.max(a, b)] });
        const [low, high] = this.plot.shownX();
        this.app.set({ gate: [low + (high - low) * 0.3, low + (high - low) * 0.5] });
    }

    clear() {
        this.image.clear();
        this.image.total = 0;
    }

    /* In frames of the side shown: as asked for, else that of the generator's bursts; null: records. */
    periodFrames(stream) {
        const { period, side } = this.app.parameters, rate = side === "output" ? stream.output_rate_hz : stream.rate_hz;
        if (period !== null)
            return Math.round(period * (rate || 48000));
        const bursts = stream.excitation?.period_frames;
        return bursts ? Math.round(side === "output" ? bursts : bursts * stream.rate_hz / stream.output_rate_hz) : null;
    }

    sync() {
        const p = this.app.parameters, stream = this.app.stream();
        this.controls.sync();
        this.gateButton.setAttribute("aria-pressed", String(p.gate !== null));
        if (!stream)
            return;
        const period = this.period = this.periodFrames(stream), own = p.period === null && period !== null;
        const spec = { stream: stream.name, view: "ascan", side: p.side, channels: p.channels,
            frames: own ? Math.min(p.frames, period) : p.frames, period, average: p.average };
        const key = JSON.stringify(spec);
        if (key === this.wanted)
            return;
        this.wanted = key;
        if (this.id !== undefined)
            this.app.link.drop(this.id);
        this.picture = null;
        this.units = null;
        this.refusal = null;
        this.range.reset();
        this.clear();
        this.id = this.app.link.want(spec, { picture: (picture) => this.take(picture), refused: (text) => { this.refusal = text; },
            granted: (message) => { this.units = message.unit; } });
    }

    take(picture) {
        /* A record is an epoch of its own: between two of them nothing is missing. */
        if (this.picture && this.picture.epoch !== picture.epoch && this.period !== null)
            this.image.push(null, null, {});
        this.picture = picture;
        this.pictureAt = performance.now();
        this.invalid = picture.ranges.length > 0 ? invalidMask(picture, this.app.causes) : null;
        this.envelope = envelope(picture.values[0]);
        this.db = this.envelope.map((value) => Math.max(-400, decibels(value)));
        this.image.push(this.db, picture.ranges, { first: picture.first, captureNs: picture.captureNs });
        this.refusal = null;
        this.dirty = true;
    }

    unit() {
        return this.units?.[0] ?? this.app.channel(this.app.stream(), this.app.parameters.channels[0] - 1, this.app.parameters.side).unit;
    }

    shown() {
        return { rf: this.picture.values[0], envelope: this.envelope, db: this.db }[this.app.parameters.scan];
    }

    scene(now) {
        const p = this.app.parameters, values = this.shown(), dx = 1 / this.picture.rateHz, channel = p.channels[0] - 1;
        let [low, high] = extremes([values], this.invalid);
        if (p.scan === "db")
            low = Math.max(low, high - 1.3 * p.span);
        this.range.symmetric = p.scan === "rf";
        if (p.scan === "envelope")
            low = 0;
        const colour = channelColour(channel), curves = [{ name: `${p.side} ${this.app.channel(this.app.stream(), channel, p.side).name}`, values, colour }];
        const bands = this.picture.ranges.map((r) => band(r, 0, dx, this.app.causes));
        const marks = p.gate ? [{ x: p.gate[0], text: "gate", colour: theme().good }, { x: p.gate[1], text: "", colour: theme().good }] : [];
        return { x0: 0, dx, curves, mask: this.invalid, bands, marks, range: this.range.update(low, high, now), xUnit: "s",
            yUnit: p.scan === "db" ? `dB re 1 ${this.unit()}` : this.unit() };
    }

    draw(now) {
        this.cursors.read(now);
        const p = this.app.parameters;
        const waiting = this.period === null ? "waiting for records (give a period where the sender marks none)" : "no data";
        this.panel.alert(this.refusal ?? (!this.app.paused && now - this.pictureAt > 3000 ? waiting : ""));
        if (!this.dirty || !this.picture)
            return false;
        this.dirty = false;
        this.plot.show(this.scene(now));
        this.panel.note(`${p.average > 1 ? `${this.picture.averages} of ${p.average} averages · ` : ""}frame ${count(this.picture.first)} · ${clockTime(this.picture.captureNs)}`);
        this.image.autoLimits(p.span);
        this.stack.note(this.pickedText() ?? `envelope in dB re 1 ${this.unit()} · ${count(this.image.total)} scans · newest on top`);
        this.image.draw();
        return true;
    }

    rows() {
        if (!this.plot.scene || !this.picture)
            return [];
        const { gate, scan } = this.app.parameters, decibel = scan === "db", unit = this.unit();
        const format = (value) => decibel ? `${signedFixed(value, 2)} dB` : si(value, unit, 4);
        const curve = this.plot.scene.curves[0], peak = gate ? gatePeak(this.shown(), this.picture.rateHz, gate, this.invalid, !decibel) : null;
        return [{ name: curve.name, colour: curve.colour, unit, plot: this.plot, curve: 0, format, extra: peak ? [format(peak.value), si(peak.seconds, "s", 6)] : ["–", "–"] }];
    }

    /* A click into the B-scan: the cursor, and what that scan was, as long as it is shown. */
    pick(x, row) {
        const scan = this.image.rows[row];
        this.picked = scan?.values ? { scan, x } : null;
        this.dirty = true;
        this.cursors.place("a", x);
    }

    pickedText() {
        const age = this.picked ? this.image.rows.indexOf(this.picked.scan) : -1;
        if (age < 0)
            return null;
        const { scan, x } = this.picked, value = scan.values[Math.round(x * this.picture.rateHz)];
        return `scan −${age}: frame ${count(scan.facts.first)}, ${clockTime(scan.facts.captureNs)}, ${signedFixed(value, 1)} dB at ${si(x, "s", 5)}`;
    }

    parametersChanged(names) {
        if (names.has("rows")) {
            this.makeImage();
        }
        if (names.has("stream") || names.has("frames"))
            this.app.set({ zoom: null });
        if (names.has("scan"))
            this.range.reset();
        this.plot.window = this.app.parameters.zoom;
        this.sync();
        this.cursors.sync();
        this.dirty = true;
    }

    exported() {
        if (!this.picture || !this.plot.scene)
            return null;
        const stream = this.app.streamName(), p = this.app.parameters, picture = this.picture;
        const rows = this.image.rows.filter((row) => row.values?.length === picture.points), values = new Float32Array(rows.length * picture.points);
        rows.forEach((row, i) => values.set(row.values, i * picture.points));
        const facts = { stream, side: p.side, channel: p.channels[0], averages: p.average, rate: `${picture.rateHz} Hz`, unit: this.unit(), frame: picture.first,
            time: new Date(picture.captureNs / 1e6).toISOString() };
        const columns = [{ name: "time [s]", values: Float64Array.from({ length: picture.points }, (_, i) => i / picture.rateHz) },
            { name: `A-scan [${this.plot.scene.yUnit}]`, values: this.shown() }, { name: `envelope [dB re 1 ${this.unit()}]`, values: this.db }];
        return { name: `convolvd-${stream}-bscan`, title: `${stream}: A-scan and B-scan`, facts, columns, matrix: { values, rows: rows.length, columns: picture.points },
            panels: [this.plot.figure(), this.image.figure()] };
    }

    close() {
        this.listeners.abort();
        if (this.id !== undefined)
            this.app.link.drop(this.id);
        this.plot.close();
        this.image.close();
    }
}

export const ascan = { id: "ascan", title: "A/B-scan", parameters: PARAMETERS, create: (app, host) => new AscanView(app, host) };
