/*
 * Location: sources on a map over the sensors, the newest ones the largest; a click tells one, with
 * its ellipse of uncertainty, the channels that heard it and how well they agree.
 */
import { h } from "../ui/dom.js";
import { Controls } from "../ui/controls.js";
import { plotPanel } from "../ui/panel.js";
import { PointPlot } from "../draw/points.js";
import { theme } from "../draw/palette.js";
import { valueOf } from "../model/analysis.js";
import { clockTime, count } from "../model/units.js";
import { AnalysisSource, analysisControl, StandStill, ValueList } from "./analysis.js";

const POINTS = 4000;
const SPANS = [[60, "1 min"], [600, "10 min"], [3600, "1 h"], [36000, "10 h"]];

const PARAMETERS = {
    analysis: { type: "text", default: "" },
    span: { type: "number", default: 600, low: 1, high: 36000 },
};

class LocationView {
    constructor(app, host) {
        this.app = app;
        const c = this.controls = new Controls(app, host);
        c.select("span", "Shown", SPANS.map(([s, text]) => [String(s), text]), { write: Number });
        this.stage = h("div", { class: "stage" });
        host.append(this.stage);
        this.panel = plotPanel(this.stage, "Sources");
        this.map = new PointPlot(this.panel.element, { label: "map of located sources", onpick: (event) => this.pick(event) });
        this.values = new ValueList(host, "Values of the chosen source");
        this.listeners = new AbortController();
        app.addEventListener("theme", () => { this.dirty = this.repaint = true; }, { signal: this.listeners.signal });
        this.source = new AnalysisSource(app, ["source"], () => { this.dirty = true; });
        this.still = new StandStill(app);
        this.syncAnalysis = analysisControl(this.controls, this.source);
    }

    parametersChanged(names) {
        this.controls.sync();
        if (names.has("analysis") || names.has("channels"))
            this.still.forget();
        if (names.has("analysis"))
            this.map.zoom(null, null);
        this.dirty = true;
    }

    pick(event) {
        this.chosenEvent = event;
        const fields = this.source.chosen()?.fields ?? Object.keys(event.values ?? {}).map((name) => ({ name }));
        this.values.write(event, fields.filter((field) => Number.isFinite(event.values?.[field.name] ?? NaN)),
            [["time", clockTime(event.arrival_ns)], ["flags", (event.flags ?? []).join(", ") || "none"]]);
        this.dirty = true;
    }

    /* What lies under the sources: the searched extent and the sensors with their channel. */
    shapes(settings, context, px, py) {
        const { extent, sensors } = settings;
        if (extent) {
            context.strokeStyle = theme().line;
            context.setLineDash([5, 4]);
            context.strokeRect(px(extent[0] * 1000), py(extent[3] * 1000), px(extent[2] * 1000) - px(extent[0] * 1000), py(extent[1] * 1000) - py(extent[3] * 1000));
            context.setLineDash([]);
        }
        context.font = "12px system-ui, sans-serif";
        (sensors ?? []).forEach((place, i) => {
            if (!place)
                return;
            const x = px(place[0] * 1000), y = py((place[1] ?? 0) * 1000);
            context.fillStyle = theme().text;
            context.fillRect(x - 5, y - 5, 10, 10);
            context.fillText(`${i + 1}`, x + 8, y - 6);
        });
        const event = this.chosenEvent, sx = event?.values?.sigma_x_mm, sy = event?.values?.sigma_y_mm;
        if (Number.isFinite(sx) && Number.isFinite(sy))
            ellipse(context, px, py, event.values);
    }

    draw() {
        this.syncAnalysis();
        const analysis = this.source.chosen();
        this.panel.alert(analysis ? "" : this.source.refusal ?? "no analysis of type location is configured");
        if (!this.dirty || !analysis || (this.app.paused && !this.repaint))
            return false;
        this.dirty = this.repaint = false;
        const { events, endNs } = this.still.of(this.source.events());
        const shown = events.filter((event) => event.arrival_ns > endNs - this.app.parameters.span * 1e9).slice(-POINTS);
        const points = shown.map((event, i) => ({ x: valueOf(event, "x_mm"), y: Number.isFinite(valueOf(event, "y_mm")) ? valueOf(event, "y_mm") : 0,
            colour: (event.flags ?? []).includes("ambiguous") ? theme().warn : theme().accent, ring: (event.flags ?? []).length > 0,
            radius: event === this.chosenEvent ? 7 : i > shown.length - 20 ? 4 : 2.5, data: event })).filter((point) => Number.isFinite(point.x));
        const settings = analysis.settings ?? {}, [xRange, yRange] = rangesOf(settings, points);
        this.map.show({ points, xRange, yRange, equal: true, xLabel: "x [mm]", yLabel: "y [mm]", shapes: (...context) => this.shapes(settings, ...context) });
        this.panel.note(`${count(points.length)} sources · squares: sensors · rings: flagged, in the warning colour ambiguous · click one`);
        return true;
    }

    exported() {
        const { events } = this.still.of(this.source.events()), analysis = this.source.chosen();
        if (!analysis || events.length === 0)
            return null;
        const names = (analysis.fields ?? []).map((field) => field.name);
        return { name: `convolvd-${analysis.name}-sources`, title: `${analysis.name}: sources`, facts: { analysis: analysis.name, sources: events.length }, numeric: false,
            columns: [{ name: "number", values: events.map((e) => e.number) }, { name: "arrival_ns", values: events.map((e) => String(e.arrival_ns)) },
                ...names.map((name) => ({ name, values: events.map((e) => valueOf(e, name)) })), { name: "flags", values: events.map((e) => (e.flags ?? []).join(" ")) }],
            panels: [this.map.figure()] };
    }

    close() {
        this.listeners.abort();
        this.source.close();
        this.map.close();
    }
}

/* [x range, y range] in mm around extent, sensors and sources, with a margin. */
function rangesOf({ extent, sensors }, points) {
    const xs = points.map((p) => p.x), ys = points.map((p) => p.y);
    if (extent) {
        xs.push(extent[0] * 1000, extent[2] * 1000);
        ys.push(extent[1] * 1000, extent[3] * 1000);
    }
    for (const place of sensors ?? [])
        if (place) {
            xs.push(place[0] * 1000);
            ys.push((place[1] ?? 0) * 1000);
        }
    const around = (values) => {
        if (values.length === 0)
            return [0, 1];
        const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b)), margin = Math.max((high - low) * 0.06, 1);
        return [low - margin, high + margin];
    };
    return [around(xs), around(ys)];
}

/* Where the source lies with one standard uncertainty of each axis, from both and their correlation. */
function ellipse(context, px, py, { x_mm: x, y_mm: y, sigma_x_mm: sx, sigma_y_mm: sy, correlation }) {
    const rho = Number.isFinite(correlation) ? correlation : 0;
    context.strokeStyle = theme().text;
    context.lineWidth = 1;
    context.beginPath();
    for (let i = 0; i <= 72; i++) {
        const angle = i / 36 * Math.PI, u = Math.cos(angle), v = rho * u + Math.sqrt(Math.max(0, 1 - rho * rho)) * Math.sin(angle);
        const [cx, cy] = [px(x + sx * u), py(y + sy * v)];
        if (i === 0)
            context.moveTo(cx, cy);
        else
            context.lineTo(cx, cy);
    }
    context.stroke();
}

export const location = { id: "location", title: "Location", kind: "source", parameters: PARAMETERS, create: (app, host) => new LocationView(app, host) };
