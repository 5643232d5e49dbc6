/*
 * What the page knows, for all views: the connection, the latest status and levels, events, the
 * role, and the parameters of the URL. Views listen; nothing here touches the document.
 *
 * Events (CustomEvent): "status", "levels", "event", "role", "state" (connection, daemon, pause),
 * "parameters" (detail: Set of names that changed), "shed", "analyses" (which there are), "hits"
 * (events of analyses).
 */
import { Link } from "./wire/link.js";
import { ask, command } from "./wire/commands.js";
import { EventStore } from "./model/analysis.js";
import { History } from "./model/history.js";
import { mergeLevels } from "./model/levels.js";
import { formatHash, readParameters, splitHash } from "./model/address.js";

const EVENTS_KEPT = 2000;
/* Levels and status older than this are "no data". */
export const STALE_MS = 2500;

export const COMMON = {
    stream: { type: "text", default: "" },
    level: { type: "choice", choices: ["db", "unit", "fs"], default: "db" },
};

export class App extends EventTarget {
    constructor(views) {
        super();
        this.views = new Map(views.map((view) => [view.id, view]));
        this.status = null;
        this.statusAt = -Infinity;
        this.daemon = { up: false, reason: "" };
        this.role = "observe";
        this.holder = "";
        this.mayLogin = false;
        this.causes = [];
        this.version = "";
        this.commands = null;
        this.levels = new Map();
        this.histories = new Map();
        this.events = [];
        this.eventNumbers = new Set();
        this.missedEvents = 0;
        this.analyses = [];
        this.analysisEvents = new EventStore();
        this.shed = 0;
        this.paused = false;
        this.readHash();
        window.addEventListener("hashchange", () => this.hashChanged());
        const address = new URL("api/v1/live", location.href);
        address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
        address.hash = "";
        this.link = new Link(address.href);
        this.listen();
        document.addEventListener("visibilitychange", () => this.link.suspend(this.paused || document.hidden));
    }

    tell(type, detail = {}) {
        this.dispatchEvent(new CustomEvent(type, { detail }));
    }

    on(type, listener) {
        this.addEventListener(type, (event) => listener(event.detail));
    }

    listen() {
        const on = (type, take) => this.link.addEventListener(type, (event) => take(event.detail));
        on("hello", (message) => {
            this.version = message.version ?? "";
            this.role = message.role === "control" ? "control" : "observe";
            this.holder = message.holder ?? "";
            this.mayLogin = Boolean(message.login);
            this.mayChange = Boolean(message.control);
            this.causes = message.names?.causes ?? [];
            this.tell("role");
            this.learnCommands().then(() => this.learnAnalyses());
            this.readEvents();
        });
        on("status", (message) => this.takeStatus(message.status));
        on("levels", (message) => {
            this.levels.set(message.stream, { ...mergeLevels(this.levels.get(message.stream), message), at: performance.now() });
            this.tell("levels", message.stream);
        });
        on("event", (message) => this.takeEvent(message));
        on("hits", (message) => {
            this.analysisEvents.put(message);
            this.tell("hits");
        });
        on("daemon", (message) => {
            this.daemon = { up: Boolean(message.up), reason: message.reason ?? "" };
            if (!this.daemon.up)
                this.away();
            this.tell("state");
        });
        on("shed", (message) => {
            this.shed += message.pictures ?? 0;
            this.tell("shed");
        });
        on("open", () => this.tell("state"));
        on("closed", () => {
            this.away();
            this.tell("state");
        });
    }

    /* Which commands this daemon knows: the page offers no others. */
    async learnCommands() {
        const answer = await ask("commands");
        this.commands = answer.ok && Array.isArray(answer.commands) ? new Set(answer.commands.map((row) => row.name)) : null;
        this.tell("role");
    }

    /* Which analyses the configuration has: a reload may change them. */
    async learnAnalyses() {
        if (!this.commands?.has("analyses"))
            return;
        const answer = await ask("analyses");
        this.analyses = answer.ok && Array.isArray(answer.analyses) ? answer.analyses : [];
        this.tell("analyses");
    }

    /* What happened before this page was opened, or while it was away. */
    async readEvents() {
        const answer = await ask("events", { since: 0 });
        if (!answer.ok || !Array.isArray(answer.events))
            return;
        for (const item of answer.events)
            this.takeEvent(item.event ? item : { event: item });
        this.events.sort((a, b) => a.realtime_ns - b.realtime_ns);
        this.tell("event");
    }

    /* Whether a command may be given: [bool, why not]. */
    may(name) {
        if (!this.mayControl())
            return [false, this.mayLogin ? "Needs the role control: sign in" : "Needs the role control"];
        if (this.commands && !this.commands.has(name))
            return [false, `This daemon has no command ${name}`];
        return [true, ""];
    }

    away() {
        this.levels.clear();
        for (const history of this.histories.values())
            history.interrupt();
    }

    takeStatus(status) {
        if (!status)
            return;
        const running = this.startedNs(status);
        if (this.started !== undefined && Math.abs(running - this.started) > 2e9)
            this.anotherDaemon();
        this.started = running;
        this.status = status;
        this.statusAt = performance.now();
        if (!this.daemon.up)
            this.daemon = { up: true, reason: "" };
        for (const stream of status.streams ?? []) {
            if (!this.histories.has(stream.name))
                this.histories.set(stream.name, new History());
            this.histories.get(stream.name).put(stream, status.up_ns / 1e9);
        }
        this.tell("status");
    }

    /* Its counters and numbers begin anew. */
    anotherDaemon() {
        this.away();
        this.analysisEvents.clear();
        this.learnAnalyses();
    }

    startedNs(status) {
        return (status.realtime_ns ?? 0) - (status.up_ns ?? 0);
    }

    takeEvent(message) {
        if (message.missed)
            this.missedEvents += message.missed;
        const event = message.event;
        if (event?.kind === "reload")
            this.learnAnalyses();
        if (event) {
            const key = `${event.number} ${event.realtime_ns}`; /* numbers begin anew with each daemon */
            if (this.eventNumbers.has(key))
                return;
            this.eventNumbers.add(key);
            this.events.push(event);
            if (this.events.length > EVENTS_KEPT)
                this.events.splice(0, this.events.length - EVENTS_KEPT);
        }
        this.tell("event", event);
    }

    /* ---- state in words ---- */

    connected() {
        return this.link.state === "open";
    }

    fresh() {
        return this.connected() && this.daemon.up && performance.now() - this.statusAt < 2 * STALE_MS;
    }

    mayControl() {
        return this.role === "control";
    }

    setPaused(paused) {
        this.paused = paused;
        this.link.suspend(this.paused || document.hidden);
        this.tell("state");
    }

    streams() {
        return this.status?.streams ?? [];
    }

    /* The stream of the URL, else the first one. */
    streamName() {
        return this.parameters.stream || this.streams()[0]?.name || "";
    }

    stream(name = this.streamName()) {
        return this.streams().find((stream) => stream.name === name);
    }

    /* Of input channel `index` (from 0), or of an output: {name, unit, fullScale}. */
    channel(stream, index, side = "input") {
        if (side === "output") {
            const output = stream?.outputs?.[index];
            if (output)
                return { name: output.name || `${index + 1}`, unit: output.unit ?? stream.channels?.[0]?.unit ?? "", fullScale: 0 };
            return { name: `${index + 1}`, unit: stream?.channels?.[index]?.unit ?? stream?.channels?.[0]?.unit ?? "", fullScale: 0 };
        }
        const channel = stream?.channels?.[index] ?? {};
        return { name: channel.name || `${index + 1}`, unit: channel.unit ?? "", fullScale: channel.full_scale ?? 0 };
    }

    channelCount(stream, side) {
        if (!stream)
            return 0;
        return side === "output" ? stream.outputs?.length ?? stream.gains?.gain_db?.length ?? stream.channels.length : stream.channels.length;
    }

    alarms() {
        return this.status?.alarms ?? [];
    }

    activeAlarms() {
        return this.alarms().filter((alarm) => alarm.state === "active");
    }

    /* A command; with a sentence for the viewer when it is refused. */
    async command(name, body) {
        const answer = await command(name, body);
        if (!answer.ok)
            this.tell("toast", { text: `${name}: ${answer.error ?? "refused"}`, wrong: true });
        return answer;
    }

    /* ---- the URL ---- */

    table(view = this.view) {
        return { ...COMMON, ...this.views.get(view)?.parameters };
    }

    readHash() {
        const { view, values } = splitHash(location.hash);
        this.view = this.views.has(view) ? view : this.views.keys().next().value;
        this.parameters = readParameters(this.table(), values);
    }

    hashChanged() {
        const before = this.parameters, viewBefore = this.view;
        this.readHash();
        const names = new Set(Object.keys(this.parameters).filter((name) => String(before[name]) !== String(this.parameters[name])));
        if (this.view !== viewBefore)
            this.tell("view");
        else if (names.size > 0)
            this.tell("parameters", names);
    }

    /* Changes some parameters; the URL follows without a new entry in the history. */
    set(values) {
        const names = new Set();
        for (const [name, value] of Object.entries(values))
            if (String(this.parameters[name]) !== String(value)) {
                this.parameters[name] = value;
                names.add(name);
            }
        if (names.size === 0)
            return;
        history.replaceState(null, "", formatHash(this.view, this.table(), this.parameters));
        this.tell("parameters", names);
    }

    /* The address of a view, keeping what is common. */
    address(view, values = {}) {
        const table = this.table(view), parameters = readParameters(table, new Map());
        for (const name of Object.keys(COMMON))
            parameters[name] = this.parameters[name];
        return formatHash(view, table, Object.assign(parameters, values));
    }
}
