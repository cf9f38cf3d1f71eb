// Tables: sort by the buttons of their heads, filter by text and by the bottleneck.
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
  if (only) only.addEventListener("change", filter);
}
showTheme();
