/*
 * Elements without a framework. Text is always a text node: nothing from the wire becomes HTML.
 */

const SVG = "http://www.w3.org/2000/svg";

/* h("button", {class: "x", title: "…", onclick: f, "aria-pressed": true}, "text", child, …) */
export function h(tag, properties = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
        if (value === null || value === undefined || value === false)
            continue;
        if (name.startsWith("on"))
            element.addEventListener(name.slice(2), value);
        else if (name === "data")
            Object.assign(element.dataset, value);
        else
            element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
}

/* A symbol of index.html's sprite. */
export function icon(name) {
    const svg = document.createElementNS(SVG, "svg"), use = document.createElementNS(SVG, "use");
    svg.setAttribute("class", "icon");
    svg.setAttribute("aria-hidden", "true");
    use.setAttribute("href", `#icon-${name}`);
    svg.append(use);
    return svg;
}

export function setIcon(svg, name) {
    const use = svg.firstChild, href = `#icon-${name}`;
    if (use.getAttribute("href") !== href)
        use.setAttribute("href", href);
}

/* Only what changed touches the document: tiles are written ten times a second. */
export function setText(element, text) {
    if (element.textContent !== text)
        element.textContent = text;
}

export function setClass(element, name) {
    if (element.className !== name)
        element.className = name;
}

export function setHidden(element, hidden) {
    if (element.hidden !== hidden)
        element.hidden = hidden;
}

/* The canvas as large as its box in device pixels, drawn in CSS pixels; `resized`: it is empty now. */
export function fitCanvas(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    const [w, h_] = [Math.round(width * ratio), Math.round(height * ratio)];
    const resized = canvas.width !== w || canvas.height !== h_;
    if (resized) {
        canvas.width = w;
        canvas.height = h_;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return { context, width, height, resized };
}

/* Hands a file to the viewer. */
export function download(name, parts, type) {
    const url = URL.createObjectURL(new Blob(parts, { type }));
    const anchor = h("a", { href: url, download: name });
    document.body.append(anchor);
    anchor.click();
    anchor.remove();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}
