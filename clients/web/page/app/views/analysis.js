/*
 * What the views of analyses share: which analyses there are, the want for their events, and the
 * choice of one. A view is shown in the tabs only where the configuration has an analysis for it.
 */
import { ask } from "../wire/commands.js";
import { h } from "../ui/dom.js";
import { decodeSamples, fieldLabel } from "../model/analysis.js";
import { plain } from "../model/units.js";

/* A panel for the values of one event, in as many columns as there is room for. */
export class ValueList {
    constructor(host, label) {
        this.list = h("dl", { class: "values" });
        this.panel = h("section", { class: "panel", "aria-label": label, hidden: true }, this.list);
        host.append(this.panel);
    }

    /* fields: as the analysis has them, in order; first: [[name, text]] before them. */
    write(event, fields, first = []) {
        const row = (name, text, title) => h("div", {}, h("dt", { title }, name), h("dd", {}, text));
        this.panel.hidden = false;
        this.list.replaceChildren(...first.map(([name, text]) => row(name, text)), ...fields.map((field) => {
            const { label, unit } = fieldLabel(field), value = event.values?.[field.name];
            return row(label, value === null || value === undefined ? "–" : `${plain(value, 5)} ${unit}`, field.sentence ?? "");
        }));
    }
}

/* Events and the time up to which they are shown: while the page is paused, those of before, whatever still comes. */
export class StandStill {
    constructor(app) {
        this.app = app;
    }

    of(events) {
        if (!this.app.paused || !this.kept)
            this.kept = { events: [...events], endNs: this.app.status?.realtime_ns ?? events.at(-1)?.arrival_ns ?? 0 };
        return this.kept;
    }

    forget() {
        this.kept = null;
    }
}

export class AnalysisSource {
    /* kinds: those of the view, such as ["hit"]; changed(): analyses or events are new. */
    constructor(app, kinds, changed) {
        this.app = app;
        this.kinds = kinds;
        this.changed = changed;
        this.list = [];
        this.listeners = new AbortController();
        const on = (type, take) => app.addEventListener(type, take, { signal: this.listeners.signal });
        on("hits", () => changed());
        on("analyses", () => this.take());
        this.id = app.link.want({ view: "hits" }, { picture: () => {}, refused: (text) => { this.refusal = text; changed(); } });
        app.learnAnalyses();
        this.take();
    }

    take() {
        this.list = this.app.analyses.filter((analysis) => this.kinds.includes(analysis.kind));
        this.changed();
    }

    /* The one of the URL, else that of the chosen stream, else the first. */
    chosen() {
        const name = this.app.parameters.analysis, stream = this.app.streamName();
        return this.list.find((a) => a.name === name) ?? this.list.find((a) => a.stream === stream) ?? this.list[0];
    }

    events(channels = null) {
        const analysis = this.chosen();
        return analysis ? this.app.analysisEvents.of(analysis.name, channels) : [];
    }

    /* The samples of an event: {ok, values, first_sample, rate_hz, unit, event}; long ones come in parts. */
    async samples(event) {
        const parts = [];
        for (let from = 0; ;) {
            const answer = await ask("transient", { analysis: event.analysis, number: event.number, from });
            if (!answer.ok)
                return answer;
            parts.push(decodeSamples(answer.samples));
            from += parts.at(-1).length;
            if (from >= (answer.sample_count ?? from) || parts.at(-1).length === 0) {
                const values = new Float32Array(from);
                parts.reduce((at, part) => (values.set(part, at), at + part.length), 0);
                return { ...answer, values };
            }
        }
    }

    close() {
        this.listeners.abort();
        this.app.link.drop(this.id);
    }
}

/* The options of a select over the analyses of a source. */
export function analysisControl(controls, source) {
    const select = controls.select("analysis", "Analysis", [], {});
    return () => {
        const element = select.querySelector("select"), names = source.list.map((a) => a.name);
        if ([...element.options].map((o) => o.value).join() !== names.join())
            element.replaceChildren(...names.map((name) => new Option(name, name)));
        element.value = source.chosen()?.name ?? "";
    };
}
