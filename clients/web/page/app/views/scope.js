/*
 * Scope: waveforms before and after the filter, triggered by convolv-web, or the last seconds as
 * min/max. Cursors, single shot, persistence; each side is a plot of its own with the same time axis.
 */
import { h } from "../ui/dom.js";
import { Controls, timeSteps } from "../ui/controls.js";
import { CURSOR_PARAMETERS, Cursors } from "../ui/cursors.js";
import { plotPanel } from "../ui/panel.js";
import { LinePlot } from "../draw/plot.js";
import { legendText } from "../draw/labels.js";
import { channelColour, channelDash } from "../draw/palette.js";
import { band, invalidMask, KIND_MINMAX } from "../wire/picture.js";
import { envelope } from "../model/fft.js";
import { ceil125, extremes, StickyRange } from "../model/scale.js";
import { clockTime, count, si } from "../model/units.js";

const MAX_CHANNELS = 8, MIN_FRAMES = 64, MAX_FRAMES = 65536, USUAL_FRAMES = 2000;
const MINMAX_POINTS = 1200;

const PARAMETERS = {
    channels: { type: "channels", default: [1], high: MAX_CHANNELS },
    side: { type: "choice", choices: ["output", "input", "both"], default: "both" },
    show: { type: "choice", choices: ["wave", "minmax"], default: "wave" },
    window: { type: "number", default: null, low: 1e-7, high: 1e4 },
    seconds: { type: "number", default: 10, low: 1, high: 600 },
    trigger: { type: "choice", choices: ["auto", "level", "record", "external"], default: "auto" },
    slope: { type: "choice", choices: ["rising", "falling", "either"], default: "rising" },
    at: { type: "number", default: 0 },
    before: { type: "number", default: 10, low: 0, high: 100 },
    frame: { type: "number", default: 0, low: 0 },
    single: { type: "flag", default: false },
    persist: { type: "number", default: 0, low: 0, high: 64 },
    envelope: { type: "flag", default: false },
    zoom: { type: "span", default: null },
    ...CURSOR_PARAMETERS,
};

/* One side: its want, its latest picture, its plot. */
class Side {
    constructor(view, side) {
        this.view = view;
        this.app = view.app;
        this.side = side;
        this.panel = plotPanel(view.stage, side === "input" ? "Input, before the filter" : "Output, after the filter");
        const handlers = view.cursors.handlers();
        this.plot = new LinePlot(this.panel.element, { label: `waveforms of the ${side}`, onzoom: (window) => view.zoomed(this, window), ...handlers });
        this.range = new StickyRange();
        this.ghosts = [];
        this.picture = null;
        this.pictureAt = performance.now();
        this.wanted = "";
    }

    spec() {
        const p = this.app.parameters, stream = this.app.stream();
        const total = this.app.channelCount(stream, this.side);
        const channels = p.channels.filter((channel) => total === 0 || channel <= total);
        const common = { stream: this.app.streamName(), side: this.side, channels: channels.length > 0 ? channels : [1] };
        if (p.show === "minmax")
            return { ...common, view: "envelope", seconds: p.seconds, points: MINMAX_POINTS };
        const rate = this.rate(), frames = this.view.frames(rate);
        return { ...common, view: "scope", frames, trigger: p.trigger, level: p.at, slope: p.slope, channel: channels[0] ?? 1,
            pretrigger: Math.min(frames - 1, Math.round(frames * p.before / 100)), single: p.single, ...(p.trigger === "external" ? { frame: p.frame } : {}) };
    }

    rate() {
        const stream = this.app.stream();
        return (this.side === "output" ? stream?.output_rate_hz : stream?.rate_hz) || 48000;
    }

    sync() {
        if (!this.app.stream())
            return;
        const spec = this.spec(), key = JSON.stringify(spec);
        if (key === this.wanted)
            return;
        if (this.id !== undefined)
            this.app.link.drop(this.id);
        this.wanted = key;
        this.ghosts = [];
        this.range.reset();
        this.refusal = null;
        this.units = null;
        this.channels = spec.channels;
        this.id = this.app.link.want(spec, {
            picture: (picture) => this.take(picture), refused: (text) => { this.refusal = text; },
            granted: (message) => { this.units = message.unit; },
        });
    }

    take(picture) {
        this.refusal = null;
        const persist = this.app.parameters.persist;
        if (this.picture && (this.picture.epoch !== picture.epoch || this.picture.points !== picture.points))
            this.ghosts = [];
        else if (persist > 0 && this.picture?.values)
            this.ghosts.push(this.picture.values);
        if (this.ghosts.length > persist)
            this.ghosts.splice(0, this.ghosts.length - persist);
        this.picture = picture;
        this.pictureAt = performance.now();
        this.view.dirty = true;
    }

    unit(i) {
        return this.units?.[i] ?? this.app.channel(this.app.stream(), this.channels[i] - 1, this.side).unit;
    }

    channelName(i) {
        return this.app.channel(this.app.stream(), this.channels[i] - 1, this.side).name;
    }

    scene(now) {
        const picture = this.picture, minmax = picture.kind === KIND_MINMAX, seconds = picture.step / picture.rateHz;
        const invalid = picture.ranges.length > 0 ? invalidMask(picture, this.app.causes) : null;
        const curves = [], colour = (i) => channelColour(this.channels[i] - 1);
        let mask = invalid, dx = seconds, x0 = picture.trigger >= 0 && picture.triggered ? -picture.trigger * dx : 0;
        if (minmax) {
            x0 = -picture.points * seconds;
            dx = seconds / 2;
            mask = invalid && Uint8Array.from({ length: 2 * picture.points }, (_, i) => invalid[i >> 1]);
        }
        for (let i = 0; i < picture.channels; i++) {
            const values = minmax ? pairs(picture.low[i], picture.high[i]) : picture.values[i];
            const name = `${this.side} ${this.channelName(i)}`, label = String(this.channels[i]);
            curves.push({ name, values, label, key: legendText(label, this.channelName(i), name), colour: colour(i), dash: channelDash(this.channels[i] - 1) });
        }
        const own = curves.length;
        if (this.app.parameters.envelope && !minmax)
            for (let i = 0; i < own; i++)
                curves.push({ name: `|${curves[i].name}|`, key: `|${curves[i].key}|`, label: curves[i].label, values: envelope(picture.values[i]), colour: colour(i), dash: [5, 3], width: 1 });
        const range = this.range.update(...extremes(curves.map((curve) => curve.values), mask), now);
        const bands = picture.ranges.map((r) => band(r, x0, seconds, this.app.causes));
        const p = this.app.parameters, triggered = !minmax && picture.triggered;
        return { x0, dx, curves, mask, bands, range, xUnit: "s", yUnit: this.unit(0), ghosts: minmax ? [] : this.ghosts,
            marks: triggered && picture.trigger > 0 ? [{ x: 0, text: "T" }] : [],
            levels: !minmax && (p.trigger === "level" || (p.trigger === "auto" && p.at !== 0)) ? [{ y: p.at, text: "trigger" }] : [] };
    }

    draw(now) {
        const picture = this.picture;
        if (picture) {
            this.plot.show(this.scene(now));
            this.panel.note(`epoch ${picture.epoch} · frame ${count(picture.first)} · ${clockTime(picture.captureNs)}`);
        }
        this.syncAlert(now);
    }

    syncAlert(now) {
        const p = this.app.parameters, age = now - this.pictureAt, picture = this.picture;
        let text = this.refusal;
        if (!text && !this.app.paused && age > 2000)
            text = p.show === "wave" && p.single && picture?.triggered ? null
                : p.show === "wave" && p.trigger !== "auto" ? "waiting for the trigger" : "no data";
        if (!text && picture?.clipped)
            text = "overload in this picture";
        this.panel.alert(text ?? "");
    }

    rows() {
        if (!this.picture || !this.plot.scene)
            return [];
        const { mask } = this.plot.scene;
        return this.plot.scene.curves.map((curve, i) => {
            const [low, high] = extremes([curve.values], mask), unit = this.unit(i % this.picture.channels);
            const text = (value) => Number.isFinite(value) ? si(value, unit, 4) : "–";
            return { name: curve.key, colour: curve.colour, unit, plot: this.plot, curve: i, extra: [text(high - low), this.picture.kind === KIND_MINMAX ? "–" : text(rms(curve.values, mask))] };
        });
    }

    close() {
        if (this.id !== undefined)
            this.app.link.drop(this.id);
        this.plot.close();
        this.panel.element.remove();
    }
}

function pairs(low, high) {
    const values = new Float32Array(2 * low.length);
    for (let i = 0; i < low.length; i++) {
        values[2 * i] = low[i];
        values[2 * i + 1] = high[i];
    }
    return values;
}

function rms(values, mask) {
    let sum = 0, points = 0;
    for (let i = 0; i < values.length; i++)
        if (!mask || !mask[i]) {
            sum += values[i] * values[i];
            points++;
        }
    return points > 0 ? Math.sqrt(sum / points) : NaN;
}

class ScopeView {
    constructor(app, host) {
        this.app = app;
        this.makeControls(host);
        this.stage = h("div", { class: "stage" });
        host.append(this.stage);
        this.sides = [];
        this.cursors = new Cursors(app, host, { xUnit: "s", inverse: true, extras: ["peak–peak", "RMS"], plots: () => this.sides.map((side) => side.plot),
            rows: () => this.sides.flatMap((side) => side.rows()) });
        this.keys = [...this.cursors.keys, ["+", "shorter window", () => this.stepWindow(-1)], ["-", "longer window", () => this.stepWindow(1)],
            ["o", "single shot: arm", () => this.arm()]];
        this.listeners = new AbortController();
        const on = (type, take) => app.addEventListener(type, take, { signal: this.listeners.signal });
        on("status", () => this.sync());
        on("theme", () => { this.dirty = true; });
        this.dirty = true;
    }

    makeControls(host) {
        const c = this.controls = new Controls(this.app, host), wave = (p) => p.show !== "wave";
        const level = (p) => wave(p) || (p.trigger !== "level" && p.trigger !== "auto");
        c.segments("side", "Side", [["input", "input"], ["output", "output"], ["both", "both"]]);
        c.segments("show", "Show", [["wave", "waveform"], ["minmax", "min/max"]]);
        c.select("window", "Window", [["", "auto"], ...timeSteps(1e-5, 20)], { read: (v) => v === null ? "" : String(v), write: (v) => v === "" ? null : Number(v), hidden: wave });
        c.select("seconds", "Window", [["1", "1 s"], ["2", "2 s"], ["5", "5 s"], ["10", "10 s"], ["30", "30 s"], ["60", "60 s"]],
            { write: Number, hidden: (p) => p.show !== "minmax" });
        c.select("trigger", "Trigger", [["auto", "auto"], ["level", "level"], ["record", "record"], ["external", "frame"]], { hidden: wave });
        c.quantity("at", "Level", { unit: () => this.app.channel(this.app.stream(), 0).unit, fullScale: () => this.app.channel(this.app.stream(), 0).fullScale, hidden: level });
        c.select("slope", "Slope", [["rising", "rising"], ["falling", "falling"], ["either", "either"]], { hidden: level });
        c.quantity("frame", "Frame", { low: 0, integer: true, hidden: (p) => wave(p) || p.trigger !== "external" });
        c.select("before", "Before trigger", [["0", "0 %"], ["10", "10 %"], ["25", "25 %"], ["50", "50 %"], ["90", "90 %"]], { write: Number, hidden: wave });
        c.select("persist", "Persistence", [["0", "off"], ["8", "8"], ["32", "32"], ["64", "64"]], { write: Number, hidden: wave });
        c.toggle("envelope", "Envelope", { hidden: wave, title: "magnitude of the analytic signal of what is shown" });
        c.toggle("single", "Single", { hidden: (p) => wave(p) || p.trigger === "auto" });
        this.armButton = c.button("Arm", "Wait for the next trigger (o)", () => this.arm());
        c.channels("channels", { most: MAX_CHANNELS, colourOf: channelColour,
            count: () => Math.max(this.app.channelCount(this.app.stream(), "input"), this.app.parameters.side !== "input" ? this.app.channelCount(this.app.stream(), "output") : 0),
            nameOf: (i) => this.app.channel(this.app.stream(), i, this.app.parameters.side === "output" ? "output" : "input").name });
    }

    /* Frames of the window at a rate; on both sides the same time. */
    frames(rate) {
        const seconds = this.app.parameters.window ?? ceil125(USUAL_FRAMES / (this.app.stream()?.rate_hz || rate) / 2);
        return Math.min(MAX_FRAMES, Math.max(MIN_FRAMES, Math.round(seconds * rate)));
    }

    stepWindow(direction) {
        const steps = timeSteps(1e-5, 20).map(([value]) => Number(value)), rate = this.app.stream()?.rate_hz || 48000;
        const now = this.app.parameters.window ?? this.frames(rate) / rate;
        const at = steps.findIndex((step) => step >= now * 0.999) + direction;
        if (steps[at])
            this.app.set({ window: steps[at] });
    }

    arm() {
        for (const side of this.sides)
            if (side.id !== undefined)
                this.app.link.again(side.id);
    }

    parametersChanged(names) {
        if (names.has("stream") || names.has("window") || names.has("seconds") || names.has("show"))
            this.app.set({ zoom: null });
        this.sync();
        const zoom = this.app.parameters.zoom;
        for (const side of this.sides)
            if (String(side.plot.window) !== String(zoom))
                side.plot.window = zoom;
        this.cursors.sync();
        this.dirty = true;
    }

    sync() {
        const p = this.app.parameters, wanted = p.side === "both" ? ["input", "output"] : [p.side];
        if (this.sides.map((side) => side.side).join() !== wanted.join()) {
            for (const side of this.sides)
                side.close();
            this.sides = wanted.map((side) => new Side(this, side));
            this.cursors.sync();
        }
        for (const side of this.sides)
            side.sync();
        this.controls.sync();
        this.armButton.hidden = !(p.show === "wave" && p.single && p.trigger !== "auto");
    }

    zoomed(from, window) {
        for (const side of this.sides)
            if (side !== from) {
                side.plot.window = window;
                side.plot.redraw();
            }
        this.app.set({ zoom: window });
    }

    draw(now) {
        this.cursors.read(now);
        if (!this.dirty) {
            for (const side of this.sides)
                side.syncAlert(now);
            return false;
        }
        this.dirty = false;
        for (const side of this.sides)
            side.draw(now);
        return true;
    }

    exported() {
        const sides = this.sides.filter((side) => side.plot.scene);
        if (sides.length === 0)
            return null;
        const { picture, plot: { scene } } = sides[0], stream = this.app.streamName();
        const facts = { stream, epoch: picture.epoch, "first frame": picture.first, time: new Date(picture.captureNs / 1e6).toISOString(),
            rate: `${picture.rateHz} Hz`, unit: sides[0].unit(0) };
        for (const side of sides)
            for (const band of side.plot.scene.bands)
                facts[`invalid (${side.side}) ${band.from} s`] = `to ${band.to} s: ${band.text}`;
        const same = sides.filter((side) => side.plot.points() === sides[0].plot.points() && side.plot.scene.dx === scene.dx);
        const columns = [{ name: "time [s]", values: Float64Array.from({ length: sides[0].plot.points() }, (_, i) => sides[0].plot.pointX(i)) },
            ...same.flatMap((side) => side.plot.scene.curves.map((curve, i) => ({ name: `${curve.name} [${side.unit(i % side.picture.channels)}]`, values: side.plot.masked(curve.values) })))];
        return { name: `convolvd-${stream}-scope`, title: `${stream}: ${sides.map((side) => side.side).join(" and ")}`,
            facts: { stream, epoch: picture.epoch, frame: picture.first, time: facts.time }, columns, panels: sides.map((side) => side.plot.figure(side.side)), allFacts: facts };
    }

    close() {
        this.listeners.abort();
        for (const side of this.sides)
            side.close();
    }
}

export const scope = { id: "scope", title: "Scope", parameters: PARAMETERS, create: (app, host) => new ScopeView(app, host) };
