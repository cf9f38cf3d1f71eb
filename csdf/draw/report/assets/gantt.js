// The schedule: a row for each actor, firings as bars; only what is in view is drawn.
if (runs.length) {
  const HEIGHT = 22, MOST_VISIBLE = 20;
  const chart = byId("gantt-chart");
  const canvas = make("canvas", { "aria-hidden": "true" });
  const axis = make("canvas", { "aria-hidden": "true" });
  const space = make("div");
  const stay = make("div", { class: "stay" }, canvas);
  const frame = make("div", {
    class: "frame rows", tabindex: "0", role: "application", id: "gantt",
    "aria-label": "schedule; left and right move in time, plus and minus zoom, up and down scroll, zero shows all",
  }, stay, space);
  chart.append(frame, axis);
  let lanes = new Map();

  // Firings of one actor that overlap share its row, one above the other.
  function lanesOf(actor) {
    const known = lanes.get(actor);
    if (known) return known;
    const ends = [];
    const lane = new Uint8Array(actor.starts.length);
    for (let i = 0; i < actor.starts.length; i++) {
      let free = ends.findIndex((end) => end <= actor.starts[i]);
      if (free < 0) free = ends.length < 6 ? ends.length : 5;
      ends[free] = actor.starts[i] + actor.duration(i);
      lane[i] = free;
    }
    const found = { lane, count: Math.max(ends.length, 1) };
    lanes.set(actor, found);
    return found;
  }

  function firstFrom(starts, time) {
    let [low, high] = [0, starts.length];
    while (low < high) { const middle = (low + high) >> 1; if (starts[middle] < time) low = middle + 1; else high = middle; }
    return low;
  }

  const critical = new Set(data.critical);
  const bars = { count: 0, draws: 0 };

  // Firings narrower than two pixels become shades: how much of each pixel is busy.
  function drawRow(pen, actor, y, left, width, across, colour) {
    const { lane, count } = lanesOf(actor);
    const { low, high } = timeWindow;
    const height = (HEIGHT - 6) / count;
    const busy = [new Float32Array(width + 2), new Float32Array(width + 2)]; // transient, steady
    pen.fillStyle = critical.has(actor.n) ? colour.critical : colour.fill;
    const numbers = [];
    for (let i = firstFrom(actor.starts, low - actor.longest); i < actor.starts.length && actor.starts[i] <= high; i++) {
      const begin = across(actor.starts[i]);
      const end = across(actor.starts[i] + actor.duration(i));
      if (end < left || begin > left + width) continue;
      bars.count++;
      const isSteady = i >= actor.t;
      if (end - begin < 2) { shade(busy[Number(isSteady)], begin - left, end - left); continue; }
      const from = Math.max(begin, left);
      const to = Math.min(end, left + width);
      pen.globalAlpha = isSteady ? 1 : 0.4;
      const gap = to - from > 5 ? 1 : 0;
      pen.fillRect(from, y + 3 + lane[i] * height, to - from - gap, height - (count > 1 ? 1 : 0));
      if (to - from > 26 && count === 1 && actor.p > 1) numbers.push([String(i % actor.p), (from + to) / 2, isSteady]);
    }
    busy.forEach((shares, isSteady) => {
      for (let x = 0; x < width; x++) {
        if (!shares[x]) continue;
        pen.globalAlpha = (isSteady ? 1 : 0.4) * (0.2 + 0.8 * Math.min(1, shares[x] / count));
        pen.fillRect(left + x, y + 3, 1, HEIGHT - 6);
      }
    });
    pen.globalAlpha = 1;
    pen.textAlign = "center";
    for (const [text, x, isSteady] of numbers) {
      pen.fillStyle = isSteady ? colour.panel : colour.ink;
      pen.fillText(text, x, y + HEIGHT / 2);
    }
  }

  function shade(shares, begin, end) {
    const first = Math.max(Math.floor(begin), 0);
    for (let x = first; x <= end && x < shares.length; x++) {
      shares[x] += Math.max(Math.min(end, x + 1) - Math.max(begin, x), 0.02);
    }
  }

  function draw() {
    const { run } = timeWindow;
    const colour = colours();
    const rows = run.actors.length;
    const seen = Math.min(rows, MOST_VISIBLE) * HEIGHT;
    frame.style.height = seen + 2 + "px";
    const width = frame.clientWidth;
    if (!width) return;
    space.style.height = (rows * HEIGHT - seen) + "px";
    const names = nameWidth(width);
    const room = Math.floor(width - names);
    const pen = prepared(canvas, width, seen);
    const ruler = prepared(axis, width, AXIS);
    timeAxis(ruler, names, room, 0, 0, colour);
    const across = timeAxis(pen, names, room, 0, seen, colour);
    bars.count = 0;
    const first = Math.floor(frame.scrollTop / HEIGHT);
    const offset = frame.scrollTop - first * HEIGHT;
    for (let row = first; row < Math.min(rows, first + MOST_VISIBLE + 1); row++) {
      const y = (row - first) * HEIGHT - offset;
      const actor = run.actors[row];
      const isChosen = actor.n === selection.name;
      if (isChosen) { pen.fillStyle = colour["accent-soft"]; pen.fillRect(0, y, width, HEIGHT - 1); }
      pen.fillStyle = colour.grid;
      pen.fillRect(0, y + HEIGHT - 1, width, 1);
      drawRow(pen, actor, y, names, room, across, colour);
      pen.textAlign = "left";
      pen.fillStyle = critical.has(actor.n) ? colour.critical : colour.ink;
      const isLong = pen.measureText(actor.n).width > names - 12;
      pen.fillText(fitted(pen, isLong ? shortNames.get(actor.n) : actor.n, names - 12), 6, y + HEIGHT / 2);
    }
    pen.fillStyle = colour.line;
    pen.fillRect(names - 1, 0, 1, seen);
    marks(pen, run, across, names, width, seen, colour);
    const [from, to] = [Math.max(timeWindow.low, 0), Math.min(timeWindow.high, run.end)];
    byId("gantt-window").textContent =
      `Shown: time ${timeText(from, false)} to ${timeText(to, false)}; ${bars.count} firings in these rows.`;
    bars.draws++;
    frame.dataset.draws = bars.draws;
    frame.dataset.low = timeWindow.low;
    frame.dataset.high = timeWindow.high;
  }

  // Where the transient part is over, and where the steady part begins again.
  function marks(pen, run, across, left, width, height, colour) {
    if (run.settled === null) return;
    const repeats = [];
    for (let time = run.settled; run.cycle > 0 && time <= run.end && repeats.length < 40; time += run.cycle) repeats.push(time);
    if (!repeats.length) repeats.push(run.settled);
    pen.fillStyle = colour.ink;
    repeats.forEach((time, number) => {
      const x = across(time);
      if (x < left || x > width) return;
      for (let y = 0; y < height; y += 8) pen.fillRect(Math.round(x), y, number ? 1 : 2, number ? 3 : 5);
    });
  }

  function facts() {
    const { run } = timeWindow;
    const said = [];
    if (run.steady === null) said.push(`No state recurred; the first ${run.iterations} iterations are shown.`);
    else {
      const every = run.steady === 1 ? "every iteration" : `every ${run.steady} iterations`;
      said.push(`Transient part: ${run.transient === 1 ? "1 iteration" : run.transient + " iterations"}; then it repeats ${every}, period ${periodText(run.period)}.`);
      if (run.settled !== null) said.push(`Dashed lines: everything repeats from time ${timeText(run.settled, false)} on, and each repetition.`);
      else said.push(`Only the first ${run.iterations} iterations are drawn.`);
    }
    byId("gantt-facts").textContent = said.join(" ");
  }

  const rowAt = (event) => Math.floor((event.clientY - canvas.getBoundingClientRect().top + frame.scrollTop) / HEIGHT);
  function under(event) {
    const box = canvas.getBoundingClientRect();
    const width = frame.clientWidth;
    const names = nameWidth(width);
    const actor = timeWindow.run.actors[rowAt(event)];
    const x = event.clientX - box.left;
    if (!actor) return "";
    if (x < names) return actor.n;
    const { low, high } = timeWindow;
    const time = low + (x - names) / (width - names) * (high - low);
    const pixel = (high - low) / (width - names);
    for (let i = firstFrom(actor.starts, time + pixel) - 1; i >= 0 && actor.starts[i] >= time - actor.longest - pixel; i--) {
      const end = actor.starts[i] + actor.duration(i);
      if (end + pixel < time) continue;
      const iteration = Math.floor(i / actor.q);
      return `${actor.n}, firing ${i}${actor.p > 1 ? `, phase ${i % actor.p}` : ""}, iteration ${iteration}`
        + `\nfrom ${timeText(actor.starts[i])} to ${timeText(end)}` + (i < actor.t ? "\ntransient" : "");
    }
    return `${actor.n}: idle at ${timeText(time, false)}`;
  }

  const later = eventually(draw);
  timeWindow.listeners.push(later);
  frame.addEventListener("scroll", later);
  frame.addEventListener("pointermove", (event) => tell(event, under(event)));
  frame.addEventListener("pointerleave", hush);
  frame.addEventListener("keydown", (event) => timeWindow.keys(event));
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== frame) return;
    event.preventDefault();
    if (event.shiftKey) { timeWindow.pan(event.deltaY > 0 ? 0.1 : -0.1); return; }
    const box = canvas.getBoundingClientRect();
    const names = nameWidth(frame.clientWidth);
    const share = Math.min(Math.max((event.clientX - box.left - names) / (frame.clientWidth - names), 0), 1);
    timeWindow.zoom(event.deltaY < 0 ? 1.25 : 1 / 1.25, timeWindow.low + share * (timeWindow.high - timeWindow.low));
  }, { passive: false });
  draggable(frame, (dx) => timeWindow.pan(-dx / (frame.clientWidth - nameWidth(frame.clientWidth))), (event) => {
    const actor = timeWindow.run.actors[rowAt(event)];
    selection.choose(actor ? actor.n : null);
  });
  function bringIntoView(name) {
    const row = timeWindow.run.actors.findIndex((actor) => actor.n === name);
    const [from, room] = [frame.scrollTop / HEIGHT, frame.clientHeight / HEIGHT];
    if (row >= 0 && (row < from || row + 1 > from + room)) frame.scrollTop = (row - room / 2) * HEIGHT;
  }
  selection.listeners.push((name) => { bringIntoView(name); later(); });

  const tools = byId("gantt-tools");
  if (runs.length > 1) {
    const choice = chooser("buffers of the schedule", runs.map((run) => run.title), (number) => {
      frame.scrollTop = 0;
      timeWindow.choose(number);
      facts();
    });
    choice.id = "run";
    tools.append(make("label", {}, "Buffers: ", choice));
  }
  tools.append(
    button("+", "zoom in", () => timeWindow.zoom(1.6)), button("−", "zoom out", () => timeWindow.zoom(1 / 1.6)),
    button("←", "earlier", () => timeWindow.pan(-0.3)), button("→", "later", () => timeWindow.pan(0.3)),
    button("All", "show the whole time", () => timeWindow.all()),
  );
  if (runs.some((run) => run.settled !== null && run.cycle > 0)) {
    tools.append(button("One repetition", "show one repetition of the steady part", () => {
      const { settled, cycle } = timeWindow.run;
      if (settled !== null) timeWindow.show(settled, settled + cycle);
    }));
  }
  tools.append(pictureButton("schedule", draw), make("span", { class: "hint" }, "drag to move; the wheel zooms after a click or with Ctrl"));
  facts();
  timeWindow.all();
  draw();
  const first = timeWindow.run.actors.findIndex((actor) => critical.has(actor.n));
  if (first >= MOST_VISIBLE) frame.scrollTop = (first - MOST_VISIBLE / 2) * HEIGHT;
  watchSize(frame, later);
}
