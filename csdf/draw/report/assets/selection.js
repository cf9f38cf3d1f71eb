// The actor that is chosen on the whole page, and the view of what surrounds it.
const selection = {
  name: null, listeners: [],
  // A name that is not on the page chooses nothing. isTold: whether the address of the page says it.
  choose(name, isTold = true) {
    const known = name !== null && actorNames.has(name) ? name : null;
    if (known === this.name) return;
    this.name = known;
    if (isTold) history.replaceState(null, "", known === null ? location.pathname + location.search : address(known));
    this.listeners.forEach((one) => one(known));
  },
  touches: (channel, name) => name !== null && (channel[1] === name || channel[2] === name),
};
const actorNames = new Map(data.names.map((name, number) => [name, number]));
const address = (name) => "#actor=" + encodeURIComponent(name);

// "#actor=NAME" opens the page with that actor chosen.
function fromAddress() {
  if (!location.hash.startsWith("#actor=")) return;
  try { selection.choose(decodeURIComponent(location.hash.slice(7)), false); } catch { return; }
  if (selection.name !== null) byId("graph").scrollIntoView();
}

{
  const noun = data.noun;
  const find = make("input", { type: "search", id: "find", list: "find-names", placeholder: "part of a name", autocomplete: "off" });
  const names = make("datalist", { id: "find-names" }, ...data.names.slice(0, 2000).map((name) => make("option", { value: name })));
  const found = make("span", { class: "hint", role: "status", id: "found" });
  const matching = (text) => data.names.filter((name) => name.toLowerCase().includes(text));
  function search(isFinal) {
    const text = find.value.trim();
    const all = text ? matching(text.toLowerCase()) : [];
    found.textContent = text ? (all.length === 1 ? `1 ${noun}` : `${all.length} ${noun}s`) : "";
    if (actorNames.has(text)) selection.choose(text);
    else if (isFinal && all.length) { selection.choose(all[0]); find.value = all[0]; }
    if (isFinal && selection.name !== null) byId("graph").scrollIntoView({ behavior: "smooth" });
  }
  find.addEventListener("input", () => search(false));
  find.addEventListener("keydown", (event) => { if (event.key === "Enter") search(true); });
  byId("finder").append(make("label", {}, `Find ${/^[aeiou]/.test(noun) ? "an" : "a"} ${noun}: `, find), names, found);
  document.addEventListener("click", (event) => {
    const one = event.target.closest("[data-actor]");
    if (one) selection.choose(one.dataset.actor);
  });

  // Producers at the left, consumers at the right, whatever the size of the graph.
  const MOST = 40;
  const panel = byId("focus");
  function neighbour(channel, other, isSelf) {
    const [name, , , made, taken, tokens, capacity] = channel;
    const facts = [`${made} → ${taken}`];
    if (tokens) facts.push(`● ${tokens}`);
    if (capacity !== null) facts.push(`capacity ${capacity}`);
    return make("li", {}, isSelf ? make("span", {}, name) : make("button", { type: "button", "data-actor": other, title: `choose ${other}` }, other),
      make("small", {}, `${isSelf ? "" : name + ": "}${facts.join(", ")}`));
  }
  function side(title, channels, other) {
    const shown = channels.slice(0, MOST).map((one) => neighbour(one, one[other], one[1] === one[2]));
    if (channels.length > MOST) shown.push(make("li", {}, `and ${channels.length - MOST} more`));
    return make("div", {}, make("h4", {}, title), shown.length ? make("ul", {}, ...shown) : make("p", {}, "nothing"));
  }
  function surround(name) {
    panel.hidden = name === null;
    if (name === null) return;
    const own = data.channels.filter((one) => selection.touches(one, name));
    const loops = own.filter((one) => one[1] === one[2]);
    const middle = make("div", { class: "focus-middle" }, make("strong", { id: "focus-name" }, name),
      make("p", {}, data.facts[actorNames.get(name)]),
      ...(loops.length ? [make("ul", {}, ...loops.map((one) => neighbour(one, name, true)))] : []),
      button("Choose nothing", "choose no " + noun, () => selection.choose(null)));
    panel.replaceChildren(side("reads from", own.filter((one) => one[2] === name && one[1] !== name), 1), middle,
      side("writes to", own.filter((one) => one[1] === name && one[2] !== name), 2));
  }
  selection.listeners.push(surround);
  selection.listeners.push((name) => { find.value = name ?? ""; found.textContent = ""; });
}
window.addEventListener("hashchange", fromAddress);
