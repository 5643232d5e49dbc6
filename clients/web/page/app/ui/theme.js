/*
 * Dark or light: the system's, until the viewer chooses one. theme-first.js applied it before.
 */
import { forgetTheme } from "../draw/palette.js";

const STORED = "convolv.theme";

function stored() {
    try {
        return localStorage.getItem(STORED);
    } catch {
        return null;
    }
}

export function followSystem(changed) {
    matchMedia("(prefers-color-scheme: light)").addEventListener("change", (event) => {
        if (!stored())
            apply(event.matches ? "light" : "dark", changed);
    });
}

function apply(name, changed) {
    document.documentElement.dataset.theme = name;
    forgetTheme();
    changed();
}

export function toggleTheme(changed) {
    const name = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
        localStorage.setItem(STORED, name);
    } catch { /* for this visit only */ }
    apply(name, changed);
}
