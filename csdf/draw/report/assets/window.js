// The stretch of time that schedule and channels show together, and the run they show.
const runs = data.runs.map((run) => {
  const sums = (steps) => {
    let at = 0;
    return Float64Array.from(steps, (step) => (at += step));
  };
  for (const actor of run.actors) {
    actor.starts = sums(actor.s);
    const durations = Array.isArray(actor.d) ? actor.d : null;
    actor.duration = (index) => (durations ? durations[index % durations.length] : actor.d);
    actor.longest = durations ? Math.max(...durations) : actor.d;
  }
  for (const channel of run.channels) channel.times = sums(channel.t);
  return run;
});

const timeWindow = {
  run: runs[0], low: 0, high: 1, listeners: [],
  show(low, high) {
    const end = Math.max(this.run.end, 1);
    const width = Math.min(Math.max(high - low, Math.min(end, 4)), end);
    const from = Math.min(Math.max(low, 0), end - width);
    [this.low, this.high] = [from, from + width];
    this.listeners.forEach((one) => one());
  },
  zoom(factor, at = (this.low + this.high) / 2) {
    const width = (this.high - this.low) / factor;
    const share = (at - this.low) / (this.high - this.low);
    this.show(at - share * width, at + (1 - share) * width);
  },
  pan(part) { const by = part * (this.high - this.low); this.show(this.low + by, this.high + by); },
  all() { this.show(0, this.run.end); },
  choose(number) { this.run = runs[number]; this.all(); },
  keys(event) {
    const act = {
      "+": () => this.zoom(1.5), "=": () => this.zoom(1.5), "-": () => this.zoom(1 / 1.5),
      "0": () => this.all(), Home: () => this.show(0, this.high - this.low),
      End: () => this.show(this.run.end - (this.high - this.low), this.run.end),
      ArrowLeft: () => this.pan(-0.15), ArrowRight: () => this.pan(0.15),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return false;
    event.preventDefault();
    act();
    return true;
  },
};

// A time of the run in the user's unit; nanoseconds with a unit that fits them.
function timeText(time, precise = true) {
  const [over, under] = timeWindow.run.unit;
  const value = time * over / under;
  if (data.time !== "ns") return precise ? short(value) : String(Number(value.toPrecision(6)));
  return nanoseconds(value, precise ? 9 : 5);
}
function nanoseconds(value, digits) {
  const size = Math.abs(value);
  const [unit, scale] = size >= 1e9 ? ["s", 1e9] : size >= 1e6 ? ["ms", 1e6] : size >= 1e3 ? ["µs", 1e3] : ["ns", 1];
  return Number((value / scale).toPrecision(digits)) + " " + unit;
}
// A period, which is a whole number or a fraction such as 35/2 (about 17.5).
function periodText(period) {
  if (data.time !== "ns") return period;
  const [count, of] = period.split(" ")[0].split("/");
  return nanoseconds(Number(count) / Number(of ?? 1), 4);
}

const AXIS = 38; // pixels below a chart, for the times and the title of the axis

// The axis of time under a chart, with the lines above it; the right edge keeps its label inside.
function timeAxis(pen, left, width, top, bottom, colour) {
  const { low, high, run } = timeWindow;
  const across = (time) => left + (time - low) / (high - low) * width;
  const factor = run.unit[0] / run.unit[1];
  const most = Math.max(2, Math.floor(width / 110));
  pen.textAlign = "center";
  for (const tick of ticks(low * factor, high * factor, most)) {
    const x = across(tick / factor);
    if (x < left - 0.5) continue;
    pen.fillStyle = colour.grid;
    pen.fillRect(Math.round(x), top, 1, bottom - top);
    const text = timeText(Math.round(tick * 1e6) / 1e6 / factor, false);
    const half = pen.measureText(text).width / 2;
    pen.fillStyle = colour.soft;
    pen.fillText(text, Math.min(Math.max(x, left + half), left + width - half), bottom + 11);
  }
  pen.fillStyle = colour.soft;
  pen.fillText(data.time === "ns" ? "time" : `time (${data.time})`, left + width / 2, bottom + 28);
  return across;
}

// The title of an axis that goes up, along its left edge.
function upTitle(pen, text, x, middle, colour) {
  pen.save();
  pen.translate(x, middle);
  pen.rotate(-Math.PI / 2);
  pen.textAlign = "center";
  pen.fillStyle = colour.soft;
  pen.fillText(text, 0, 0);
  pen.restore();
}
