/*
 * Colours: those of the theme for canvases (read from the style sheet), those of channels, and the
 * map of images. Channels carry their number at the end of their line (labels.js), from the ninth on
 * dashes too, their points have marks of their own, and the map rises evenly in lightness, so that nothing rests on hue alone.
 */

/* After Okabe and Ito's set for colour-blind readers, each moved in lightness for its background. */
const CHANNELS = {
    dark: ["#5cb8f0", "#f0a830", "#2ec49a", "#e68ac0", "#f2e25c", "#f07840", "#9aa8ff", "#d8dee6"],
    light: ["#0a6ab0", "#b06000", "#007a58", "#a8407f", "#7a6c00", "#c04000", "#4a50c8", "#303840"],
};
const DASHES = [null, [8, 3], [2, 3], [9, 3, 2, 3]];

let tokens = null;

/* Call after the theme has changed. */
export function forgetTheme() {
    tokens = null;
}

/* {dark, and the variables of style/theme.css by their names} */
export function theme() {
    if (tokens === null) {
        const style = getComputedStyle(document.documentElement);
        tokens = { dark: style.getPropertyValue("--scheme").trim() === "dark" };
        for (const name of ["text", "muted", "grid", "line", "plot", "panel", "raised", "edge", "accent", "good", "warn", "bad", "invalid", "well"])
            tokens[name] = style.getPropertyValue(`--${name}`).trim();
    }
    return tokens;
}

/* Of channel `index` (from 0). */
export function channelColour(index) {
    const set = CHANNELS[theme().dark ? "dark" : "light"];
    return set[index % set.length];
}

export function channelDash(index) {
    return DASHES[Math.floor(index / CHANNELS.dark.length) % DASHES.length];
}

/* The marks of points, as text; draw/points.js has their outlines in the same order. */
export const MARKS = ["●", "■", "◆", "▲", "▼", "◀", "▶", "★"];

/* The mark of channel `index`, a number of MARKS: with its colour it is that of no other one of 64. */
export function channelMark(index) {
    return (index + Math.floor(index / CHANNELS.dark.length)) % MARKS.length;
}

/* ---- the map of images: lightness rises evenly from dark blue over grey to yellow (OKLab) ---- */

const STOPS = [[0.16, 0.0, -0.055], [0.34, -0.012, -0.105], [0.52, -0.012, -0.045], [0.70, -0.012, 0.045], [0.84, -0.012, 0.12], [0.95, -0.02, 0.15]];

function okLabToRgb([lightness, a, b]) {
    const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
    const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
    const s = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
    const linear = [4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
        -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
        -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s];
    return linear.map((c) => Math.round(255 * Math.min(1, Math.max(0, c <= 0.0031308 ? 12.92 * c : 1.055 * c ** (1 / 2.4) - 0.055))));
}

/* 256 colours as the pixels of an ImageData in a Uint32Array (little endian: ABGR). */
export const IMAGE_MAP = (() => {
    const map = new Uint32Array(256);
    for (let i = 0; i < 256; i++) {
        const at = i / 255 * (STOPS.length - 1), left = Math.min(STOPS.length - 2, Math.floor(at)), t = at - left;
        const [r, g, b] = okLabToRgb(STOPS[left].map((v, k) => v + (STOPS[left + 1][k] - v) * t));
        map[i] = 0xff000000 | (b << 16) | (g << 8) | r;
    }
    return map;
})();

/* A pattern of slanted lines: "this is invalid" on every canvas. */
const patterns = new Map();
export function hatch(context, colour) {
    const ratio = window.devicePixelRatio || 1, key = `${colour} ${ratio}`;
    let tile = patterns.get(key);
    if (!tile) {
        const size = Math.round(7 * ratio);
        tile = document.createElement("canvas");
        tile.width = tile.height = size;
        const c = tile.getContext("2d");
        c.strokeStyle = colour;
        c.lineWidth = Math.max(1, ratio);
        c.beginPath();
        for (const offset of [-size, 0, size]) {
            c.moveTo(offset - 1, size + 1);
            c.lineTo(offset + size + 1, -1);
        }
        c.stroke();
        patterns.set(key, tile);
    }
    const pattern = context.createPattern(tile, "repeat");
    pattern.setTransform(new DOMMatrix([1 / ratio, 0, 0, 1 / ratio, 0, 0]));
    return pattern;
}
