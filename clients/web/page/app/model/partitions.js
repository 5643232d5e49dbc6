/*
 * Partitions of a cluster in words: which logs a stream's sinks append to, who owns them, how far
 * they are behind. Pure.
 */
import { nanoseconds } from "./units.js";

/* The partitions of a stream's sinks, from its status. */
export function partitionsOf(stream) {
    return (stream.sinks ?? []).map((sink) => sink.partition).filter((partition) => partition !== undefined);
}

/* Whether the stream computes a partition that another daemon owns now: it has no input. */
export function standsBy(stream) {
    return partitionsOf(stream).some((partition) => partition.log === "log" && partition.state !== "owns" && partition.connected);
}

function ownerText({ state, owner, term }) {
    if (state === "owns")
        return `owned here, term ${term}`;
    return owner ? `${owner} owns, term ${term}` : "nobody owns";
}

/* Of a LOG: where this worker stands among those that would take it; nothing of a RAW. */
function standingText({ standing, place, workers, load, capacity }) {
    if (!standing)
        return null;
    const share = `load ${Math.round(load * 100)} of ${Math.round(capacity * 100)} %`;
    return standing === "stands" ? `place ${place} of ${workers}, ${share}` : `would not take it (${standing}), ${share}`;
}

/* One partition of the status → [its sentence, whether something is wrong]. */
export function partitionText(partition) {
    const parts = [ownerText(partition)];
    if (partition.lag_ns !== null)
        parts.push(`lag ${nanoseconds(partition.lag_ns)}`);
    if (partition.standstill_ns !== null)
        parts.push(`stood still ${nanoseconds(partition.standstill_ns)}`);
    if (standingText(partition))
        parts.push(standingText(partition));
    if (partition.term_ended)
        parts.push(`last term ended: ${partition.term_ended}`);
    if (!partition.connected)
        parts.push("not connected");
    return [parts.join(", "), !partition.connected || (partition.state !== "owns" && !partition.owner)];
}
