/*
 * Latency histograms, one row a stage over one logarithmic time axis: bars of the buckets, lines at
 * the median, 99 % and 99.9 %, a triangle at the largest. Without buckets, the quantiles alone.
 */
import { fitCanvas } from "../ui/dom.js";
import { logTicks } from "../model/scale.js";
import { siTrimmed } from "../model/units.js";
import { channelColour, theme } from "./palette.js";

const LEFT = 92, RIGHT = 14, FOOT = 22;
const QUANTILES = [["p50", [], 2], ["p99", [4, 2], 1.5], ["p99.9", [1.5, 2], 1.5]];

/* Cumulative counts → counts of each bucket. */
export function bucketCounts(cumulative) {
    return cumulative.map((count, i) => Math.max(0, count - (i > 0 ? cumulative[i - 1] : 0)));
}

/* stages: [[name, histogram of status]]; bounds: upper bounds of the buckets in ns, or null. */
export function drawHistograms(canvas, stages, bounds) {
    const { context, width, height } = fitCanvas(canvas), colours = theme();
    context.clearRect(0, 0, width, height);
    const filled = stages.filter(([, histogram]) => histogram.count > 0);
    if (filled.length === 0)
        return;
    const low = Math.min(...filled.map(([, g]) => Math.max(100, g.p50))) / 8, high = Math.max(...filled.map(([, g]) => g.max)) * 1.5;
    const room = width - LEFT - RIGHT, each = (height - FOOT) / stages.length;
    const px = (ns) => LEFT + room * Math.min(1, Math.max(0, Math.log(ns / low) / Math.log(high / low)));
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    for (const tick of logTicks(low, high, room / 70)) {
        context.fillStyle = colours.grid;
        context.fillRect(px(tick), 0, 1, height - FOOT);
        context.fillStyle = colours.muted;
        context.fillText(siTrimmed(tick * 1e-9, "s", 3), px(tick), height - 6);
    }
    stages.forEach(([name, histogram], row) => drawRow(context, colours, { name, histogram, bounds, px, top: row * each + 3, height: each - 7, width, low, row }));
}

function drawRow(context, colours, { name, histogram, bounds, px, top, height, width, low, row }) {
    const bottom = top + height;
    context.fillStyle = colours.text;
    context.textAlign = "right";
    context.fillText(name, LEFT - 10, bottom - height / 2 + 4);
    context.fillStyle = colours.line;
    context.fillRect(LEFT, bottom, width - LEFT - RIGHT, 1);
    if (histogram.count === 0)
        return;
    context.fillStyle = channelColour(row);
    if (bounds && histogram.buckets?.length > 0) {
        const counts = bucketCounts(histogram.buckets), most = Math.max(...counts, 1);
        counts.forEach((count, i) => {
            const left = px(i > 0 ? bounds[i - 1] : low), right = px(bounds[i]), tall = height * Math.sqrt(count / most);
            context.globalAlpha = 0.75;
            context.fillRect(left, bottom - tall, Math.max(0.5, right - left - 1), tall);
        });
    } else {
        context.globalAlpha = 0.5;
        context.fillRect(px(histogram.p50), top + height / 4, Math.max(2, px(histogram.p99) - px(histogram.p50)), height / 2);
    }
    context.globalAlpha = 1;
    context.strokeStyle = context.fillStyle = colours.text;
    for (const [quantile, dash, lineWidth] of QUANTILES) {
        const x = px(histogram[quantile]);
        context.setLineDash(dash);
        context.lineWidth = lineWidth;
        context.beginPath();
        context.moveTo(x, top);
        context.lineTo(x, bottom);
        context.stroke();
    }
    context.setLineDash([]);
    const x = px(histogram.max);
    context.beginPath();
    context.moveTo(x, bottom - 1);
    context.lineTo(x - 4, bottom - 9);
    context.lineTo(x + 4, bottom - 9);
    context.fill();
}
