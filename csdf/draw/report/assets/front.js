// The storage/throughput front; the point chosen by mouse or keys shows its distribution.
if (data.front && data.front.points.length) {
  const { points, names, unit } = data.front;
  const HEIGHT = 330, LEFT = 62, RIGHT = 16, TOP = 14, BOTTOM = 42;
  const chart = byId("front-chart");
  const detail = byId("front-detail");
  const canvas = make("canvas", { "aria-hidden": "true" });
  const frame = make("div", {
    class: "frame", tabindex: "0", role: "slider", id: "front-plot", "aria-label": "points of the front by size",
    "aria-valuemin": "1", "aria-valuemax": String(points.length),
  }, canvas);
  chart.append(frame);
  let chosen = points.length - 1;
  const capacities = [];
  points.forEach((point) => capacities.push({ ...(capacities.at(-1) || {}), ...point.d }));

  const best = data.front.best;
  const height = (point) => (point.y === null ? 1 : best ? point.y / best : point.y);
  const others = data.before ? data.before.points.filter((point) => point.y !== null) : [];
  const top = Math.max(...points.map(height), ...others.map(height)) * 1.08 || 1;
  const first = Math.min(points[0].s, ...others.map((point) => point.s));
  const last = Math.max(points.at(-1).s, ...others.map((point) => point.s));
  const end = data.front.complete ? last : Math.max(last, data.front.lower);
  const margin = end > first ? (end - first) * 0.05 : Math.max(end * 0.01, 1);
  const [low, high] = [first - margin, end + margin * (data.front.complete ? 1 : 6)];

  let place = null;
  function draw() {
    const width = frame.clientWidth;
    if (!width) return;
    const colour = colours();
    const pen = prepared(canvas, width, HEIGHT);
    const across = (size) => LEFT + (size - low) / (high - low) * (width - LEFT - RIGHT);
    const up = (value) => HEIGHT - BOTTOM - value / top * (HEIGHT - TOP - BOTTOM);
    place = { across, up };
    axes(pen, width, across, up, colour);
    const reach = data.front.complete ? width - RIGHT : across(Math.max(data.front.lower, last));
    pen.fillStyle = colour.void;
    pen.fillRect(LEFT, TOP, reach - LEFT, up(0) - TOP);
    pen.fillStyle = colour["accent-soft"];
    pen.strokeStyle = colour.fill;
    pen.lineWidth = 1.8;
    pen.beginPath();
    points.forEach((point, number) => {
      const x = across(point.s);
      const next = number + 1 < points.length ? across(points[number + 1].s) : reach;
      pen.fillRect(x, up(height(point)), next - x + 0.5, up(0) - up(height(point)));
      if (!number) pen.moveTo(x, up(0));
      pen.lineTo(x, up(height(point)));
      pen.lineTo(next, up(height(point)));
    });
    pen.stroke();
    if (!data.front.complete) hatch(pen, reach, width - RIGHT, up, colour);
    if (others.length) beside(pen, across, up, width - RIGHT, colour);
    pen.fillStyle = colour.fill;
    for (const point of points) dot(pen, across(point.s), up(height(point)), points.length > 60 ? 2 : 3.5);
    const point = points[chosen];
    pen.fillStyle = colour.critical;
    dot(pen, across(point.s), up(height(point)), 6);
    pen.fillStyle = colour.soft;
    pen.textAlign = "left";
    pen.fillText("impossible", LEFT + 10, TOP + 14);
  }

  // The front of what the page is compared with.
  function beside(pen, across, up, right, colour) {
    pen.strokeStyle = colour.ink;
    pen.lineWidth = 1.6;
    pen.setLineDash([7, 4]);
    pen.beginPath();
    others.forEach((point, number) => {
      const next = number + 1 < others.length ? across(others[number + 1].s) : right;
      if (!number) pen.moveTo(across(point.s), up(0));
      pen.lineTo(across(point.s), up(height(point)));
      pen.lineTo(next, up(height(point)));
    });
    pen.stroke();
    pen.setLineDash([]);
    pen.fillStyle = colour.ink;
    pen.textAlign = "right";
    const text = fitted(pen, `dashed: ${data.before.name}`, right - LEFT - 90);
    pen.fillText(text, right - 6, HEIGHT - BOTTOM - 12);
  }

  function dot(pen, x, y, size) { pen.beginPath(); pen.arc(x, y, size, 0, 7); pen.fill(); }

  function axes(pen, width, across, up, colour) {
    pen.fillStyle = colour.soft;
    pen.textAlign = "right";
    for (const tick of ticks(0, top, 6)) {
      if (best && tick > 1.0001 && !others.length) continue;
      pen.fillText(best ? Math.round(tick * 100) + "%" : short(tick), LEFT - 8, up(tick));
    }
    pen.textAlign = "center";
    const most = Math.max(2, Math.floor((width - LEFT) / 95));
    for (const tick of ticks(low, high, most)) {
      if (tick < 0 || !Number.isInteger(tick) || tick > high) continue;
      pen.fillText(unit === "bytes" ? bytes(tick) : short(tick), across(tick), HEIGHT - BOTTOM + 14);
    }
    pen.fillText(`storage size (${unit})`, (LEFT + width - RIGHT) / 2, HEIGHT - 9);
    pen.save();
    pen.translate(12, (HEIGHT - BOTTOM + TOP) / 2);
    pen.rotate(-Math.PI / 2);
    pen.fillText(best ? "throughput, of the fastest" : "throughput", 0, 0);
    pen.restore();
  }

  function hatch(pen, from, to, up, colour) {
    pen.save();
    pen.beginPath();
    pen.rect(from, TOP, to - from, up(0) - TOP);
    pen.clip();
    pen.strokeStyle = colour.line;
    pen.lineWidth = 1;
    for (let x = from - HEIGHT; x < to; x += 9) {
      pen.beginPath();
      pen.moveTo(x, up(0));
      pen.lineTo(x + up(0) - TOP, TOP);
      pen.stroke();
    }
    pen.fillStyle = colour.ink;
    pen.textAlign = "right";
    pen.fillText(fitted(pen, "not searched", to - from - 4), to - 4, up(0) - 12);
    pen.restore();
  }

  function choose(number) {
    chosen = Math.min(Math.max(number, 0), points.length - 1);
    const point = points[chosen];
    const rate = point.r ? `, ${point.r} of the fastest` : "";
    frame.setAttribute("aria-valuenow", String(chosen + 1));
    frame.setAttribute("aria-valuetext", `${amount(point.s, unit)}, period ${periodText(point.p)}${rate}`);
    const before = chosen ? capacities[chosen - 1] : null;
    const rows = names.map((name, index) => [name, capacities[chosen][index], before ? capacities[chosen][index] - before[index] : 0]);
    rows.sort((one, other) => Math.sign(Math.abs(other[2])) - Math.sign(Math.abs(one[2])));
    const body = rows.slice(0, 400).map(([name, capacity, more]) => make("tr", { class: more ? "changed" : null },
      make("th", { scope: "row" }, name), make("td", { class: "number" }, String(capacity)),
      make("td", { class: "number" }, more ? (more > 0 ? "+" : "−") + Math.abs(more) : "")));
    const head = make("tr", {}, ...["channel", "capacity", "step"].map((one, at) => make("th", { scope: "col", class: at ? "number" : null }, one)));
    detail.replaceChildren(
      make("h3", {}, `Point ${chosen + 1} of ${points.length}`),
      make("p", { id: "front-size" }, `${amount(point.s, unit)}${unit === "bytes" ? ` (${point.s} bytes)` : ""}`),
      make("p", { id: "front-period" }, `period ${periodText(point.p)}${rate}`),
      make("div", { class: "scroller", tabindex: "0", role: "region", "aria-label": "capacities of this point" },
        make("table", { id: "front-capacities" }, make("thead", {}, head), make("tbody", {}, ...body))),
    );
    if (rows.length > 400) detail.append(make("p", {}, `${rows.length - 400} more channels.`));
    draw();
  }

  function nearest(event) {
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const far = (point) => Math.abs(place.across(point.s) - x) + 0.2 * Math.abs(place.up(height(point)) - y);
    return points.reduce((nearest, point, number) => (far(point) < far(points[nearest]) ? number : nearest), 0);
  }

  frame.addEventListener("pointermove", (event) => {
    const number = nearest(event);
    if (number !== chosen) choose(number);
    tell(event, `${amount(points[number].s, unit)}\nperiod ${points[number].p}${points[number].r ? `\n${points[number].r} of the fastest` : ""}`);
  });
  frame.addEventListener("pointerdown", (event) => choose(nearest(event)));
  frame.addEventListener("pointerleave", hush);
  frame.addEventListener("keydown", (event) => {
    const next = {
      ArrowRight: chosen + 1, ArrowUp: chosen + 1, ArrowLeft: chosen - 1, ArrowDown: chosen - 1,
      Home: 0, End: points.length - 1, PageUp: chosen + 10, PageDown: chosen - 10,
    }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    choose(next);
  });
  byId("front-tools").append(pictureButton("front", draw));
  watchSize(frame, eventually(draw));
  choose(chosen);
}
