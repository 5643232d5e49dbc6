/*
 * The WebSocket to convolv-web. It reconnects by itself, sends each want again after that, and
 * gives pictures to whoever wants them and messages to listeners of their type. Nothing here draws.
 *
 * Events (CustomEvent, detail = the message): "open", "closed", and each "type" of docs/web.md.
 */
import { decodePicture } from "./picture.js";

const PROTOCOL = "convolv.v1";
const RETRY_MS = [250, 500, 1000, 2000];
/* Longer without any message, and the connection is taken for dead: status comes twice a second. */
const SILENCE_MS = 8000;

export class Link extends EventTarget {
    constructor(url) {
        super();
        this.url = url;
        this.wants = new Map();
        this.nextId = 1;
        this.state = "closed";
        this.malformed = 0;
        this.suspended = false;
        this.tries = 0;
        this.heard = 0;
        setInterval(() => this.watch(), 2000);
    }

    connect() {
        clearTimeout(this.retry);
        this.state = "connecting";
        const socket = new WebSocket(this.url, PROTOCOL);
        socket.binaryType = "arraybuffer";
        this.socket = socket;
        this.heard = performance.now();
        socket.onopen = () => {
            this.state = "open";
            this.tries = 0;
            if (!this.suspended)
                this.sendWants();
            this.tell("open", {});
        };
        socket.onmessage = (event) => {
            this.heard = performance.now();
            if (typeof event.data === "string")
                this.takeText(event.data);
            else
                this.takePicture(event.data);
        };
        socket.onclose = () => {
            if (this.socket === socket)
                this.lost();
        };
    }

    /* Anew with another role, after a login or logout. */
    reconnect() {
        this.abandon();
        this.connect();
    }

    abandon() {
        const socket = this.socket;
        this.socket = null;
        if (socket)
            socket.close();
    }

    lost() {
        const was = this.state;
        this.socket = null;
        this.state = "closed";
        if (was === "open")
            this.tell("closed", {});
        const wait = RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)];
        this.retry = setTimeout(() => this.connect(), wait);
    }

    watch() {
        if (this.state === "open" && performance.now() - this.heard > SILENCE_MS) {
            this.abandon();
            this.lost();
        }
    }

    send(message) {
        if (this.socket && this.socket.readyState === WebSocket.OPEN)
            this.socket.send(JSON.stringify(message));
    }

    tell(type, detail) {
        this.dispatchEvent(new CustomEvent(type, { detail }));
    }

    sendWants() {
        for (const want of this.wants.values())
            this.send(want.message);
    }

    /* No pictures while nobody looks: paused, or the page is hidden. Wants are kept. */
    suspend(suspended) {
        if (this.suspended === suspended)
            return;
        this.suspended = suspended;
        if (suspended)
            for (const id of this.wants.keys())
                this.send({ type: "drop", id });
        else
            this.sendWants();
    }

    takeText(text) {
        let message;
        try {
            message = JSON.parse(text);
        } catch {
            this.malformed++;
            return;
        }
        if (message.type === "error" && this.wants.has(message.id))
            this.wants.get(message.id).refused?.(message.error);
        else if (message.type === "wanted" && this.wants.has(message.id))
            this.wants.get(message.id).granted?.(message);
        else if (typeof message.type === "string")
            this.tell(message.type, message);
    }

    takePicture(buffer) {
        let picture;
        try {
            picture = decodePicture(buffer);
        } catch (error) {
            if (!(error instanceof RangeError))
                throw error;
            this.malformed++;
            return;
        }
        if (!this.suspended)
            this.wants.get(picture.id)?.picture(picture);
    }

    /*
     * Asks for pictures: spec as in docs/web.md without type and id; handlers {picture(picture),
     * refused(sentence), granted(message)}. → id. A picture asked for under an older spec of the
     * same id never comes after the new one is granted.
     */
    want(spec, handlers) {
        const id = this.nextId;
        this.nextId = this.nextId % 65535 + 1;
        const message = { type: "want", id, ...spec };
        this.wants.set(id, { message, ...handlers });
        if (!this.suspended)
            this.send(message);
        return id;
    }

    /* The same want once more: arms a single shot. */
    again(id) {
        const want = this.wants.get(id);
        if (want && !this.suspended)
            this.send(want.message);
    }

    drop(id) {
        if (this.wants.delete(id))
            this.send({ type: "drop", id });
    }
}
