/*
 * Pointer, wheel and touch on a plot or image, the same everywhere: drag zooms (across: x, along: y),
 * Shift or the middle button drags the picture, the wheel zooms x, two fingers zoom and move x,
 * a double click shows all, a click or tap places a cursor.
 */
import { h } from "../ui/dom.js";

const DRAG_PX = 6, DOUBLE_MS = 350;

/*
 * target: {area() → {x, y, w, h} in px of the element, x() → [low, high] shown, setX(window or
 * null), y() → [low, high] or null where y is fixed, setY(window or null), click(x, y, event),
 * logX: () → bool}.
 */
export class Gestures {
    constructor(element, target) {
        this.element = element;
        this.target = target;
        this.pointers = new Map();
        this.lastClick = -Infinity;
        this.lastPlace = { x: 0, y: 0 };
        this.box = h("div", { class: "zoom-box", hidden: true });
        element.append(this.box);
        element.addEventListener("pointerdown", (event) => this.down(event));
        element.addEventListener("pointermove", (event) => this.move(event));
        element.addEventListener("pointerup", (event) => this.up(event));
        element.addEventListener("pointercancel", (event) => this.cancel(event));
        element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    }

    place(event) {
        const box = this.element.getBoundingClientRect();
        return { x: event.clientX - box.left, y: event.clientY - box.top };
    }

    toX(px) {
        const area = this.target.area(), [low, high] = this.target.x();
        return low + (high - low) * Math.min(1, Math.max(0, (px - area.x) / area.w));
    }

    toY(px) {
        const area = this.target.area(), range = this.target.y();
        return range ? range[1] - (range[1] - range[0]) * Math.min(1, Math.max(0, (px - area.y) / area.h)) : NaN;
    }

    down(event) {
        if (event.button > 1 || event.target.closest(".cursor"))
            return;
        this.element.setPointerCapture(event.pointerId);
        this.pointers.set(event.pointerId, this.place(event));
        this.start = this.place(event);
        this.pans = event.shiftKey || event.button === 1;
        this.windowAtStart = this.target.x();
        this.dragged = false;
        this.pinch = null;
        if (this.pointers.size === 2)
            this.beginPinch();
    }

    beginPinch() {
        const [a, b] = [...this.pointers.values()];
        this.pinch = { left: this.toX(Math.min(a.x, b.x)), right: this.toX(Math.max(a.x, b.x)) };
        this.box.hidden = true;
    }

    move(event) {
        if (!this.pointers.has(event.pointerId))
            return;
        const at = this.place(event);
        this.pointers.set(event.pointerId, at);
        if (this.pinch)
            return this.movePinch();
        const dx = at.x - this.start.x, dy = at.y - this.start.y;
        if (Math.hypot(dx, dy) > DRAG_PX)
            this.dragged = true;
        if (!this.dragged)
            return;
        if (this.pans) {
            const [low, high] = this.windowAtStart, shift = dx / this.target.area().w * (high - low);
            this.target.setX([low - shift, high - shift]);
        } else {
            this.showBox(at);
        }
    }

    movePinch() {
        const points = [...this.pointers.values()];
        if (points.length < 2)
            return;
        const area = this.target.area();
        const left = Math.min(points[0].x, points[1].x) - area.x, right = Math.max(points[0].x, points[1].x) - area.x;
        const scale = (this.pinch.right - this.pinch.left) / Math.max(10, right - left);
        const low = this.pinch.left - left * scale;
        this.target.setX([low, low + scale * area.w]);
    }

    /* Zooms along the direction of the drag alone, unless it is clearly both. */
    drag(at) {
        const across = Math.abs(at.x - this.start.x), along = Math.abs(at.y - this.start.y);
        const zoomsY = this.target.y() !== null && along > 24 && along > across / 3;
        return { zoomsX: !zoomsY || across > along / 3, zoomsY };
    }

    showBox(at) {
        const area = this.target.area(), { zoomsX, zoomsY } = this.drag(at);
        const x0 = zoomsX ? Math.min(at.x, this.start.x) : area.x, x1 = zoomsX ? Math.max(at.x, this.start.x) : area.x + area.w;
        const y0 = zoomsY ? Math.min(at.y, this.start.y) : area.y, y1 = zoomsY ? Math.max(at.y, this.start.y) : area.y + area.h;
        Object.assign(this.box.style, { left: `${x0}px`, width: `${x1 - x0}px`, top: `${y0}px`, height: `${y1 - y0}px` });
        this.box.hidden = false;
    }

    up(event) {
        if (!this.pointers.delete(event.pointerId))
            return;
        this.box.hidden = true;
        if (this.pinch)
            return;
        const at = this.place(event);
        if (!this.dragged)
            return this.clicked(at, event);
        if (this.pans)
            return;
        const { zoomsX, zoomsY } = this.drag(at);
        if (zoomsX)
            this.target.setX([this.toX(Math.min(at.x, this.start.x)), this.toX(Math.max(at.x, this.start.x))]);
        if (zoomsY)
            this.target.setY([this.toY(Math.max(at.y, this.start.y)), this.toY(Math.min(at.y, this.start.y))]);
    }

    cancel(event) {
        this.pointers.delete(event.pointerId);
        this.box.hidden = true;
        this.pinch = null;
    }

    clicked(at, event) {
        const now = performance.now();
        if (now - this.lastClick < DOUBLE_MS && Math.hypot(at.x - this.lastPlace.x, at.y - this.lastPlace.y) < DRAG_PX) {
            this.lastClick = -Infinity;
            this.target.setX(null);
            this.target.setY(null);
            return;
        }
        this.lastClick = now;
        this.lastPlace = at;
        this.target.click?.(this.toX(at.x), this.toY(at.y), event);
    }

    wheel(event) {
        if (event.ctrlKey || Math.abs(event.deltaY) < Math.abs(event.deltaX))
            return;
        event.preventDefault();
        this.zoomAt(this.toX(this.place(event).x), event.deltaY > 0 ? 1.25 : 0.8);
    }

    zoomAt(centre, factor) {
        const [low, high] = this.target.x();
        this.target.setX([centre - (centre - low) * factor, centre + (high - centre) * factor]);
    }
}
