/*
 * Cursors A and B: kept in the URL as `a` and `b`, shown on one or more plots of the same x axis,
 * read as a table: for each curve the value at A, at B and the difference; above it the positions,
 * their difference and, for times, its inverse.
 */
import { h, setText } from "./dom.js";
import { si } from "../model/units.js";

export const CURSOR_PARAMETERS = {
    a: { type: "number", default: null },
    b: { type: "number", default: null },
};

const READ_MS = 150;

export class Cursors {
    /*
     * options: {xUnit, digits, plots() → [LinePlot], rows() → [{name, colour, unit, plot, curve, extra: [[label, text]]}],
     * extras: [label] of the extra columns, inverse: bool}
     */
    constructor(app, host, options) {
        this.app = app;
        this.options = options;
        this.active = "a";
        this.readAt = 0;
        this.positions = {};
        this.line = h("div", {}, ["A", "B", "B − A", ...(options.inverse ? ["1/(B − A)"] : [])].map((name) => {
            const value = h("td", { "data-cursor": { A: "a", B: "b", "B − A": "difference", "1/(B − A)": "inverse" }[name] });
            this.positions[name] = value;
            return h("tr", {}, h("th", {}, name), value);
        }));
        const table = h("table", {}, [...this.line.children]);
        this.head = h("tr", {}, ["", "at A", "at B", "B − A", ...(options.extras ?? [])].map((text) => h("th", {}, text)));
        this.body = h("tbody", {});
        this.hint = h("span", { class: "caption" }, "click: cursor A · Shift + click: cursor B · keys a b c, ← →");
        this.element = h("div", { class: "readings panel" }, table, h("div", { class: "scroll" }, h("table", {}, h("thead", {}, this.head), this.body)), this.hint);
        host.append(this.element);
        this.rows = [];
        this.keys = [
            ["a", "cursor A", () => this.choose("a")], ["b", "cursor B", () => this.choose("b")],
            ["c", "remove the cursors", () => app.set({ a: null, b: null })],
            ["ArrowLeft", "move the cursor, with Shift ten steps", (event) => this.move(event.shiftKey ? -10 : -1)],
            ["ArrowRight", "the same to the right", (event) => this.move(event.shiftKey ? 10 : 1)],
        ];
    }

    /* Handlers for LinePlot's options. */
    handlers() {
        return {
            onclick: (x, _, event) => this.place(event.shiftKey ? "b" : "a", x),
            oncursor: (name, x) => this.place(name, x),
        };
    }

    place(name, x) {
        this.active = name;
        this.app.set({ [name]: x });
    }

    choose(name) {
        this.active = name;
        if (this.app.parameters[name] === null) {
            const plot = this.options.plots()[0], [low, high] = plot.shownX();
            this.place(name, plot.fromAxis(low + (high - low) * (name === "a" ? 0.4 : 0.6)));
        }
    }

    move(steps) {
        const plot = this.options.plots()[0], x = this.app.parameters[this.active];
        if (x === null)
            return this.choose(this.active);
        const [low, high] = plot.shownX(), step = (high - low) / Math.max(100, plot.area().w);
        this.place(this.active, plot.fromAxis(plot.toAxis(x) + steps * step));
    }

    sync() {
        const { a, b } = this.app.parameters;
        for (const plot of this.options.plots())
            plot.setCursors({ a, b });
        this.readAt = 0;
    }

    /* Writes the readings, at most some times a second. */
    read(now) {
        if (now - this.readAt < READ_MS)
            return;
        this.readAt = now;
        const { a, b } = this.app.parameters, { xUnit, digits = 6, inverse } = this.options;
        const text = (x) => x === null ? "–" : si(x, xUnit, digits), both = a !== null && b !== null;
        setText(this.positions.A, text(a));
        setText(this.positions.B, text(b));
        setText(this.positions["B − A"], both ? si(b - a, xUnit, digits) : "–");
        if (inverse)
            setText(this.positions["1/(B − A)"], both && a !== b ? si(1 / Math.abs(b - a), "Hz", digits) : "–");
        const rows = this.options.rows();
        while (this.rows.length < rows.length)
            this.addRow();
        while (this.rows.length > rows.length)
            this.rows.pop().element.remove();
        rows.forEach((row, i) => this.writeRow(this.rows[i], row, a, b));
    }

    addRow() {
        const swatch = h("span", { class: "swatch" }), name = h("span", {}), cells = ["a", "b", "difference", ...(this.options.extras ?? [])].map((key) => h("td", { "data-value": key }));
        const element = h("tr", {}, h("th", { scope: "row" }, swatch, name), cells);
        this.body.append(element);
        this.rows.push({ element, swatch, name, cells });
    }

    writeRow(shown, row, a, b) {
        shown.swatch.style.setProperty("--swatch", row.colour);
        setText(shown.name, row.name);
        const at = (x) => x === null || !row.plot.scene ? NaN : row.plot.valueAt(row.curve, x);
        const va = at(a), vb = at(b), format = row.format ?? ((value) => si(value, row.unit, 4));
        [va, vb, vb - va].forEach((value, i) => setText(shown.cells[i], Number.isFinite(value) ? format(value, i === 2) : "–"));
        (row.extra ?? []).forEach((text, i) => setText(shown.cells[3 + i], text));
    }
}
