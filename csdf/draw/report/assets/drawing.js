// The drawing of the graph: zoom and pan by its viewBox.
{
  const svg = document.querySelector("svg.drawing");
  const whole = svg.dataset.view.split(" ").map(Number);
  let view = [...whole];
  const frame = () => svg.getBoundingClientRect();
  const fitScale = () => Math.min(frame().width / whole[2], frame().height / whole[3]);

  function show() {
    svg.setAttribute("viewBox", view.map((one) => one.toFixed(2)).join(" "));
  }
  function zoom(factor, x = view[0] + view[2] / 2, y = view[1] + view[3] / 2) {
    const least = frame().width / (4 * Math.max(1, fitScale()) + 4);
    const width = Math.min(Math.max(view[2] / factor, Math.min(least, whole[2])), whole[2] * 1.5);
    const real = view[2] / width;
    view = [x - (x - view[0]) / real, y - (y - view[1]) / real, view[2] / real, view[3] / real];
    show();
  }
  function pan(dx, dy) {
    const limit = (at, size, from, room) => Math.min(Math.max(at, from - size * 0.8), from + room - size * 0.2);
    view[0] = limit(view[0] + dx, view[2], whole[0], whole[2]);
    view[1] = limit(view[1] + dy, view[3], whole[1], whole[3]);
    show();
  }
  // Drawings begin as a whole where that is legible (8 pixels), and not too large; others at the critical cycle.
  function begin() {
    const { width, height } = frame();
    const scale = fitScale() < 0.73 ? 0.8 : Math.min(fitScale(), 1.3);
    view[2] = width / scale;
    view[3] = height / scale;
    const node = svg.querySelector(".node.critical") || svg.querySelector(".node");
    const place = node.transform.baseVal.consolidate().matrix;
    const centre = (at, size, room) => size >= room ? (room - size) / 2 : Math.min(Math.max(at - size / 2, 0), room - size);
    view[0] = centre(place.e, view[2], whole[2]);
    view[1] = centre(place.f, view[3], whole[3]);
    show();
  }
  function fit() { view = [...whole]; show(); }
  // What is chosen and what it is joined to stand out; it moves into view where it is not seen.
  const nodes = new Map([...svg.querySelectorAll(".node")].map((node) => [node.dataset.name, node]));
  const edges = [...svg.querySelectorAll(".edge")];
  selection.listeners.push((name) => {
    const near = new Set([name]);
    for (const edge of edges) {
      const is = name !== null && (edge.dataset.from === name || edge.dataset.to === name);
      edge.classList.toggle("near", is);
      if (is) near.add(edge.dataset.from).add(edge.dataset.to);
    }
    svg.classList.toggle("focused", nodes.has(name));
    for (const [other, node] of nodes) {
      node.classList.toggle("near", near.has(other));
      node.classList.toggle("chosen", other === name);
    }
    if (!nodes.has(name)) return;
    const { e, f } = nodes.get(name).transform.baseVal.consolidate().matrix;
    const isSeen = e > view[0] && e < view[0] + view[2] && f > view[1] && f < view[1] + view[3];
    if (!isSeen) { view[0] = e - view[2] / 2; view[1] = f - view[3] / 2; show(); }
  });
  const unit = () => Math.max(view[2] / frame().width, view[3] / frame().height);
  const place = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    return [point.x, point.y];
  };
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && document.activeElement !== svg) return;
    event.preventDefault();
    zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2, ...place(event));
  }, { passive: false });
  draggable(svg, (dx, dy) => pan(-dx * unit(), -dy * unit()), (event) => {
    const node = event.target.closest(".node");
    selection.choose(node ? node.dataset.name : null);
  });
  svg.addEventListener("keydown", (event) => {
    const step = 60 * unit();
    const act = {
      ArrowLeft: () => pan(-step, 0), ArrowRight: () => pan(step, 0),
      ArrowUp: () => pan(0, -step), ArrowDown: () => pan(0, step),
      "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(1 / 1.25), "0": fit, Home: begin,
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    act();
  });
  byId("graph-tools").append(
    button("+", "zoom in", () => zoom(1.4)), button("−", "zoom out", () => zoom(1 / 1.4)),
    button("Fit", "show the whole drawing", fit), ...(svg.querySelector(".node.critical") ? [button("Critical cycle", "go to the critical cycle", begin)] : []),
    make("span", { class: "hint" }, "drag to move; the wheel zooms after a click or with Ctrl"),
  );
  begin();
  window.addEventListener("resize", eventually(begin));
}
