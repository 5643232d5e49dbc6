/*
 * The right of the head: connection lamp, pause, export, theme, help, sign in.
 */
import { h, icon, setClass, setIcon, setText } from "./dom.js";
import { command } from "../wire/commands.js";
import { followSystem, toggleTheme } from "./theme.js";
import { helpDialog } from "./keys.js";

export const FORMATS = [["png", "PNG picture"], ["svg", "SVG drawing"], ["csv", "CSV table"], ["npy", "NumPy .npy"]];

export class Tools {
    constructor(app, host, exportAs) {
        this.app = app;
        this.lamp = h("span", { class: "lamp" });
        this.pauseIcon = icon("pause");
        this.pause = h("button", { class: "quiet", type: "button", title: "Pause (space)", "aria-label": "Pause",
            onclick: () => app.setPaused(!app.paused) }, this.pauseIcon);
        this.menu = h("div", { hidden: true, role: "menu" }, FORMATS.map(([format, text]) => h("button",
            { type: "button", role: "menuitem", "data-format": format, onclick: () => {
                this.menu.hidden = true;
                exportAs(format);
            } }, text)));
        this.exportButton = h("button", { class: "quiet", type: "button", title: "Export what is shown", "aria-label": "Export",
            "aria-haspopup": "menu", onclick: () => { this.menu.hidden = !this.menu.hidden; } }, icon("export"));
        const theme = h("button", { class: "quiet", type: "button", title: "Light or dark (t)", "aria-label": "Light or dark",
            onclick: () => this.changeTheme() }, icon("theme"));
        const help = h("button", { class: "quiet", type: "button", title: "Keys (?)", "aria-label": "Keys", onclick: helpDialog }, icon("help"));
        this.signText = h("span", {});
        this.sign = h("button", { class: "quiet", type: "button", id: "sign-in", onclick: () => this.signIn() }, icon("key"), this.signText);
        host.append(this.lamp, this.pause, h("div", { class: "menu" }, this.exportButton, this.menu), theme, help, this.sign);
        document.addEventListener("pointerdown", (event) => {
            if (!event.target.closest(".menu"))
                this.menu.hidden = true;
        });
        followSystem(() => app.tell("theme"));
    }

    changeTheme() {
        toggleTheme(() => this.app.tell("theme"));
    }

    sync() {
        const app = this.app;
        const [state, text] = !app.connected() ? ["lamp down", "not connected"]
            : !app.daemon.up ? ["lamp down", "daemon away"]
                : app.paused ? ["lamp warn", "paused"] : ["lamp live", "live"];
        setClass(this.lamp, state);
        setText(this.lamp, text);
        this.pause.setAttribute("aria-pressed", String(app.paused));
        setIcon(this.pauseIcon, app.paused ? "play" : "pause");
        setText(this.signText, app.mayControl() ? app.holder || "control" : "observe");
        this.sign.title = app.mayControl() ? `Role control${app.holder ? ` as ${app.holder}` : ""}: sign out` : "Role observe: sign in to control";
        this.sign.hidden = !app.mayLogin && !app.mayControl();
    }

    async signIn() {
        if (this.app.mayControl()) {
            await command("logout");
            this.app.link.reconnect();
            return;
        }
        const input = h("input", { type: "password", autocomplete: "current-password", "aria-label": "Token", required: true });
        const message = h("div", { class: "message", role: "alert" });
        const form = h("form", {}, h("h2", {}, "Sign in"), h("label", {}, "Token (from the administrator of convolv-web)"), input, message,
            h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"),
                h("button", { type: "submit", class: "primary" }, "Sign in")));
        const dialog = h("dialog", {}, form);
        form.addEventListener("submit", async (event) => {
            event.preventDefault();
            const answer = await command("login", { token: input.value });
            input.value = "";
            if (answer.ok) {
                dialog.close();
                this.app.link.reconnect();
                return;
            }
            message.className = "message wrong";
            message.textContent = answer.error ?? "refused";
        });
        dialog.addEventListener("close", () => dialog.remove());
        document.body.append(dialog);
        dialog.showModal();
    }
}
