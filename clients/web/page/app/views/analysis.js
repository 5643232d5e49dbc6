/*
 * What the views of analyses share: which analyses there are, the want for their events, and the
 * choice of one. A view is shown in the tabs only where the configuration has an analysis for it.
 */
import { ask } from "../wire/commands.js";
import { decodeSamples } from "../model/analysis.js";

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
