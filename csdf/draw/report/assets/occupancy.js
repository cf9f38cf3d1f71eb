// What channels hold over time: a list of small pictures, and the chosen one in large.
if (runs.length) {
  const HEIGHT = 190;
  const chart = byId("occupancy-chart");
  const canvas = make("canvas", { "aria-hidden": "true" });
  const frame = make("div", {
    class: "frame", tabindex: "0", role: "application", id: "occupancy",
    "aria-label": "tokens of the chosen channel over time; the keys are those of the schedule",
  }, canvas);
  chart.append(frame);
  const list = byId("occupancy-list");
  let chosen = null;

  // The value at a time: the last step that is not later.
  function stepAt(channel, time) {
    let [low, high] = [0, channel.times.length];
    while (low < high) { const middle = (low + high) >> 1; if (channel.times[middle] <= time) low = middle + 1; else high = middle; }
    return low - 1;
  }

  const left = nameWidth;
  // A channel that is named after its ends has those of their names that do not look alike.
  const channelName = ({ n, a, b }) => (n === `${a} to ${b}` ? `${shortNames.get(a)} to ${shortNames.get(b)}` : n);

  function draw() {
    const width = frame.clientWidth;
    if (!width || !chosen) return;
    const colour = colours();
    const pen = prepared(canvas, width, HEIGHT + AXIS);
    const names = left(width);
    const across = timeAxis(pen, names, width - names, 8, HEIGHT, colour);
    const top = Math.max(chosen.m, chosen.c || 0, 1);
    const up = (value) => HEIGHT - value / top * (HEIGHT - 24);
    pen.textAlign = "right";
    for (const tick of ticks(0, top, 4)) {
      if (!Number.isInteger(tick)) continue;
      pen.fillStyle = colour.grid;
      pen.fillRect(names, Math.round(up(tick)), width - names, 1);
      pen.fillStyle = colour.soft;
      pen.fillText(short(tick), names - 6, up(tick));
    }
    upTitle(pen, "tokens", 12, HEIGHT / 2, colour);
    outline(pen, names, width, across, up, colour);
    if (chosen.c !== null) {
      pen.strokeStyle = colour.critical;
      pen.setLineDash([6, 4]);
      pen.lineWidth = 1.5;
      pen.beginPath();
      pen.moveTo(names, Math.round(up(chosen.c)) + 0.5);
      pen.lineTo(width, Math.round(up(chosen.c)) + 0.5);
      pen.stroke();
      pen.setLineDash([]);
      pen.fillStyle = colour.critical;
      pen.textAlign = "right";
      pen.fillText(`capacity ${chosen.c}`, width - 8, up(chosen.c) - 9);
    }
  }

  // Highest and lowest value in each pixel, so that nothing short is lost.
  function outline(pen, from, width, across, up, colour) {
    const { low, high } = timeWindow;
    const perPixel = (high - low) / (width - from);
    pen.fillStyle = colour["fill-pale"];
    const tops = [];
    for (let x = from; x < width; x++) {
      const time = low + (x - from) * perPixel;
      const first = Math.max(stepAt(chosen, time), 0);
      const last = Math.max(stepAt(chosen, time + perPixel), first);
      if (time + perPixel < 0 || time > timeWindow.run.end) { tops.push(null); continue; }
      let [least, most] = [Infinity, -Infinity];
      const stride = Math.max(1, Math.floor((last - first) / 400));
      for (let i = first; i <= last; i += stride) {
        least = Math.min(least, chosen.v[i]);
        most = Math.max(most, chosen.v[i]);
      }
      pen.fillRect(x, up(most), 1, HEIGHT - up(most));
      tops.push([up(most), up(least)]);
    }
    pen.fillStyle = colour.fill;
    tops.forEach((one, x) => { if (one) pen.fillRect(from + x, one[0] - 1, 1, Math.max(one[1] - one[0], 1) + 1); });
  }

  function describe(channel) {
    const limit = channel.c === null ? "no capacity" : `capacity ${channel.c}`;
    const size = channel.z ? ` (${bytes(channel.m * channel.z)})` : "";
    return `at most ${channel.m} ${channel.m === 1 ? "token" : "tokens"}${size}, ${limit}`;
  }

  function choose(channel, focus) {
    chosen = channel;
    for (const one of list.children) {
      const is = one.dataset.name === channel.n;
      one.setAttribute("aria-selected", String(is));
      one.tabIndex = is ? 0 : -1;
      if (is && focus) one.focus();
    }
    byId("occupancy-detail").textContent = `“${channel.n}”, from “${channel.a}” to “${channel.b}”: ${describe(channel)}.`;
    draw();
  }

  function spark(channel, end) {
    const svg = makeSvg("svg", { viewBox: "0 0 100 26", preserveAspectRatio: "none", "aria-hidden": "true" });
    const top = Math.max(channel.m, channel.c || 0, 1);
    const up = (value) => (25 - value / top * 23).toFixed(1);
    let path = `M0 26`;
    for (let x = 0; x < 100; x++) {
      const first = Math.max(stepAt(channel, x / 100 * end), 0);
      const last = Math.max(stepAt(channel, (x + 1) / 100 * end), first);
      let most = 0;
      const stride = Math.max(1, Math.floor((last - first) / 50));
      for (let i = first; i <= last; i += stride) most = Math.max(most, channel.v[i]);
      path += `L${x} ${up(most)}L${x + 1} ${up(most)}`;
    }
    svg.append(makeSvg("path", { d: path + "L100 26Z" }));
    if (channel.c !== null) svg.append(makeSvg("line", { x1: 0, x2: 100, y1: up(channel.c), y2: up(channel.c) }));
    return svg;
  }

  function fill() {
    const { run } = timeWindow;
    const wanted = byId("occupancy-filter").value.toLowerCase();
    const own = (one) => Number(selection.name !== null && (one.a === selection.name || one.b === selection.name));
    const channels = run.channels.filter((one) => one.n.toLowerCase().includes(wanted)).sort((one, other) => own(other) - own(one));
    const pieces = channels.map((channel) => {
      const is = channel.c !== null && channel.m >= channel.c;
      const fact = channel.c === null ? `at most ${channel.m}` : `${channel.m} of ${channel.c}${is ? ", full" : ""}`;
      const one = make("div", { class: "spark", role: "option", tabindex: "-1", "data-name": channel.n, title: channel.n },
        make("span", { class: "spark-name" }, channelName(channel)), spark(channel, Math.max(run.end, 1)),
        make("span", { class: "spark-fact" }, fact));
      one.addEventListener("click", () => choose(channel, true));
      return one;
    });
    list.replaceChildren(...pieces);
    if (run.left) list.append(make("p", {}, `${run.left} more channels have no room on this page.`));
    const kept = channels.find((one) => chosen && one.n === chosen.n);
    if (channels.length) choose(kept || fullest(channels), false);
  }

  // Where the graph waits for room is the most telling channel.
  function fullest(channels) {
    const score = (one) => (one.c === null ? 0 : one.m >= one.c ? 1 : 0) * (one.t.length > 3 ? 2 : 1);
    return channels.reduce((best, one) => (score(one) > score(best) ? one : best));
  }

  list.addEventListener("keydown", (event) => {
    const options = [...list.querySelectorAll(".spark")];
    const at = options.findIndex((one) => one.dataset.name === chosen.n);
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -at, End: options.length - 1 - at }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = options[Math.min(Math.max(at + by, 0), options.length - 1)];
    choose(timeWindow.run.channels.find((one) => one.n === next.dataset.name), true);
  });
  byId("occupancy-filter").addEventListener("input", fill);
  // The channels of the actor that is chosen come first, and the first of them is shown.
  selection.listeners.push((name) => {
    const kept = timeWindow.run.channels.find((one) => one.a === name || one.b === name);
    if (kept) chosen = kept;
    fill();
    list.scrollTop = 0;
  });
  byId("occupancy-tools").append(pictureButton("channel", draw));
  frame.addEventListener("keydown", (event) => timeWindow.keys(event));
  frame.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const names = left(frame.clientWidth);
    const share = (event.clientX - box.left - names) / (frame.clientWidth - names);
    if (share < 0 || !chosen) { hush(); return; }
    const time = timeWindow.low + share * (timeWindow.high - timeWindow.low);
    const at = stepAt(chosen, time);
    if (at < 0 || time > timeWindow.run.end) { hush(); return; }
    tell(event, `${chosen.v[at]} ${chosen.v[at] === 1 ? "token" : "tokens"} at ${timeText(time, false)}\nsince ${timeText(chosen.times[at])}`);
  });
  frame.addEventListener("pointerleave", hush);
  frame.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== frame) return;
    event.preventDefault();
    timeWindow.zoom(event.deltaY < 0 ? 1.25 : 1 / 1.25);
  }, { passive: false });
  draggable(frame, (dx) => timeWindow.pan(-dx / (frame.clientWidth - left(frame.clientWidth))));
  let shown = null;
  const later = eventually(() => {
    if (shown !== timeWindow.run) { shown = timeWindow.run; chosen = chosen && { n: chosen.n }; fill(); }
    draw();
  });
  timeWindow.listeners.push(later);
  watchSize(frame, later);
  later();
}
