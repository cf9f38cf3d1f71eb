// Pictures as SVG and tables as CSV, to keep: what draws on a canvas draws on this pen as well.
let recorder = null; // sheets of the picture that is recorded; null while pages are shown

const escapedXml = (text) => String(text).replace(/[&<>"]/g, (one) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[one]);
const measuring = document.createElement("canvas").getContext("2d");

// The part of a canvas' context that the charts of this page use.
class SvgPen {
  constructor(width, height) {
    Object.assign(this, { width, height, parts: [], clips: 0, saved: [], path: "", shift: "", cut: "" });
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, textAlign: "left", dash: [] });
  }
  put(tag, attributes, text = "") {
    const all = { ...attributes, ...(this.shift ? { transform: this.shift } : {}), ...(this.globalAlpha < 1 ? { opacity: this.globalAlpha } : {}) };
    const written = Object.entries(all).map(([name, value]) => ` ${name}="${escapedXml(typeof value === "number" ? +value.toFixed(2) : value)}"`).join("");
    const one = `<${tag}${written}>${escapedXml(text)}</${tag}>`;
    this.parts.push(this.cut ? `<g clip-path="url(#${this.cut})">${one}</g>` : one);
  }
  get pen() { return { fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth, ...(this.dash.length ? { "stroke-dasharray": this.dash.join(" ") } : {}) }; }
  fillRect(x, y, width, height) { if (width > 0 && height > 0) this.put("rect", { x, y, width, height, fill: this.fillStyle }); }
  strokeRect(x, y, width, height) { this.put("rect", { x, y, width, height, ...this.pen }); }
  fillText(text, x, y) {
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    this.put("text", { x, y, fill: this.fillStyle, "text-anchor": anchor, "dominant-baseline": "central" }, text);
  }
  measureText(text) { measuring.font = "12px " + FONT; return measuring.measureText(text); }
  beginPath() { this.path = ""; }
  moveTo(x, y) { this.path += `M${x.toFixed(2)} ${y.toFixed(2)}`; }
  lineTo(x, y) { this.path += `${this.path ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`; }
  rect(x, y, width, height) { this.path += `M${x} ${y}h${width}v${height}h${-width}z`; }
  arc(x, y, radius) { this.path += `M${x - radius} ${y}a${radius} ${radius} 0 1 0 ${2 * radius} 0a${radius} ${radius} 0 1 0 ${-2 * radius} 0`; }
  stroke() { this.put("path", { d: this.path, ...this.pen }); }
  fill() { this.put("path", { d: this.path, fill: this.fillStyle }); }
  clip() {
    this.cut = `cut-${recorder.length}-${this.clips++}`;
    this.parts.push(`<clipPath id="${this.cut}"><path d="${this.path}"/></clipPath>`);
  }
  setLineDash(dash) { this.dash = dash; }
  translate(x, y) { this.shift += `translate(${x} ${y})`; }
  rotate(angle) { this.shift += `rotate(${angle * 180 / Math.PI})`; }
  save() { this.saved.push([this.shift, this.cut]); }
  restore() { [this.shift, this.cut] = this.saved.pop(); }
}

// What `draw` draws on its canvases, one below the other.
function recorded(draw) {
  recorder = [];
  try { draw(); } finally { const sheets = recorder; recorder = null; draw(); recorded.sheets = sheets; }
  let height = 0;
  const pieces = recorded.sheets.map((pen) => { height += pen.height; return `<g transform="translate(0 ${height - pen.height})">${pen.parts.join("")}</g>`; });
  const width = Math.max(...recorded.sheets.map((pen) => pen.width));
  return framed(width, height, `0 0 ${width} ${height}`, pieces.join(""));
}

function framed(width, height, view, content, style = "") {
  const [x, y, w, h] = view.split(" ");
  return `<svg xmlns="${svgSpace}" width="${width}" height="${height}" viewBox="${view}" font-family="${escapedXml(FONT)}" font-size="12">`
    + `${style}<rect x="${x}" y="${y}" width="${w}" height="${h}" fill="${colours().panel}"/>${content}</svg>\n`;
}
const svgSpace = document.querySelector("svg").namespaceURI;

function save(name, kind, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: kind })), download: name });
  document.dispatchEvent(new CustomEvent("csdf-saved", { detail: { name, text } }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}
const fileName = (what, suffix) => `${document.querySelector("h1").textContent.replace(/[^\w.-]+/g, "_")}-${what}.${suffix}`;
const pictureButton = (what, draw) => button("SVG", `save the picture of the ${what} as SVG`, () => save(fileName(what, "svg"), "image/svg+xml", recorded(draw)));

// The drawing of the graph is SVG already; it takes the rules of its colours with it.
function drawnGraph() {
  const copy = document.querySelector("svg.drawing").cloneNode(true);
  const view = copy.dataset.view;
  const style = getComputedStyle(document.documentElement);
  const rules = document.querySelector("style").textContent.split("\n").filter((line) => /^(svg text|svg \.|\.node|\.edge|\.arrow)/.test(line) && !line.includes(":hover"));
  const plain = rules.join("\n").replace(/var\((--[\w-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  const [, , width, height] = view.split(" ");
  return framed(width, height, view, new XMLSerializer().serializeToString(copy).replace(/^<svg[^>]*>|<\/svg>$/g, ""), `<style>${plain}</style>`);
}
