/*
 * On every view: the stream, recording (start, stop, file, time, disk left) and the field for a mark.
 */
import { h, icon, setClass, setIcon, setText } from "./dom.js";
import { elapsed, si } from "../model/units.js";

/* Less than this is shown as an alert. */
const LOW_DISK_SECONDS = 600;

export class Transport {
    constructor(app, host) {
        this.app = app;
        this.select = h("select", { "aria-label": "Stream", onchange: () => app.set({ stream: this.select.value }) });
        this.recordIcon = icon("record");
        this.recordText = h("span", {});
        this.record = h("button", { type: "button", class: "record-button", onclick: () => this.toggleRecording() }, this.recordIcon, this.recordText);
        this.info = h("span", { class: "record-info" });
        this.mark = h("input", { type: "text", placeholder: "mark: load step 2", maxlength: 200, "aria-label": "Text of a mark", autocomplete: "off" });
        this.markButton = h("button", { type: "button", onclick: () => this.sendMark() }, icon("mark"), "Mark");
        this.mark.addEventListener("keydown", (event) => {
            if (event.key === "Enter")
                this.sendMark();
        });
        host.append(h("div", { class: "group" }, h("span", { class: "caption" }, "Stream"), this.select),
            h("div", { class: "group" }, this.record, this.info), h("div", { class: "group grow" }, this.mark, this.markButton));
        this.names = "";
    }

    recordings() {
        const all = this.app.stream()?.recordings;
        return Array.isArray(all) ? all : all ? [all] : [];
    }

    sync() {
        const app = this.app, names = app.streams().map((stream) => stream.name), key = names.join("\n");
        if (key !== this.names) {
            this.select.replaceChildren(...names.map((name) => h("option", { value: name }, name)));
            this.names = key;
        }
        this.select.value = app.streamName();
        this.select.disabled = names.length === 0;
        const running = this.recordings().find((recording) => recording.running);
        const [may, why] = app.may(running ? "record-stop" : "record-start"), [mayMark, whyNoMark] = app.may("mark");
        setClass(this.record, running ? "record-button running" : "record-button");
        setIcon(this.recordIcon, running ? "stop" : "record");
        setText(this.recordText, running ? "Stop" : "Record");
        const any = this.recordings().length > 0;
        this.record.disabled = !may || !any;
        this.record.title = !may ? why : any ? "Start or stop recording (r)" : "This stream has no recording to start";
        this.mark.disabled = this.markButton.disabled = !mayMark;
        this.mark.title = mayMark ? "Written with frame and time into events and sidecars (m)" : whyNoMark;
        this.syncInfo(running);
    }

    syncInfo(running) {
        setClass(this.info, running ? "record-info running" : "record-info");
        if (!running) {
            const last = this.recordings().find((recording) => recording.path);
            return setText(this.info, last ? `last: ${last.path.split("/").pop()}` : "not recording");
        }
        const free = running.disk_free_bytes ?? undefined, rate = running.seconds > 0 ? running.bytes / running.seconds : 0;
        const left = rate > 0 && free !== undefined ? free / rate : Infinity;
        const parts = [running.path?.split("/").pop(), elapsed(running.seconds), running.bytes !== undefined && si(running.bytes, "B", 3),
            free !== undefined && `${si(free, "B", 3)} left${left < 30 * 86400 ? ` (${elapsed(left)})` : ""}`].filter(Boolean);
        setText(this.info, parts.join(" · "));
        this.info.title = running.path ?? "";
        if (left < LOW_DISK_SECONDS)
            this.info.classList.add("low");
    }

    async toggleRecording() {
        const stream = this.app.streamName();
        if (this.record.disabled || !stream || this.record.dataset.busy)
            return;
        this.record.dataset.busy = "1";
        const running = this.recordings().some((recording) => recording.running);
        const answer = await this.app.command(running ? "record-stop" : "record-start", { stream });
        if (answer.ok)
            this.app.tell("toast", { text: running ? "Recording stopped" : "Recording started" });
        delete this.record.dataset.busy;
    }

    focusMark() {
        if (!this.mark.disabled)
            this.mark.focus();
    }

    async sendMark() {
        const text = this.mark.value.trim();
        if (!text)
            return this.focusMark();
        const answer = await this.app.command("mark", { text, stream: this.app.streamName() });
        const frame = answer.marks?.[0]?.frame;
        if (answer.ok) {
            this.mark.value = "";
            this.app.tell("toast", { text: `Marked “${text}”${frame !== undefined ? ` at frame ${frame}` : ""}` });
        }
    }
}
