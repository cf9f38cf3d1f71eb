// Tables: sort by the buttons of their heads, filter by text and by the critical cycle.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const heads = [...table.tHead.rows[0].cells];
  const count = byId(table.id + "-count");
  const whole = count.textContent;
  const find = document.querySelector(`[data-filter="${table.id}"]`);
  const only = document.querySelector(`[data-marked="${table.id}"]`);

  const key = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  const compare = (column) => (one, other) => {
    const [a, b] = [key(one, column), key(other, column)];
    if (a !== null && b !== null) return a - b;
    if ((a === null) !== (b === null)) return a === null ? 1 : -1;
    return one.cells[column].textContent.localeCompare(other.cells[column].textContent, "en", { numeric: true });
  };
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const isNumber = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    const up = before ? before === "descending" : !isNumber; // the largest number first
    heads.forEach((one) => one.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const sorted = [...rows].sort(compare(column));
    body.append(...(up ? sorted : sorted.reverse()));
  }));
  function filter() {
    const wanted = find.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      const is = text.includes(wanted) && (!only || !only.checked || row.classList.contains("marked"));
      row.hidden = !is;
      shown += is;
    }
    count.textContent = shown === rows.length ? whole : `${shown} of ${rows.length} ${table.dataset.noun}s`;
  }
  find.addEventListener("input", filter);
  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row) selection.choose(row.cells[0].textContent);
  });
  selection.listeners.push((name) => {
    for (const row of rows) {
      const is = row.cells[0].textContent === name;
      row.classList.toggle("chosen", is);
      if (is) { const box = table.closest(".scroller"); box.scrollTop = Math.max(0, row.offsetTop - box.clientHeight / 2); }
    }
  });
  if (only) only.addEventListener("change", filter);
}

// Tables as CSV.
// The number behind what is rounded or has a unit.
function cellText(cell) {
  const text = cell.textContent.trim();
  return cell.dataset.value === undefined || /^-?\d+$/.test(text) ? text : String(Number(cell.dataset.value));
}
function commaSeparated(table) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  return [...table.rows].map((row) => [...row.cells].map(cellText).map(quoted).join(",") + "\n").join("");
}
for (const table of document.querySelectorAll("main table")) {
  if (table.closest("#front-detail")) continue; // all points are in the table below
  const what = table.id || table.closest("section").id;
  const one = button("CSV", `save the table ${what} as CSV`, () => save(fileName(what, "csv"), "text/csv", commaSeparated(table)));
  const filter = table.id && document.querySelector(`[data-filter="${table.id}"]`);
  if (filter) filter.closest(".tools").append(one);
  else (table.closest(".scroller") || table).before(make("div", { class: "tools" }, one));
}
byId("graph-tools").append(button("SVG", "save the picture of the graph as SVG", () => save(fileName("graph", "svg"), "image/svg+xml", drawnGraph())));
showTheme();
fromAddress();
