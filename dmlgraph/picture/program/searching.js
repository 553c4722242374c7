// Searching.

const everything = views.flatMap((view) => [...everyBox(view.scene).filter((box) => box.kind !== "reference"), ...once(weightsOf(view.scene))].map((box) =>
  ({ view, box, words: `${box.name} ${box.lines.join(" ")} ${box.origins.join(" ")}`.toLowerCase() })));
let found = [], active = 0;

function search() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const name = words.join(" ");
  found = words.length ? everything.filter((each) => words.every((word) => each.words.includes(word))) : [];
  const rank = ({ box }) => (box.name.toLowerCase() === name ? 0 : box.name.toLowerCase().startsWith(name) ? 1 : 2);
  found.sort((a, b) => rank(a) - rank(b));
  active = 0;
  for (const view of views) view.marked = markable(found.filter((each) => each.view === view).map((each) => each.box));
  list();
  redraw();
}

function list() {
  const shown = found.slice(0, 50), open = $("search").value.trim() !== "";
  const items = shown.map(({ view, box }, index) => {
    const about = [legendOf(box), box.lines[1] ?? "", views.length > 1 ? view.scene.title : ""].filter(Boolean).join(" · ");
    const item = element("li", { id: `found-${index}` }, element("span", { textContent: box.name }), element("span", { textContent: about }));
    item.setAttribute("role", "option");
    item.setAttribute("aria-selected", index === active);
    item.onmousedown = (event) => { event.preventDefault(); active = index; take(); };
    return item;
  });
  const more = found.length - shown.length;
  if (!found.length || more > 0) items.push(element("li", { className: "faint", textContent: found.length ? `${more} more` : "nothing of that name" }));
  $("found").replaceChildren(...items);
  $("found").hidden = !open;
  $("search").setAttribute("aria-expanded", open);
  if (shown.length) $("search").setAttribute("aria-activedescendant", `found-${active}`);
  else $("search").removeAttribute("aria-activedescendant");
  $("found").children[active]?.scrollIntoView({ block: "nearest" });
}

function close() {
  $("found").hidden = true;
  $("search").setAttribute("aria-expanded", false);
}

function take() {
  if (!found[active]) return;
  const { view, box } = found[active];
  close();
  select(view, { box }, { show: true });
  view.canvas.focus();
}

$("search").oninput = search;
$("search").onblur = close;
$("search").onkeydown = (event) => {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    const count = Math.min(found.length, 50);
    active = count && (active + (event.key === "ArrowDown" ? 1 : count - 1)) % count;
    list();
  } else if (event.key === "Enter") take();
  else if (event.key === "Escape") { $("search").value = ""; search(); close(); }
};
