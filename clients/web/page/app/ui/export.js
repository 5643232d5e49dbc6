/*
 * What is shown as a file. A view answers exported() with {name, title, facts, panels (draw/figure.js),
 * columns: [{name, values}], matrix: {values, rows, columns} instead of columns for an image's .npy,
 * numeric: false where columns hold text}; null where there is nothing yet.
 */
import { download } from "./dom.js";
import { figurePng, figureSvg } from "../draw/figure.js";
import { csv, interleave, npy } from "../model/export.js";

function fileName(shown, ending) {
    const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
    return `${shown.name}-${stamp}`.replace(/[^\w.-]+/g, "_") + `.${ending}`;
}

const WRITERS = {
    png: async (shown) => [await figurePng(shown), "image/png"],
    svg: async (shown) => [figureSvg(shown), "image/svg+xml"],
    csv: async (shown) => [csv(shown.allFacts ?? shown.facts, shown.columns), "text/csv"],
    npy: async ({ matrix, columns }) => [matrix ? npy(matrix.values, matrix.rows, matrix.columns)
        : npy(interleave(columns), columns[0].values.length, columns.length), "application/octet-stream"],
};

function possible(shown, format) {
    if (format === "png" || format === "svg")
        return shown.panels.length > 0;
    return shown.columns.length > 0 && (format === "csv" || shown.numeric !== false);
}

export async function exportView(app, view, format) {
    const shown = view.exported?.();
    if (!shown || !possible(shown, format)) {
        app.tell("toast", { text: shown ? `This view has nothing for ${format.toUpperCase()}; try CSV.` : "There is nothing to export yet.", wrong: true });
        return;
    }
    const [data, type] = await WRITERS[format](shown);
    download(fileName(shown, format), [data], type);
}
