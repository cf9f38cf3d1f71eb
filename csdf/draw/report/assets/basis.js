// What all parts of the page share: data, colours, numbers, canvases, the tooltip, light and dark.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const redraws = []; // functions that draw again, when colours or sizes change

function make(tag, attributes = {}, ...content) {
  const one = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in one && typeof value === "function") one[name] = value;
    else if (value === true) one.setAttribute(name, "");
    else if (value !== false && value != null) one.setAttribute(name, value);
  }
  one.append(...content); // strings become text, never markup
  return one;
}

function makeSvg(tag, attributes = {}) {
  const one = document.createElementNS(document.querySelector("svg").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  return one;
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "panel", "ink", "soft", "line", "grid", "accent", "accent-soft", "critical",
    "critical-soft", "fill", "fill-pale", "edge", "weights", "void", "good"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue("--" + name).trim()]));
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif';

// A canvas as wide as its frame: returns its context in CSS pixels, cleared.
function prepared(canvas, width, height) {
  if (recorder) { const pen = new SvgPen(width, height); recorder.push(pen); return pen; }
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  const [w, h] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== w || canvas.height !== h) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = height + "px";
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "12px " + FONT;
  pen.textBaseline = "middle";
  return pen;
}

// Draw at most once a frame, however often it is asked for.
function eventually(draw) {
  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };
  later.now = draw;
  return later;
}

function short(value) {
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e15 || size < 1e-4)) return value.toExponential(3);
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(7)));
}

function bytes(count) {
  for (const [unit, size] of [["MB", 1e6], ["kB", 1e3]]) {
    if (count >= size) return Number((count / size).toPrecision(4)) + " " + unit;
  }
  return count + " B";
}

const amount = (count, unit) => (unit === "bytes" ? bytes(count) : count + " " + unit);

// Round steps between two values: 1, 2 or 5 times a power of ten.
function ticks(low, high, most) {
  const raw = (high - low) / Math.max(most, 1);
  if (!(raw > 0) || !isFinite(raw)) return [low];
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.999);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9); at * step <= high + step * 1e-9; at++) found.push(at * step);
  return found;
}

// What names take beside a time axis, of schedule and channels alike.
const nameWidth = (width) => Math.min(190, Math.max(116, width * 0.16));

// Beginning and end of a name. Where few letters are left the end gets fewer: numbers of layers, as
// in conv10_depthwise, stand after the first word.
function cutTo(text, letters) {
  const tail = letters < 12 ? letters >> 2 : letters >> 1;
  return text.slice(0, letters - tail) + "…" + text.slice(text.length - tail);
}

// Names that are cut, so that no two look alike.
const shortNames = new Map(data.names.map((name, number) => [name, data.short[number]]));

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(cutTo(text, middle)).width <= width) low = middle; else high = middle - 1;
  }
  return low < 1 ? "" : cutTo(text, low);
}

const tooltip = byId("tooltip");
function tell(event, text) {
  tooltip.textContent = text;
  tooltip.hidden = !text;
  if (!text) return;
  const box = tooltip.getBoundingClientRect();
  const x = Math.min(event.clientX + 14, document.documentElement.clientWidth - box.width - 6);
  const y = event.clientY + 18 + box.height > window.innerHeight ? event.clientY - box.height - 10 : event.clientY + 18;
  tooltip.style.left = Math.max(4, x) + "px";
  tooltip.style.top = Math.max(4, y) + "px";
}
const hush = () => { tooltip.hidden = true; };

function button(text, label, act) {
  const one = make("button", { type: "button", "aria-label": label, title: label }, text);
  one.addEventListener("click", act);
  return one;
}

function chooser(label, titles, act) {
  const one = make("select", { "aria-label": label });
  titles.forEach((title, number) => one.append(make("option", { value: number }, title)));
  one.addEventListener("change", () => act(Number(one.value)));
  return one;
}

// Rows share a frame that scrolls; the pressed mouse and one finger move across.
function draggable(target, move, click) {
  let from = null;
  let moved = false;
  target.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY]; moved = false; });
  target.addEventListener("pointermove", (event) => {
    if (!from || !(event.buttons & 1)) { from = null; return; }
    const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
    if (!moved && Math.abs(dx) + Math.abs(dy) < 4) return;
    moved = true;
    from = [event.clientX, event.clientY];
    move(dx, dy);
  });
  target.addEventListener("pointerup", (event) => { if (from && !moved && click) click(event); from = null; });
}

const theme = byId("theme");
function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}
function showTheme() {
  theme.textContent = isDark() ? "Light colours" : "Dark colours";
  theme.setAttribute("aria-pressed", String(isDark()));
  redraws.forEach((draw) => draw());
}
theme.hidden = false;
theme.addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  showTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);

// Paper is light, whatever the screen is; there is no later frame to draw in.
let onScreen;
window.addEventListener("beforeprint", () => {
  onScreen = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  redraws.forEach((draw) => (draw.now || draw)());
});
window.addEventListener("afterprint", () => {
  if (onScreen) document.documentElement.dataset.theme = onScreen;
  else delete document.documentElement.dataset.theme;
  redraws.forEach((draw) => draw());
});

function watchSize(target, draw) {
  redraws.push(draw);
  new ResizeObserver(draw).observe(target);
}
