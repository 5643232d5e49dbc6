/*
 * Controls bound to parameters of the URL: they show what the URL says and change it. Each builder
 * returns an element with a `sync` function, which Controls calls after every change.
 */
import { h } from "./dom.js";
import { parseLevel, parseQuantity, siTrimmed } from "../model/units.js";

export class Controls {
    constructor(app, host) {
        this.app = app;
        this.element = h("div", { class: "controls panel" });
        this.syncs = [];
        host.append(this.element);
    }

    add(element, sync) {
        this.element.append(element);
        if (sync) {
            this.syncs.push(sync);
            sync(this.app.parameters);
        }
        return element;
    }

    sync() {
        for (const sync of this.syncs)
            sync(this.app.parameters);
    }

    /* options: [[value, text]]; read and write turn the parameter into the option's text value. */
    select(name, label, options, { read = String, write = (v) => v, hidden } = {}) {
        const select = h("select", { name, onchange: () => this.app.set({ [name]: write(select.value) }) },
            options.map(([value, text]) => h("option", { value }, text)));
        const element = h("label", {}, label, select);
        return this.add(element, (parameters) => {
            const value = read(parameters[name]);
            if (![...select.options].some((option) => option.value === value))
                select.append(h("option", { value }, value));
            select.value = value;
            element.hidden = hidden?.(parameters) ?? false;
        });
    }

    /* A number with a unit, typed: "2 ms". unit: text or a function → text. fullScale: a function; the value is a level then. */
    quantity(name, label, { unit = "", fullScale, low = -Infinity, high = Infinity, placeholder = "", hidden, optional = false, integer = false } = {}) {
        const unitNow = () => typeof unit === "function" ? unit() : unit;
        const show = (value) => value === null || value === undefined ? "" : unitNow() ? siTrimmed(value, unitNow()) : String(value);
        const input = h("input", { type: "text", name, placeholder, inputmode: unit ? "text" : "numeric", autocomplete: "off", spellcheck: "false" });
        const take = () => {
            if (optional && input.value.trim() === "") {
                input.classList.remove("wrong");
                return this.app.set({ [name]: null });
            }
            const value = fullScale ? parseLevel(input.value, unitNow(), fullScale()) : parseQuantity(input.value, unitNow());
            const good = Number.isFinite(value) && value >= low && value <= high && (!integer || Number.isInteger(value));
            input.classList.toggle("wrong", !good);
            input.title = good ? "" : fullScale ? `a level, such as 100 m${unitNow()}, 40 dB or −20 dBFS` : `a number${unitNow() ? ` in ${unitNow()}` : ""} from ${low} to ${high}`;
            if (good)
                this.app.set({ [name]: value });
        };
        input.addEventListener("change", take);
        input.addEventListener("keydown", (event) => {
            if (event.key === "Enter")
                take();
        });
        const element = h("label", {}, label, input);
        return this.add(element, (parameters) => {
            if (document.activeElement !== input || !input.classList.contains("wrong"))
                input.value = show(parameters[name]);
            element.hidden = hidden?.(parameters) ?? false;
        });
    }

    toggle(name, text, { hidden, title } = {}) {
        const button = h("button", { type: "button", title, onclick: () => this.app.set({ [name]: !this.app.parameters[name] }) }, text);
        return this.add(button, (parameters) => {
            button.setAttribute("aria-pressed", String(parameters[name]));
            button.hidden = hidden?.(parameters) ?? false;
        });
    }

    segments(name, label, options) {
        const buttons = options.map(([value, text]) => h("button", { type: "button", onclick: () => this.app.set({ [name]: value }) }, text));
        const element = h("div", { class: "labelled" }, label, h("div", { class: "row segments", role: "group", "aria-label": label }, buttons));
        return this.add(element, (parameters) => options.forEach(([value], i) => buttons[i].setAttribute("aria-pressed", String(parameters[name] === value))));
    }

    button(text, title, action) {
        return this.add(h("button", { type: "button", title, onclick: action }, text));
    }

    /*
     * Channels as chips. count() → how many there are now, nameOf(index), colourOf(index or null);
     * most: how many may be chosen at once (1: a choice).
     */
    channels(name, { count, nameOf, colourOf, most }) {
        const chips = h("div", { class: "row chips", role: "group", "aria-label": "Channels" });
        const element = h("div", { class: "labelled" }, "Channels", chips);
        let shown = -1;
        const press = (channel) => {
            const chosen = this.app.parameters[name];
            if (most === 1)
                return this.app.set({ [name]: [channel] });
            const next = chosen.includes(channel) ? chosen.filter((c) => c !== channel) : [...chosen, channel].sort((a, b) => a - b);
            if (next.length > 0)
                this.app.set({ [name]: next.slice(-most) });
        };
        return this.add(element, (parameters) => {
            const total = count();
            if (shown !== total) {
                chips.replaceChildren(...Array.from({ length: total }, (_, i) => h("button", { type: "button", title: `channel ${i + 1}`, onclick: () => press(i + 1) }, nameOf(i))));
                shown = total;
            }
            [...chips.children].forEach((chip, i) => {
                const at = parameters[name].indexOf(i + 1);
                chip.setAttribute("aria-pressed", String(at >= 0));
                chip.style.setProperty("--chip", at >= 0 ? colourOf?.(i) ?? "" : "");
                if (chip.textContent !== nameOf(i))
                    chip.textContent = nameOf(i);
            });
        });
    }
}

/* Time windows of an instrument: 1-2-5, as options of a select. */
export function timeSteps(low, high) {
    const steps = [];
    for (let power = -7; power <= 3; power++)
        for (const digit of [1, 2, 5]) {
            const value = Number((digit * 10 ** power).toPrecision(3));
            if (value >= low && value <= high)
                steps.push([String(value), siTrimmed(value, "s")]);
        }
    return steps;
}
