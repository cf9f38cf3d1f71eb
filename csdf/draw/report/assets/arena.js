// The arena over time: steps across, bytes up, a rectangle for each buffer.
if (data.arenas.length) {
  const HEIGHT = 420, LEFT = 70, TOP = 16, BOTTOM = 40;
  const canvas = make("canvas", { "aria-hidden": "true" });
  const frame = make("div", {
    class: "frame", tabindex: "0", role: "application", id: "arena-plot",
    "aria-label": "buffers of the arena; left and right go from buffer to buffer, plus and minus zoom, zero shows all",
  }, canvas);
  byId("arena-chart").append(frame);
  let arena = data.arenas.at(-1);
  let chosen = -1;
  let [low, high] = [0, 1];
  let starts = [];

  function firstSteps() {
    starts = [];
    let step = 0;
    for (let i = 0; i < arena.order.length; i += 2) { starts.push([step, arena.order[i]]); step += arena.order[i + 1]; }
  }
  function layerAt(step) {
    let [from, to] = [0, starts.length];
    while (from < to) { const middle = (from + to) >> 1; if (starts[middle][0] <= step) from = middle + 1; else to = middle; }
    return arena.layers[starts[Math.max(from - 1, 0)][1]];
  }
  // Hues far apart for neighbours; light enough for dark text, dark enough for white.
  const tint = (number, dark) => `hsl(${(number * 137.5) % 360} ${dark ? 38 : 45}% ${dark ? 40 : 72}%)`;

  let place = null;
  function draw() {
    const width = frame.clientWidth;
    if (!width) return;
    const colour = colours();
    const pen = prepared(canvas, width, HEIGHT);
    const top = Math.max(arena.top ?? arena.peak, 1) * 1.04;
    const across = (step) => LEFT + (step - low) / (high - low) * (width - LEFT - 8);
    const up = (offset) => HEIGHT - BOTTOM - offset / top * (HEIGHT - TOP - BOTTOM);
    place = { across, up, width };
    pen.textAlign = "right";
    for (const tick of ticks(0, top, 6)) {
      pen.fillStyle = colour.grid;
      pen.fillRect(LEFT, Math.round(up(tick)), width - LEFT, 1);
      pen.fillStyle = colour.soft;
      pen.fillText(bytes(tick), LEFT - 6, up(tick));
    }
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width - LEFT, HEIGHT - BOTTOM);
    pen.clip();
    arena.boxes.forEach((box, number) => rectangle(pen, box, number, colour));
    pen.restore();
    if (2 * arena.bound >= arena.peak) { // a weak bound tells nothing of this plan
      pen.fillStyle = colour.critical;
      pen.fillRect(LEFT, Math.round(up(arena.bound)), width - LEFT, 2);
      pen.textAlign = "right";
      const text = arena.bound === arena.peak ? `peak ${bytes(arena.peak)}, the lower bound` : `lower bound ${bytes(arena.bound)}`;
      const [wide, high] = [pen.measureText(text).width, up(arena.bound) - 9];
      pen.fillStyle = colour.panel; // boxes of all colours lie below the text
      pen.fillRect(width - 12 - wide, high - 8, wide + 8, 15);
      pen.fillStyle = colour.critical;
      pen.fillText(text, width - 8, high);
    }
    pen.textAlign = "center";
    for (const tick of ticks(low, high, Math.max(2, Math.floor(width / 110)))) {
      if (!Number.isInteger(tick) || tick < 0) continue;
      pen.fillStyle = colour.soft;
      const half = pen.measureText(String(tick)).width / 2;
      pen.fillText(String(tick), Math.min(Math.max(across(tick), LEFT + half), width - half - 2), HEIGHT - BOTTOM + 13);
    }
    pen.fillText("firing of the frame", (LEFT + width) / 2, HEIGHT - 9);
    upTitle(pen, "offset in the arena", 9, (HEIGHT - BOTTOM + TOP) / 2, colour);
    frame.dataset.low = low;
    frame.dataset.high = high;
  }

  const belongs = (name) => selection.name !== null && (name === selection.name || name.startsWith(`${selection.name} to `) || name.endsWith(` to ${selection.name}`));
  function rectangle(pen, [name, start, end, offset, size], number, colour) {
    const [x, right] = [place.across(start), place.across(end)];
    if (right < LEFT || x > place.width) return;
    const [y, bottom] = [place.up(offset + size), place.up(offset)];
    pen.fillStyle = tint(number, isDark());
    pen.fillRect(x, y, Math.max(right - x, 1), Math.max(bottom - y, 1));
    const isMarked = number === chosen || belongs(name);
    if (isMarked || bottom - y > 4) {
      pen.lineWidth = isMarked ? 3 : 0.6;
      pen.strokeStyle = isMarked ? colour.ink : colour.panel;
      pen.strokeRect(x, y, Math.max(right - x, 1), Math.max(bottom - y, 1));
    }
    const room = Math.min(right, place.width) - Math.max(x, LEFT) - 8;
    if (bottom - y < 14 || room < 34) return;
    pen.fillStyle = colour.ink;
    pen.textAlign = "left";
    const tensor = writer(name);
    const isLong = pen.measureText(name).width > room;
    const text = fitted(pen, isLong ? shortNames.get(tensor) ?? tensor : name, room);
    if (text.length > 3) pen.fillText(text, Math.max(x, LEFT) + 4, (y + bottom) / 2);
  }

  function describe(number) {
    const [name, start, end, offset, size] = arena.boxes[number];
    return `${name}: ${bytes(size)} (${size} bytes), offset ${offset} to ${offset + size}, steps ${start} to ${end - 1}`;
  }
  // A buffer belongs to the layer that writes it.
  const writer = (name) => name.replace(/ to .*| (line buffer|ring buffer|staging|accumulators)$/, "");
  selection.listeners.push(() => draw());
  function choose(number) {
    chosen = number;
    if (number >= 0) selection.choose(writer(arena.boxes[number][0]));
    byId("arena-detail").textContent = number < 0 ? "" : describe(number);
    if (number >= 0) {
      const [, start, end] = arena.boxes[number];
      if (end < low || start > high) { const half = (high - low) / 2; show((start + end) / 2 - half, (start + end) / 2 + half); }
    }
    draw();
  }
  function show(from, to) {
    const width = Math.min(Math.max(to - from, Math.min(4, arena.steps)), arena.steps);
    low = Math.min(Math.max(from, 0), arena.steps - width);
    high = low + width;
    draw();
  }
  function zoom(factor, at = (low + high) / 2) {
    const width = (high - low) / factor;
    const share = (at - low) / (high - low);
    show(at - share * width, at + (1 - share) * width);
  }
  const all = () => show(0, arena.steps);

  function under(event) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    return arena.boxes.findIndex(([, start, end, offset, size]) =>
      x >= place.across(start) && x <= Math.max(place.across(end), place.across(start) + 2) && y <= place.up(offset) && y >= place.up(offset + size) && x >= LEFT);
  }
  frame.addEventListener("pointermove", (event) => {
    const number = under(event);
    const box = canvas.getBoundingClientRect();
    const step = Math.floor(low + (event.clientX - box.left - LEFT) / (place.width - LEFT - 8) * (high - low));
    const firing = step >= 0 && step < arena.steps ? `step ${step}: ${layerAt(step)} works` : "";
    tell(event, number < 0 ? firing : `${describe(number)}\n${firing}`);
  });
  frame.addEventListener("pointerleave", hush);
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== frame) return;
    event.preventDefault();
    const box = canvas.getBoundingClientRect();
    const share = Math.min(Math.max((event.clientX - box.left - LEFT) / (place.width - LEFT - 8), 0), 1);
    zoom(event.deltaY < 0 ? 1.25 : 1 / 1.25, low + share * (high - low));
  }, { passive: false });
  draggable(frame, (dx) => { const by = -dx / (place.width - LEFT) * (high - low); show(low + by, high + by); }, (event) => choose(under(event)));
  frame.addEventListener("keydown", (event) => {
    const count = arena.boxes.length;
    const act = {
      ArrowRight: () => choose(Math.min(chosen + 1, count - 1)), ArrowLeft: () => choose(Math.max(chosen - 1, 0)),
      Home: () => choose(0), End: () => choose(count - 1),
      "+": () => zoom(1.4), "=": () => zoom(1.4), "-": () => zoom(1 / 1.4), "0": all,
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
  const tools = byId("arena-tools");
  if (data.arenas.length > 1) {
    const choice = chooser("arena", data.arenas.map((one) => one.title), (number) => { arena = data.arenas[number]; firstSteps(); chosen = -1; all(); });
    choice.value = data.arenas.length - 1;
    tools.append(make("label", {}, "Plan: ", choice));
  }
  tools.append(pictureButton("arena", draw), button("+", "zoom in", () => zoom(1.6)), button("−", "zoom out", () => zoom(1 / 1.6)), button("All", "show all steps", all),
    make("span", { class: "hint" }, "drag to move; the wheel zooms after a click or with Ctrl"));
  firstSteps();
  watchSize(frame, eventually(draw));
  all();
}
