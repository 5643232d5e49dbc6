/*
 * The page: head with tabs, the view that the URL names, and the loop that draws it. Everything a
 * view needs it gets from App; it is made when its tab is opened and closed when it is left.
 */
import { App } from "./app.js";
import { h, setText } from "./ui/dom.js";
import { Transport } from "./ui/transport.js";
import { Tools } from "./ui/tools.js";
import { bindKeys } from "./ui/keys.js";
import { exportView } from "./ui/export.js";
import { overview } from "./views/overview.js";
import { scope } from "./views/scope.js";
import { ascan } from "./views/ascan.js";
import { spectrum } from "./views/spectrum.js";
import { latency } from "./views/latency.js";
import { filters } from "./views/filters.js";
import { events } from "./views/events.js";
import { hits } from "./views/hits.js";
import { location as sources } from "./views/location.js";
import { gates, vibration } from "./views/trace.js";
import { clockTime, count } from "./model/units.js";

/* The last ones are shown where the configuration has an analysis of their kind. */
const VIEWS = [overview, scope, ascan, spectrum, latency, filters, events, hits, sources, gates, vibration];
/* 30 a second is as smooth as an instrument needs; the processor belongs to the measurement. */
const FRAME_MS = 1000 / 30;

class Page {
    constructor() {
        this.app = new App(VIEWS);
        this.host = document.getElementById("view");
        this.banner = document.getElementById("banner");
        this.foot = document.getElementById("foot");
        this.drawn = 0;
        this.drawnBefore = [0, performance.now()];
        this.lastDraw = 0;
        this.makeTabs();
        this.toasts = h("div", { class: "toasts", role: "status" });
        document.body.append(this.toasts);
        this.transport = new Transport(this.app, document.getElementById("transport"));
        this.tools = new Tools(this.app, document.getElementById("tools"), (format) => this.export(format));
        bindKeys(this.app, VIEWS, this);
        this.app.on("toast", (toast) => this.toast(toast));
        this.app.on("view", () => this.openView());
        this.app.on("analyses", () => this.syncTabs());
        this.app.on("parameters", (names) => this.parametersChanged(names));
        for (const type of ["status", "state", "role", "event"])
            this.app.on(type, () => this.syncFrame());
        this.openView();
        this.syncFrame();
        setInterval(() => this.syncFrame(), 1000);
        this.app.link.connect();
        requestAnimationFrame((now) => this.loop(now));
    }

    makeTabs() {
        this.tabs = VIEWS.map((view, i) => h("a", { title: `${view.title} (key ${i + 1})` }, view.title));
        this.badge = h("span", { class: "badge", hidden: true, title: "active alarms" });
        this.tabs[VIEWS.indexOf(events)].append(this.badge);
        document.getElementById("tabs").append(...this.tabs);
        this.syncTabs();
    }

    /* A tab without an analysis behind it would show nothing, unless somebody has its address. */
    syncTabs() {
        VIEWS.forEach((view, i) => {
            this.tabs[i].hidden = Boolean(view.kind) && view.id !== this.app.view && !this.app.analyses.some((analysis) => analysis.kind === view.kind);
        });
    }

    openView() {
        this.view?.close();
        this.host.replaceChildren();
        const definition = this.app.views.get(this.app.view);
        this.syncTabs();
        document.title = `${definition.title} · convolvd`;
        this.view = definition.create(this.app, this.host);
        this.parametersChanged(new Set());
        this.tabs[VIEWS.indexOf(definition)].scrollIntoView({ block: "nearest", inline: "nearest" });
    }

    parametersChanged(names) {
        this.view.parametersChanged?.(names);
        VIEWS.forEach((view, i) => {
            this.tabs[i].href = this.app.address(view.id);
            if (view.id === this.app.view)
                this.tabs[i].setAttribute("aria-current", "page");
            else
                this.tabs[i].removeAttribute("aria-current");
        });
        this.transport.sync();
    }

    /* What is true of every view: is there a connection, a daemon, fresh figures? */
    syncFrame() {
        const app = this.app, alarms = app.activeAlarms().length;
        setText(this.badge, String(alarms));
        this.badge.hidden = alarms === 0;
        let text = "";
        if (app.link.tries > 0 && !app.connected())
            text = "Not connected: convolv-web does not answer. What is shown is old; the page tries again by itself.";
        else if (app.connected() && !app.daemon.up && app.daemon.reason)
            text = `The daemon is away: ${app.daemon.reason}. What is shown is old.`;
        else if (app.connected() && app.status && !app.fresh())
            text = "No status for some seconds: what is shown is old.";
        setText(this.banner, text);
        this.banner.hidden = text === "";
        document.body.classList.toggle("old", text !== "");
        this.syncFoot();
        this.transport.sync();
        this.tools.sync();
    }

    syncFoot() {
        const app = this.app, now = performance.now(), [before, at] = this.drawnBefore;
        if (now - at > 900) {
            this.framesPerSecond = (this.drawn - before) * 1000 / (now - at);
            this.drawnBefore = [this.drawn, now];
        }
        const parts = [app.version && `convolvd ${app.status?.version ?? app.version}`,
            app.status && `daemon's clock ${clockTime(app.status.realtime_ns)}`,
            `${Math.round(this.framesPerSecond ?? 0)} drawn/s`,
            app.shed > 0 && `${count(app.shed)} pictures left out`,
            app.missedEvents > 0 && `${count(app.missedEvents)} events missed`,
            app.link.malformed > 0 && `${count(app.link.malformed)} unreadable messages`].filter(Boolean);
        setText(this.foot, parts.join("  ·  "));
        document.documentElement.dataset.drawn = String(this.drawn);
    }

    loop(now) {
        requestAnimationFrame((next) => this.loop(next));
        if (now - this.lastDraw < FRAME_MS - 2)
            return;
        this.lastDraw = now;
        if (this.view.draw(now))
            this.drawn++;
    }

    async export(format) {
        await exportView(this.app, this.view, format);
    }

    toast({ text, wrong }) {
        const toast = h("div", { class: wrong ? "toast wrong" : "toast" }, text);
        this.toasts.append(toast);
        setTimeout(() => toast.remove(), wrong ? 9000 : 4000);
    }
}

/* dygraphs comes as a classic script: deferred ones and modules run in the order of the document,
 * but a module may run first where it is cached, so wait for it. */
window.addEventListener("load", () => {
    const Dygraph = window.Dygraph;
    if (!Dygraph) {
        document.getElementById("view").replaceChildren(h("p", { class: "empty" },
            "dygraphs/dygraph.min.js is missing: install libjs-dygraphs on the machine that runs convolv-web."));
        return;
    }
    /* Its legend and titles write HTML with style attributes, which the page's policy forbids; the
     * page has its own. */
    const { Legend, ChartLabels, RangeSelector } = Dygraph.Plugins;
    Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => ![Legend, ChartLabels, RangeSelector].includes(plugin));
    window.convolv = new Page();
});
