/*
 * A panel that holds one plot or image, with a heading: title, a note in figures, an alert.
 */
import { h, setHidden, setText } from "./dom.js";

export function plotPanel(host, title) {
    const heading = { title: h("h3", {}, title), note: h("span", { class: "note" }), alert: h("span", { class: "alert", hidden: true }) };
    const element = h("section", { class: "panel plot-panel", "aria-label": title }, h("div", { class: "heading" }, heading.title, heading.note, heading.alert));
    host.append(element);
    return {
        element,
        title: (text) => setText(heading.title, text),
        note: (text) => setText(heading.note, text),
        alert: (text) => {
            setText(heading.alert, text ?? "");
            setHidden(heading.alert, !text);
        },
    };
}
