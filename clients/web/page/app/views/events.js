/*
 * Events: alarms with acknowledgement, and everything that happened, newest first: losses, changes,
 * devices, marks. Each row says when, where (stream, epoch, frame) and who asked.
 */
import { h, setClass, setHidden, setText } from "../ui/dom.js";
import { Controls } from "../ui/controls.js";
import { clockTime, count, elapsed, si } from "../model/units.js";

const ROWS = 400;
const GROUPS = { all: null, alarms: ["alarm", "alarm-end", "overload"], losses: ["loss", "silence", "half-rate", "clock-step", "network", "sender", "takeover", "epoch"],
    changes: ["filter-change", "gain", "mute", "reset-counters", "reload", "record", "hand-over", "device", "refused", "start", "stop"], marks: ["mark"] };
const SYMBOLS = { error: "✖", warning: "▲", notice: "●", info: "·" };

const PARAMETERS = {
    show: { type: "choice", choices: Object.keys(GROUPS), default: "all" },
    only: { type: "flag", default: false },
};

const alarmKey = (alarm) => JSON.stringify([alarm.name, alarm.stream, alarm.channel]);

/* One alarm. Its elements stay as long as the alarm does: values change ten times a second, and whoever is at its
 * button with the keyboard stays there. */
class AlarmRow {
    constructor(app) {
        this.app = app;
        this.name = h("strong", {});
        this.text = document.createTextNode("");
        this.times = h("div", { class: "caption" });
        this.button = h("button", { type: "button", onclick: () => this.acknowledge() }, "Acknowledge");
        this.done = h("span", { class: "caption", tabindex: "-1" }, "acknowledged");
        this.element = h("div", {}, h("div", { class: "what" }, this.name, this.text, this.times), this.button);
    }

    acknowledge() {
        const { name, stream, channel } = this.alarm;
        this.app.command("acknowledge", { alarm: name, ...(stream ? { stream } : {}), ...(channel ? { channel } : {}) });
    }

    /* What of it takes the keyboard: the button, or the word in its place. */
    control() {
        return this.button.isConnected && !this.button.disabled ? this.button : this.done.isConnected ? this.done : null;
    }

    focused() {
        return this.element.contains(document.activeElement);
    }

    write(alarm, may, why) {
        this.alarm = alarm;
        const active = alarm.state === "active";
        setClass(this.element, active ? "alarm" : "alarm ended");
        setText(this.name, `${active ? "▲" : "▽"} ${alarm.name}`);
        setText(this.text, alarm.text ?? "");
        const lasted = alarm.ended_realtime_ns ? (alarm.ended_realtime_ns - alarm.since_realtime_ns) / 1e9 : NaN;
        setText(this.times, [`since ${clockTime(alarm.since_realtime_ns)}`, alarm.ended_realtime_ns && `ended ${clockTime(alarm.ended_realtime_ns)} after ${elapsed(lasted)}`,
            alarm.raised > 1 && `raised ${count(alarm.raised)} times`, alarm.value !== null && alarm.value !== undefined && `value ${si(alarm.value, alarm.unit ?? "", 4)}`,
            alarm.limit !== null && alarm.limit !== undefined && `limit ${si(alarm.limit, alarm.unit ?? "", 4)}`].filter(Boolean).join(" · "));
        this.button.disabled = !may;
        this.button.title = why ?? "";
        const [shown, other] = alarm.acknowledged ? [this.done, this.button] : [this.button, this.done];
        if (other.parentNode) {
            const focused = document.activeElement === other;
            other.replaceWith(shown);
            if (focused)
                shown.focus();
        }
    }
}

class EventsView {
    constructor(app, host) {
        this.app = app;
        this.alarms = h("div", {});
        this.alarmTitle = h("h3", { tabindex: "-1" });
        this.noAlarm = h("p", { class: "caption message indent" }, "No alarm is active.");
        this.all = h("button", { type: "button", onclick: () => app.command("acknowledge", {}) }, "Acknowledge all");
        host.append(h("section", { class: "panel", "aria-label": "Alarms" }, h("div", { class: "controls" }, this.alarmTitle, h("span", { class: "spacer" }), this.all), this.noAlarm, this.alarms));
        this.controls = new Controls(app, host);
        this.controls.segments("show", "Show", [["all", "all"], ["alarms", "alarms"], ["losses", "losses"], ["changes", "changes"], ["marks", "marks"]]);
        this.controls.segments("only", "Streams", [[false, "all"], [true, "chosen"]]);
        this.body = h("tbody", {});
        this.empty = h("p", { class: "empty" }, "Nothing has happened yet.");
        const head = h("tr", {}, ["time", "", "kind", "stream", "frame", "what", "who"].map((text) => h("th", { class: text === "frame" ? "number" : "" }, text)));
        host.append(h("section", { class: "panel events scroll" }, h("table", { class: "data" }, h("thead", {}, head), this.body), this.empty));
        this.listeners = new AbortController();
        const on = (type, take) => app.addEventListener(type, take, { signal: this.listeners.signal });
        on("status", () => this.writeAlarms());
        on("role", () => this.writeAlarms());
        on("event", () => { this.dirty = true; });
        this.rows = new Map(); // AlarmRow of each alarm
        this.keys = [["k", "acknowledge the first alarm that waits", () => this.waiting()[0]?.acknowledge()], ["l", "show all or the next kind of events", () => this.nextKind()]];
    }

    /* Rows whose alarm nobody has acknowledged, if this viewer may. */
    waiting() {
        return [...this.rows.values()].filter((row) => row.button.isConnected && !row.button.disabled);
    }

    nextKind() {
        const kinds = Object.keys(GROUPS);
        this.app.set({ show: kinds[(kinds.indexOf(this.app.parameters.show) + 1) % kinds.length] });
    }

    parametersChanged() {
        this.controls.sync();
        this.writeAlarms();
        this.dirty = true;
    }

    shown() {
        const { show, only } = this.app.parameters, kinds = GROUPS[show], stream = this.app.streamName();
        return this.app.events.filter((event) => (!kinds || kinds.includes(event.kind)) && (!only || !event.stream || event.stream === stream));
    }

    draw() {
        if (!this.dirty || this.app.paused)
            return false;
        this.dirty = false;
        const events = this.shown();
        this.body.replaceChildren(...events.slice(-ROWS).reverse().map(row));
        setHidden(this.empty, events.length > 0);
        return true;
    }

    writeAlarms() {
        const alarms = this.app.alarms(), active = this.app.activeAlarms().length, [may, why] = this.app.may("acknowledge");
        setText(this.alarmTitle, active === 0 ? "Alarms" : active === 1 ? "1 active alarm" : `${active} active alarms`);
        setHidden(this.noAlarm, alarms.length > 0);
        const waiting = alarms.filter((alarm) => !alarm.acknowledged);
        this.all.hidden = waiting.length < 2;
        this.all.disabled = !may;
        const rows = new Map(alarms.map((alarm) => [alarmKey(alarm), this.rows.get(alarmKey(alarm)) ?? new AlarmRow(this.app)]));
        alarms.forEach((alarm) => rows.get(alarmKey(alarm)).write(alarm, may, why));
        const left = [...this.rows].filter(([key]) => !rows.has(key)).map(([, row]) => row);
        const at = left.some((row) => row.focused()) ? [...this.rows.values()].findIndex((row) => row.focused()) : -1;
        for (const row of left)
            row.element.remove();
        this.rows = rows;
        this.order([...rows.values()]);
        if (at >= 0)
            this.focusRow(at);
    }

    /* Rows in this order. The one with the keyboard stays where it is and the others move around it: an element that
     * is moved loses the keyboard. */
    order(rows) {
        if (rows.every((row, i) => this.alarms.children[i] === row.element))
            return;
        const stays = rows.findIndex((row) => row.focused());
        rows.forEach((row, i) => {
            if (i < stays)
                rows[stays].element.before(row.element);
            else if (i > stays)
                this.alarms.append(row.element);
        });
    }

    /* The keyboard, whose row has gone, to the one that is there now, or to the title. */
    focusRow(at) {
        const row = [...this.rows.values()].at(Math.min(at, this.rows.size - 1));
        (row?.control() ?? this.alarmTitle).focus();
    }

    exported() {
        const events = this.shown(), column = (name, value) => ({ name, values: events.map(value) });
        if (events.length === 0)
            return null;
        return { name: "convolvd-events", title: "events", facts: { events: events.length }, panels: [], numeric: false,
            columns: [column("number", (e) => e.number), column("realtime_ns", (e) => String(e.realtime_ns)), column("severity", (e) => e.severity ?? ""), column("kind", (e) => e.kind ?? ""),
                column("stream", (e) => e.stream ?? ""), column("epoch", (e) => e.epoch ?? ""), column("frame", (e) => e.frame ?? ""), column("text", (e) => e.text ?? ""), column("who", (e) => e.who ?? "")] };
    }

    close() {
        this.listeners.abort();
    }
}

function row(event) {
    const severity = event.severity ?? "info";
    return h("tr", {}, h("td", { class: "number" }, clockTime(event.realtime_ns)), h("td", { class: `severity ${severity}`, title: severity }, SYMBOLS[severity] ?? "·"),
        h("td", {}, event.kind ?? ""), h("td", {}, event.stream ?? ""), h("td", { class: "number" }, event.frame !== undefined && event.frame !== null ? count(event.frame) : ""),
        h("td", { class: "text" }, event.text ?? ""), h("td", {}, event.who ?? ""));
}

export const events = { id: "events", title: "Events", parameters: PARAMETERS, create: (app, host) => new EventsView(app, host) };
