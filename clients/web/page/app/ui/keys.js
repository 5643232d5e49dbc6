/*
 * The keyboard. One table drives the keys and the help; a view adds its own by `keys`:
 * [[key, what it does, action]]. Keys do nothing while text is typed.
 */
import { h } from "./dom.js";

let table = [];
let viewKeys = () => [];

export function bindKeys(app, views, page) {
    table = [
        [`1 – ${Math.min(9, views.length)}`, "the views, from left to right", null],
        [" ", "pause and go on", () => app.setPaused(!app.paused)],
        ["r", "start or stop recording", () => page.transport.toggleRecording()],
        ["m", "write a mark", () => page.transport.focusMark()],
        ["s", "next stream", () => nextStream(app)],
        ["t", "light or dark", () => page.tools.changeTheme()],
        ["e", "export what is shown", () => page.tools.exportButton.click()],
        ["?", "this help", helpDialog],
    ];
    viewKeys = () => page.view.keys ?? [];
    document.addEventListener("keydown", (event) => {
        const typing = event.target.closest("input:not([type=range]), select, textarea, dialog");
        if (event.key === "Escape" && typing && !typing.matches("dialog"))
            event.target.blur();
        if (typing || event.ctrlKey || event.metaKey || event.altKey)
            return;
        const number = Number(event.key);
        if (number >= 1 && number <= Math.min(9, views.length))
            location.hash = app.address(views[number - 1].id);
        const row = [...viewKeys(), ...table].find(([key, , action]) => key === event.key && action);
        if (row && !(event.key === " " && event.target.closest("button, a"))) {
            event.preventDefault();
            row[2](event);
        }
    });
}

function nextStream(app) {
    const names = app.streams().map((stream) => stream.name);
    if (names.length > 1)
        app.set({ stream: names[(names.indexOf(app.streamName()) + 1) % names.length] });
}

const NAMES = { " ": "space", ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓" };

export function helpDialog() {
    const row = ([key, text]) => h("tr", {}, h("td", {}, h("kbd", {}, NAMES[key] ?? key)), h("td", {}, text));
    const dialog = h("dialog", {}, h("h2", {}, "Keys"), h("table", {}, table.map(row), viewKeys().map(row)),
        h("h2", {}, "On a plot"),
        h("table", {}, [["drag", "zoom, across or along"], ["Shift + drag", "move"], ["wheel", "zoom in time or frequency"],
            ["double click", "show all"], ["click", "place cursor A, with Shift cursor B"], ["two fingers", "zoom and move"]].map(row)),
        h("form", { method: "dialog" }, h("div", { class: "actions" }, h("button", { class: "primary", autofocus: true }, "Close"))));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
}
