/*
 * Overview: every stream, every channel as a tile with state, level bar, held peak, overload and
 * the last ten seconds. Words are elements; bars and lines of a stream are drawn on one canvas over
 * its tiles, so that 64 channels cost one clear and a few paths.
 */
import { h, icon, setClass, setHidden, setIcon, setText, fitCanvas } from "../ui/dom.js";
import { Controls } from "../ui/controls.js";
import { hatch, theme } from "../draw/palette.js";
import { causeText, INVALID, invalidMask } from "../wire/picture.js";
import { channelState, isFlat, Meter, STATES } from "../model/levels.js";
import { lossesOf, streamState, sumOf } from "../model/history.js";
import { partitionsOf, partitionText, standsBy } from "../model/partitions.js";
import { count, decibels, level, nanoseconds, plain, si } from "../model/units.js";
import { STALE_MS } from "../app.js";

const SPAN_DB = 100, SECONDS = 10, POINTS = 100, TEXT_MS = 200;
const MAX_WANTS = 12; /* of the 16 that a connection may have */

const PARAMETERS = {
    all: { type: "flag", default: true },
};

class Tile {
    constructor(app, stream, index) {
        this.index = index;
        this.meter = new Meter();
        this.flatNow = false;
        this.invalid = false;
        this.peakShown = 0; /* the largest since it was last read */
        this.peakRead = false;
        this.icon = icon("stale");
        this.word = h("span", {});
        this.number = document.createTextNode("–");
        this.value = h("span", { class: "value" }, this.number);
        this.held = h("span", { class: "held" });
        this.meterBox = h("span", { class: "meter" });
        this.sparkBox = h("span", { class: "spark" });
        this.name = h("span", { class: "name" });
        this.element = h("a", { class: "tile stale", href: app.address("scope", { stream, channels: [index + 1], side: "both" }) },
            this.name, h("span", { class: "word" }, this.icon, this.word), this.value, this.held, this.meterBox, this.sparkBox);
    }
}

class StreamPanel {
    constructor(app, host, name) {
        this.app = app;
        this.name = name;
        this.tiles = [];
        this.picture = null;
        this.textAt = 0;
        this.state = h("span", { class: "state" });
        this.facts = {};
        this.head = h("div", { class: "stream-head" }, h("h2", {}, name), this.state);
        this.canvas = h("canvas", {});
        this.grid = h("div", { class: "tiles" }, this.canvas);
        this.element = h("section", { class: "panel", "aria-label": `stream ${name}` }, this.head, this.grid);
        host.append(this.element);
        this.observer = new ResizeObserver(() => this.measure());
        this.observer.observe(this.grid);
    }

    want() {
        this.id = this.app.link.want({ stream: this.name, view: "envelope", side: "input", channels: [], seconds: SECONDS, points: POINTS },
            { picture: (picture) => this.take(picture), refused: () => { this.picture = null; } });
    }

    take(picture) {
        this.picture = picture;
        this.mask = picture.ranges.length > 0 ? invalidMask(picture, this.app.causes) : null;
        const second = Math.max(1, Math.ceil(picture.rateHz / picture.step));
        for (const tile of this.tiles) {
            const low = picture.low?.[tile.index], high = picture.high?.[tile.index];
            tile.flatNow = low !== undefined && isFlat(low, high, this.mask, second);
            tile.invalid = this.mask !== null && this.mask[picture.points - 1] === INVALID;
        }
    }

    fact(name, text, bad = false) {
        let fact = this.facts[name];
        if (!fact) {
            fact = this.facts[name] = { value: h("span", {}) };
            fact.element = h("span", { class: "fact" }, h("span", {}, name), fact.value);
            this.head.append(fact.element);
        }
        setText(fact.value, text ?? "");
        setHidden(fact.element, !text);
        setClass(fact.element, bad ? "fact bad" : "fact");
    }

    syncStatus() {
        const stream = this.app.stream(this.name);
        if (!stream)
            return;
        if (this.tiles.length !== stream.channels.length)
            this.makeTiles(stream);
        const history = this.app.histories.get(this.name), last = history?.samples[history.samples.length - 1];
        const alarms = this.app.activeAlarms().filter((alarm) => alarm.stream === this.name);
        const [state, word] = streamState({ running: this.app.fresh(), silentNs: stream.last_frame_age_ns, lossRate: last?.lossRate ?? 0, alarms: alarms.length, standsBy: standsBy(stream) });
        setClass(this.state, `state ${state}`);
        setText(this.state, word);
        const lost = sumOf(lossesOf(stream)), load = stream.load ?? 0;
        this.fact("rate", `${si(stream.rate_hz, "Hz", 4)}${stream.rate_ppm !== undefined && stream.rate_ppm !== null ? `  ${plain(stream.rate_ppm, 3)} ppm` : ""}`);
        this.fact("filter", stream.filter?.name ?? stream.filters?.[0]?.name);
        this.fact("latency p99", stream.latency_ns?.total?.count > 0 ? nanoseconds(stream.latency_ns.total.p99) : null);
        this.fact("load", `${(100 * load).toFixed(1)} %`, load > 0.9);
        this.fact("lost", lost === 0 ? "none" : `${count(lost)} frames`, lost > 0);
        this.fact("invalid", stream.invalid_frames > 0 ? `${count(stream.invalid_frames)} frames` : null);
        this.fact("last frame", stream.last_frame_age_ns > 2e9 && !standsBy(stream) ? `${nanoseconds(stream.last_frame_age_ns)} ago` : null, true);
        for (const partition of partitionsOf(stream))
            this.fact(`${partition.log} of ${partition.name}`, ...partitionText(partition));
        this.alarmOf = new Map(alarms.filter((alarm) => alarm.channel !== null).map((alarm) => [alarm.channel - 1, alarm]));
        this.stream = stream;
    }

    makeTiles(stream) {
        for (const tile of this.tiles)
            tile.element.remove();
        this.tiles = stream.channels.map((_, i) => new Tile(this.app, this.name, i));
        this.grid.append(...this.tiles.map((tile) => tile.element));
        this.grid.classList.toggle("small", this.tiles.length > 24);
        this.measure();
    }

    measure() {
        const place = (tile, box) => ({ x: tile.element.offsetLeft + tile.element.clientLeft + box.offsetLeft, y: tile.element.offsetTop + tile.element.clientTop + box.offsetTop,
            w: box.offsetWidth, h: box.offsetHeight });
        for (const tile of this.tiles) {
            tile.meterAt = place(tile, tile.meterBox);
            tile.sparkAt = place(tile, tile.sparkBox);
        }
    }

    /* What 0 dB of the bars means: full scale, else 10 dB steps above the largest held peak. */
    scaleOf(index) {
        const full = this.app.channel(this.stream, index).fullScale;
        if (full > 0)
            return full;
        const largest = this.tiles.reduce((most, tile) => Math.max(most, tile.meter.held), 0);
        return largest > 0 ? 10 ** (Math.ceil(decibels(largest) / 10) / 2) : 1;
    }

    takeLevels(now) {
        const levels = this.app.levels.get(this.name);
        if (!levels || !this.stream)
            return;
        for (const tile of this.tiles) {
            const i = tile.index, scale = this.scaleOf(i);
            tile.scale = scale;
            tile.meter.put({ rms: levels.rms?.[i] ?? 0, peak: levels.peak?.[i] ?? 0, held: levels.held?.[i] ?? 0,
                overloads: levels.overloads?.[i] ?? 0 }, scale, now);
            tile.peakShown = tile.peakRead ? tile.meter.peak : Math.max(tile.peakShown, tile.meter.peak);
            tile.peakRead = false;
        }
    }

    syncText(now) {
        if (!this.stream || now - this.textAt < TEXT_MS)
            return;
        this.textAt = now;
        const mode = this.app.parameters.level, levels = this.app.levels.get(this.name);
        const stale = !this.app.fresh() || !levels || now - levels.at > STALE_MS;
        let levelName = "";
        for (const tile of this.tiles) {
            const { name, unit, fullScale } = this.app.channel(this.stream, tile.index), channel = this.stream.channels[tile.index];
            const alarm = this.alarmOf.get(tile.index);
            const state = channelState({ stale, unused: channel.unused, flat: tile.flatNow, alarm: alarm?.text, clipping: tile.meter.clipping(now),
                invalid: tile.invalid, muted: false });
            setClass(tile.element, `tile ${state}`);
            setIcon(tile.icon, state);
            setText(tile.word, alarm && state === "dead" && !tile.flatNow ? "alarm" : STATES[state]);
            setText(tile.name, name);
            const peak = level(tile.peakShown, unit, mode, fullScale), held = level(tile.meter.held, unit, mode, fullScale);
            const text = stale ? "–" : peak.text;
            if (tile.number.data !== text)
                tile.number.data = text;
            levelName = peak.name;
            setText(tile.held, stale ? "" : `max ${held.text}`);
            tile.element.title = `channel ${name}: RMS ${si(tile.meter.rms, unit, 3)}, peak ${si(tile.meter.peak, unit, 3)}, held ${si(tile.meter.held, unit, 3)}, `
                + `${count(tile.meter.overloads ?? 0)} overloads${alarm ? ` — ${alarm.text}` : ""}`;
            tile.peakRead = true;
            tile.state = state;
        }
        this.fact("levels in", levelName);
    }

    /* Only what changed and can be seen: bars move often, lines with each picture. */
    draw(now) {
        const box = this.grid.getBoundingClientRect();
        if (box.bottom < 0 || box.top > window.innerHeight || this.tiles.length === 0 || !this.tiles[0].meterAt)
            return;
        const { context, resized } = fitCanvas(this.canvas), colours = theme();
        if (resized || this.colours !== colours || this.visibleFrom !== box.top) {
            for (const tile of this.tiles)
                tile.meterKey = tile.drawnPicture = null;
            this.colours = colours;
            this.visibleFrom = box.top;
        }
        for (const tile of this.tiles) {
            if (box.top + tile.sparkAt.y + tile.sparkAt.h < 0 || box.top + tile.meterAt.y > window.innerHeight)
                continue;
            this.drawMeter(context, colours, tile, now);
            if (tile.drawnPicture !== this.picture || tile.drawnPicture === null)
                this.drawSpark(context, colours, tile);
        }
    }

    drawMeter(context, colours, tile, now) {
        const { x, y, w, h: height } = tile.meterAt, meter = tile.meter, lampW = Math.min(10, height);
        const room = w - lampW - 3, at = (db) => Math.round(room * Math.min(1, Math.max(0, 1 + db / SPAN_DB)));
        const known = tile.state !== "stale" && tile.state !== undefined, clipping = meter.clipping(now);
        const peak = known ? at(meter.advance(now)) : 0, rms = known ? Math.min(peak, at(decibels(meter.rms / tile.scale))) : 0;
        const held = known && meter.held > 0 ? at(decibels(meter.held / tile.scale)) : -1;
        const key = `${peak} ${rms} ${held} ${clipping} ${meter.overloads > 0}`;
        if (key === tile.meterKey)
            return;
        tile.meterKey = key;
        const inset = height > 18 ? 4 : 2;
        context.fillStyle = colours.well;
        context.fillRect(x, y, w, height);
        context.fillStyle = colours.accent;
        context.globalAlpha = 0.45;
        context.fillRect(x + rms, y + inset, peak - rms, height - 2 * inset);
        context.globalAlpha = 1;
        context.fillRect(x, y + inset, rms, height - 2 * inset);
        context.fillStyle = colours.grid;
        for (let db = -80; db < 0; db += 20)
            context.fillRect(x + at(db), y, 1, height);
        context.fillStyle = colours.text;
        if (held >= 0)
            context.fillRect(x + Math.max(0, held - 2), y + 1, 2, height - 2);
        context.fillStyle = clipping ? colours.bad : meter.overloads > 0 ? colours.warn : colours.edge;
        context.fillRect(x + w - lampW, y, lampW, height);
    }

    unseen(range) {
        return causeText(range.causes, this.app.causes) === "unseen";
    }

    drawSpark(context, colours, tile) {
        const { x, y, w, h: height } = tile.sparkAt;
        context.fillStyle = colours.well;
        context.fillRect(x, y, w, height);
        tile.drawnPicture = this.picture;
        const lows = this.picture?.low?.[tile.index], highs = this.picture?.high?.[tile.index];
        if (!lows)
            return;
        const { points, ranges } = this.picture, mask = this.mask;
        let size = 0;
        for (let i = 0; i < points; i++)
            if (!mask || !mask[i])
                size = Math.max(size, -lows[i], highs[i]);
        tile.size = Math.max(size, (tile.size ?? 0) * 0.95, 1e-12);
        const middle = y + height / 2, scale = (height / 2 - 1) / tile.size;
        context.fillStyle = colours.accent;
        for (let i = 0; i < points; i++) {
            if (mask && mask[i])
                continue;
            const left = Math.round(x + i * w / points), right = Math.round(x + (i + 1) * w / points);
            const top = Math.round(middle - highs[i] * scale), bottom = Math.round(middle - lows[i] * scale);
            context.fillRect(left, top, Math.max(1, right - left), Math.max(1, bottom - top));
        }
        if (ranges.length === 0)
            return;
        context.fillStyle = hatch(context, colours.invalid);
        for (const range of ranges)
            if (!this.unseen(range))
                context.fillRect(x + range.first / points * w, y, Math.max(1, range.points / points * w), height);
    }

    close() {
        this.observer.disconnect();
        if (this.id !== undefined)
            this.app.link.drop(this.id);
        this.element.remove();
    }
}

class OverviewView {
    constructor(app, host) {
        this.app = app;
        this.host = host;
        this.panels = new Map();
        this.controls = new Controls(app, host);
        this.controls.segments("level", "Levels in", [["db", "dB"], ["unit", "unit"], ["fs", "dBFS"]]);
        this.controls.segments("all", "Streams", [[true, "all"], [false, "chosen"]]);
        this.controls.add(h("span", { class: "spacer" }));
        this.reset = this.controls.button("Reset held peaks", "", () => this.resetCounters());
        this.legend();
        this.empty = h("p", { class: "empty" }, "Connecting …");
        host.append(this.empty);
        this.keys = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"].map((key) => [key, "from tile to tile", () => this.step(key)]);
        this.listeners = new AbortController();
        const on = (type, take) => app.addEventListener(type, take, { signal: this.listeners.signal });
        on("status", () => this.sync());
        on("state", () => this.sync());
        on("role", () => this.sync());
        on("levels", (event) => {
            if (!app.paused)
                this.panels.get(event.detail)?.takeLevels(performance.now());
        });
        this.sync();
    }

    legend() {
        this.controls.add(h("span", { class: "caption" }, "bar: RMS and peak, 20 dB a line · tick: held · lamp: overload"));
    }

    shownStreams() {
        const names = this.app.streams().map((stream) => stream.name);
        return this.app.parameters.all ? names : names.filter((name) => name === this.app.streamName());
    }

    sync() {
        const names = this.shownStreams();
        for (const [name, panel] of this.panels)
            if (!names.includes(name)) {
                panel.close();
                this.panels.delete(name);
            }
        for (const name of names) {
            if (!this.panels.has(name)) {
                this.panels.set(name, new StreamPanel(this.app, this.host, name));
                if (this.panels.size <= MAX_WANTS)
                    this.panels.get(name).want();
            }
            this.panels.get(name).syncStatus();
        }
        setHidden(this.empty, names.length > 0);
        setText(this.empty, !this.app.connected() ? "Connecting …" : this.app.status ? "The daemon runs no stream." : this.app.daemon.reason || "Waiting for the daemon …");
        const [may, why] = this.app.may("reset-counters");
        this.reset.disabled = !may;
        this.reset.title = may ? "Held peaks, overloads and counters of the stream begin anew" : why;
        this.controls.sync();
    }

    parametersChanged() {
        this.sync();
    }

    async resetCounters() {
        for (const name of this.shownStreams())
            await this.app.command("reset-counters", { stream: name });
    }

    step(key) {
        const tiles = [...this.host.querySelectorAll(".tile")], at = tiles.indexOf(document.activeElement);
        if (at < 0)
            return tiles[0]?.focus();
        if (key === "ArrowLeft" || key === "ArrowRight")
            return tiles[at + (key === "ArrowLeft" ? -1 : 1)]?.focus();
        const from = tiles[at].getBoundingClientRect(), down = key === "ArrowDown";
        const rows = tiles.filter((tile) => {
            const box = tile.getBoundingClientRect();
            return Math.abs(box.left - from.left) < 4 && (down ? box.top > from.top : box.top < from.top);
        });
        (down ? rows[0] : rows[rows.length - 1])?.focus();
    }

    draw(now) {
        if (this.panels.size === 0)
            return false;
        if (this.app.paused)
            now = this.frozen ??= now; /* bars stand still, too */
        else
            this.frozen = null;
        for (const panel of this.panels.values())
            if (!this.app.paused)
                panel.syncText(now);
        for (const panel of this.panels.values())
            panel.draw(now);
        return true;
    }

    exported() {
        const panel = this.panels.get(this.app.streamName()) ?? this.panels.values().next().value;
        if (!panel?.stream)
            return null;
        const tiles = panel.tiles, column = (name, value) => ({ name, values: tiles.map(value) });
        const picture = panel.picture;
        const facts = { stream: panel.name, time: new Date(this.app.status.realtime_ns / 1e6).toISOString() };
        return {
            name: `convolvd-${panel.name}-overview`, title: panel.name, facts,
            panels: [{ image: this.snapshot(panel), height: 1200 * panel.grid.clientHeight / panel.grid.clientWidth }],
            columns: [column("channel", (tile) => tile.index + 1), column("rms", (tile) => tile.meter.rms), column("peak", (tile) => tile.meter.peak),
                column("held", (tile) => tile.meter.held), column("overloads", (tile) => tile.meter.overloads ?? 0)],
            picture,
        };
    }

    /* The tiles as a picture: what the canvas shows, and their words. */
    snapshot(panel) {
        const scale = 2, copy = document.createElement("canvas"), { text, muted, raised } = theme();
        copy.width = panel.grid.clientWidth * scale;
        copy.height = panel.grid.clientHeight * scale;
        const context = copy.getContext("2d");
        context.scale(scale, scale);
        for (const tile of panel.tiles) {
            const { offsetLeft: x, offsetTop: y, offsetWidth: w, offsetHeight: height } = tile.element;
            context.fillStyle = getComputedStyle(tile.element).backgroundColor || raised;
            context.fillRect(x, y, w, height);
            context.fillStyle = getComputedStyle(tile.word).color;
            context.fillRect(x, y, 5, height);
            context.font = "12px system-ui, sans-serif";
            context.fillText(tile.word.textContent, x + w - 10 - context.measureText(tile.word.textContent).width, y + 20);
            context.fillStyle = text;
            context.font = "600 13px system-ui, sans-serif";
            context.fillText(tile.name.textContent, x + 14, y + 20);
            context.font = "600 15px monospace";
            context.fillText(`${tile.number.data}  ${tile.held.textContent}`, x + 14, tile.meterAt.y - 6);
        }
        context.fillStyle = muted;
        context.drawImage(panel.canvas, 0, 0, panel.grid.clientWidth, panel.grid.clientHeight);
        return copy;
    }

    close() {
        this.listeners.abort();
        for (const panel of this.panels.values())
            panel.close();
    }
}

export const overview = { id: "overview", title: "Overview", parameters: PARAMETERS, create: (app, host) => new OverviewView(app, host) };
