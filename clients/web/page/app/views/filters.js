/*
 * Filters: what each filter of a stream does (taps, response, delay), and, where the role allows,
 * exchanging it, gains and mutes. A change is asked for; what is shown follows the daemon's status.
 */
import { h, setText } from "../ui/dom.js";
import { plotPanel } from "../ui/panel.js";
import { LinePlot } from "../draw/plot.js";
import { channelColour } from "../draw/palette.js";
import { ask } from "../wire/commands.js";
import { ceil125, extremes } from "../model/scale.js";
import { count, parseQuantity, si, signedFixed, trimmed } from "../model/units.js";

const GAIN_LOW = -60, GAIN_HIGH = 20, DEEPEST_DB = -160;

const PARAMETERS = {
    filter: { type: "text", default: "" },
    zoom: { type: "span", default: null },
};

class FiltersView {
    constructor(app, host) {
        this.app = app;
        this.filters = [];
        this.body = h("tbody", {});
        this.message = h("p", { class: "caption message" });
        this.makeExchange();
        const head = h("tr", {}, ["filter", "in use"].map((text) => h("th", {}, text)), ["taps", "delay", "hash"].map((text) => h("th", { class: "number" }, text)));
        host.append(h("section", { class: "panel" }, h("h3", {}, "Filters"), h("div", { class: "scroll" }, h("table", { class: "data" }, h("thead", {}, head), this.body)), this.message, this.exchange));
        const columns = h("div", { class: "columns stage" });
        host.append(columns);
        this.responsePanel = plotPanel(columns, "Response");
        this.tapsPanel = plotPanel(columns, "Taps");
        this.response = new LinePlot(this.responsePanel.element, { label: "magnitude of the response", onzoom: (window) => app.set({ zoom: window }) });
        this.taps = new LinePlot(this.tapsPanel.element, { label: "taps" });
        this.gains = h("div", { class: "gains" });
        this.gainRows = [];
        this.gainNote = h("p", { class: "caption message" });
        host.append(h("section", { class: "panel" }, h("h3", {}, "Gain and mute of each output"), this.gainNote, this.gains));
        this.listeners = new AbortController();
        const on = (type, take) => app.addEventListener(type, take, { signal: this.listeners.signal });
        on("status", () => this.statusChanged());
        on("role", () => this.load());
        on("theme", () => { this.dirty = true; });
        on("event", (event) => {
            if (["filter-change", "reload", "start"].includes(event.detail?.kind))
                this.load();
        });
    }

    makeExchange() {
        this.fade = h("input", { type: "text", value: "10 ms", "aria-label": "Cross-fade" });
        this.frame = h("input", { type: "text", placeholder: "at once", inputmode: "numeric", "aria-label": "Frame" });
        this.button = h("button", { type: "button", class: "primary", id: "exchange", onclick: () => this.change() }, "Exchange");
        this.exchange = h("div", { class: "controls" }, h("label", {}, "Cross-fade", this.fade), h("label", {}, "At frame", this.frame), this.button);
    }

    parametersChanged(names) {
        if (names.has("stream") || this.loaded !== this.app.streamName())
            this.load();
        this.response.window = this.app.parameters.zoom;
        this.choose();
        this.statusChanged();
    }

    async load() {
        const stream = this.app.streamName();
        if (!stream || !this.app.commands)
            return;
        this.loaded = stream;
        if (!this.app.commands.has("response"))
            return setText(this.message, "This daemon does not say what its filters are.");
        const answer = await ask("response", { stream });
        if (stream !== this.app.streamName())
            return;
        this.filters = answer.ok ? answer.filters ?? [] : [];
        this.asked = "";
        setText(this.message, answer.ok ? "" : answer.error ?? "The filters cannot be read.");
        this.writeTable();
        this.choose();
        this.syncRole();
    }

    /* The curves of a filter that the stream is not configured with, when it is chosen. */
    async loadCurves() {
        const chosen = this.chosen(), stream = this.loaded;
        if (!chosen || chosen.magnitude_db || chosen.error || this.asked === chosen.name)
            return;
        this.asked = chosen.name;
        const answer = await ask("response", { stream, filter: chosen.name });
        if (answer.ok && stream === this.loaded)
            Object.assign(chosen, answer.filters[0]);
        else
            chosen.error ??= answer.error ?? "The response cannot be read.";
        this.dirty = true;
    }

    chosen() {
        const name = this.app.parameters.filter;
        return this.filters.find((filter) => filter.name === name) ?? this.filters.find((filter) => this.inUse(filter)) ?? this.filters[0];
    }

    /* Status knows of an exchange; without one the stream runs as configured. */
    inUse(filter) {
        const now = this.app.stream()?.filter;
        return now?.as_configured === false ? now.name === filter.name : Boolean(filter.configured);
    }

    writeTable() {
        this.body.replaceChildren(...this.filters.map((filter) => {
            const row = h("tr", { class: "pick", tabindex: 0, data: { filter: filter.name }, onclick: () => this.app.set({ filter: filter.name }),
                onkeydown: (event) => {
                    if (event.key === "Enter")
                        this.app.set({ filter: filter.name });
                } });
            const delay = filter.delay_frames ?? NaN;
            row.append(h("td", {}, filter.name), h("td", { class: "use" }), h("td", { class: "number" }, count(filter.taps)),
                h("td", { class: "number" }, Number.isFinite(delay) ? `${trimmed(delay)} frames = ${si(delay / filter.rate_hz, "s", 4)}` : "–"),
                h("td", { class: "number" }, (filter.hash ?? "").slice(0, 12)));
            return row;
        }));
    }

    choose() {
        const chosen = this.chosen();
        [...this.body.rows].forEach((row, i) => {
            const filter = this.filters[i];
            row.classList.toggle("chosen", filter === chosen);
            setText(row.cells[1], this.inUse(filter) ? "● in use" : "");
        });
        this.loadCurves();
        this.dirty = true;
    }

    statusChanged() {
        if (this.loaded !== this.app.streamName())
            this.load();
        this.choose();
        this.syncRole();
        this.syncGains();
    }

    syncRole() {
        const [may, why] = this.app.may("filter"), chosen = this.chosen();
        for (const control of [this.button, this.fade, this.frame])
            control.disabled = !may || !chosen;
        setText(this.button, !chosen ? "Exchange" : this.inUse(chosen) ? `Exchange to ${chosen.name} again` : `Exchange to ${chosen.name}`);
        this.button.title = why;
        setText(this.gainNote, this.app.may("gain")[1]);
    }

    async change() {
        const fade = parseQuantity(this.fade.value, "s"), frame = this.frame.value.trim(), chosen = this.chosen();
        this.fade.classList.toggle("wrong", !(fade >= 0));
        this.frame.classList.toggle("wrong", frame !== "" && !/^\d+$/.test(frame));
        if (!(fade >= 0) || (frame !== "" && !/^\d+$/.test(frame)) || !chosen)
            return;
        const answer = await this.app.command("filter", { stream: this.app.streamName(), filter: chosen.name, ...(fade > 0 ? { fade_ms: fade * 1000 } : { how: "hard" }), ...(frame ? { frame: Number(frame) } : {}) });
        if (answer.ok)
            this.app.tell("toast", { text: `Filter ${chosen.name}${answer.frame !== undefined ? ` from frame ${answer.frame} on` : ""}` });
    }

    /* ---- gains ---- */

    syncGains() {
        const stream = this.app.stream(), gains = stream?.gains;
        const outputs = gains?.gain_db?.length ?? 0, key = `${stream?.name} ${outputs}`;
        if (key !== this.gainKey) {
            this.gainKey = key;
            this.gainRows = Array.from({ length: outputs }, (_, i) => this.gainRow(i));
            this.gains.replaceChildren(...this.gainRows.map((row) => row.element));
        }
        const [may] = this.app.may("gain");
        this.gainRows.forEach((row, i) => {
            const gain = gains.gain_db[i], muted = Boolean(gains.muted?.[i]);
            row.range.disabled = row.mute.disabled = !may;
            row.mute.setAttribute("aria-pressed", String(muted));
            if (document.activeElement !== row.range) {
                row.range.value = String(gain ?? GAIN_LOW);
                setText(row.value, gain === null ? "silent" : `${signedFixed(gain, 1)} dB`);
            }
        });
    }

    gainRow(output) {
        const value = h("output", {});
        const range = h("input", { type: "range", min: GAIN_LOW, max: GAIN_HIGH, step: 0.5, "aria-label": `gain of output ${output + 1} in dB` });
        range.addEventListener("input", () => setText(value, `${signedFixed(Number(range.value), 1)} dB`));
        range.addEventListener("change", async () => {
            await this.app.command("gain", { stream: this.app.streamName(), gain_db: Number(range.value), output: output + 1 });
            range.blur();
        });
        const mute = h("button", { type: "button", title: "Mute this output", onclick: () =>
            this.app.command("mute", { stream: this.app.streamName(), mute: mute.getAttribute("aria-pressed") !== "true", output: output + 1 }) }, "Mute");
        const name = this.app.channel(this.app.stream(), output, "output").name;
        return { element: h("div", { class: "gain" }, h("span", {}, `out ${name}`), range, value, mute), range, value, mute };
    }

    /* ---- plots ---- */

    draw() {
        const filter = this.chosen();
        if (!this.dirty || !filter)
            return false;
        this.dirty = false;
        const db = Float32Array.from(filter.magnitude_db ?? [], (v) => Math.max(DEEPEST_DB, v));
        this.responsePanel.alert(filter.error ?? "");
        if (db.length > 1) {
            const [low, high] = extremes([db], null), top = Math.ceil((high + 3) / 10) * 10;
            this.response.show({ x0: filter.first_hz, dx: filter.step_hz, curves: [{ name: filter.name, values: db, colour: channelColour(0), width: 1.5 }], mask: null, bands: [],
                range: [Math.max(DEEPEST_DB, Math.min(top - 40, Math.floor(low / 20) * 20)), top], xUnit: "Hz", yUnit: "dB", levels: [{ y: -3, text: "−3 dB" }] });
        }
        this.responsePanel.note(filter.name);
        const taps = Float32Array.from(filter.tap_values ?? []);
        if (taps.length > 0) {
            const size = ceil125(Math.max(1e-12, ...extremes([taps], null).map(Math.abs))), step = filter.tap_step ?? 1;
            this.taps.show({ x0: 0, dx: step / filter.rate_hz, curves: [{ name: filter.name, values: taps, colour: channelColour(1) }], mask: null, bands: [], range: [-size, size], xUnit: "s", yUnit: "",
                marks: Number.isFinite(filter.delay_frames) ? [{ x: filter.delay_frames / filter.rate_hz, text: "delay" }] : [] });
        }
        this.tapsPanel.note(`${count(filter.taps)} taps`);
        return true;
    }

    exported() {
        const filter = this.chosen();
        if (!filter || !this.response.scene)
            return null;
        return { name: `convolvd-filter-${filter.name}`, title: `filter ${filter.name}`, facts: { filter: filter.name, taps: filter.taps, rate: `${filter.rate_hz} Hz`, delay: `${filter.delay_frames} frames`, hash: filter.hash ?? "" },
            columns: [{ name: "frequency [Hz]", values: Float64Array.from(filter.magnitude_db, (_, i) => filter.first_hz + i * filter.step_hz) },
                { name: "magnitude [dB]", values: Float64Array.from(filter.magnitude_db) }],
            panels: [this.response.figure("response"), ...(this.taps.scene ? [this.taps.figure("taps")] : [])] };
    }

    close() {
        this.listeners.abort();
        this.response.close();
        this.taps.close();
    }
}

export const filters = { id: "filters", title: "Filters", parameters: PARAMETERS, create: (app, host) => new FiltersView(app, host) };
