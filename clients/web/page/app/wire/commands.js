/*
 * The command table over HTTP: api/v1/NAME. Every function answers the daemon's object; a refusal
 * or a server that is away becomes {ok: false, error: sentence, code}.
 */

const TIMEOUT_MS = 10000;

async function answer(request) {
    try {
        const response = await request;
        const body = await response.json();
        if (body === null || typeof body !== "object")
            throw new TypeError("no object");
        return { ...body, ok: response.ok && body.ok !== false };
    } catch (error) {
        const late = error.name === "TimeoutError" || error.name === "AbortError";
        return { ok: false, code: late ? "timeout" : "unreachable",
            error: late ? "convolv-web did not answer within 10 s" : "convolv-web does not answer" };
    }
}

export function ask(name, query = {}) {
    const text = new URLSearchParams(query).toString();
    return answer(fetch(`api/v1/${name}${text ? `?${text}` : ""}`,
        { signal: AbortSignal.timeout(TIMEOUT_MS), cache: "no-store" }));
}

export function command(name, body = {}) {
    return answer(fetch(`api/v1/${name}`, {
        method: "POST", headers: { "Content-Type": "application/json" },
        body: JSON.stringify(body), signal: AbortSignal.timeout(TIMEOUT_MS),
    }));
}
