/*
 * The theme before the first paint: not a module, so that it runs while the head is read.
 * The chosen one, else the system's; ui/theme.js follows later changes.
 */
{
    let chosen = null;
    try {
        chosen = localStorage.getItem("convolv.theme");
    } catch { /* no storage: the system's theme */ }
    if (chosen !== "dark" && chosen !== "light")
        chosen = matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark";
    document.documentElement.dataset.theme = chosen;
}
