// Selecting.

let selected = {}; // {view, scene, box} or {view, scene, edge}
const views = data.scenes.map((scene) => new View(prepare(scene)));
const once = (boxes) => [...new Map(boxes.map((box) => [box.name, box]).reverse()).values()].reverse(); // the first of each name
const redraw = () => views.forEach((view) => view.draw());

function related(box) {
  const names = new Set([box.name, ...box.origins]);
  return (other) => other.kind !== "output" && (names.has(other.name) || other.origins.includes(box.name));
}

function select(view, found, { show = false } = {}) {
  if (found.box && found.box.kind === "reference") {
    const { around: scene, standsFor, name } = found.box;
    found = { box: scene.boxes[standsFor] ?? everyBox(view.scene).find((box) => box.name === name && box.kind !== "reference") };
    show = true;
  }
  selected = found.box || found.edge ? { view, ...found } : {};
  for (const each of views) {
    const mark = selected.box && selected.box.kind !== "output" ? [...everyBox(each.scene), ...weightsOf(each.scene)].filter(related(selected.box)) : [];
    each.marked = markable(each === view ? [] : mark);
    if (show && each !== view && mark.length) reveal(each, mark[0]);
  }
  if (show && selected.box) reveal(view, selected.box);
  tell();
  redraw();
}

// Brings a box into the middle, and opens what is around it.
function reveal(view, box) {
  const closed = scenesAround(box).filter(hidden);
  for (const scene of closed) Object.assign(scene.owner, { open: true, inner: scene });
  if (closed.length) arrange(view.scene);
  const [dx, dy] = origin(box), { x, y } = box.host ?? box;
  view.centre(x + dx, y + dy);
}

// Opens or closes a box; its upper left corner stays where it is.
function toggle(view, box) {
  const corner = () => { const [dx, dy] = origin(box); return [box.x - box.w / 2 + dx, box.y - box.h / 2 + dy]; };
  const [x, y] = corner();
  box.open = !box.open;
  arrange(view.scene);
  const [nowX, nowY] = corner();
  view.x += nowX - x;
  view.y += nowY - y;
  if (box.open) view.show(nowX, nowY, nowX + box.w, nowY + box.h);
  else if (selected.box && around(selected.box).includes(box)) select(view, { box });
  tell();
  redraw();
}

// The panel: all about what is selected.

function tell() {
  const panel = $("panel"), { view, box, edge } = selected;
  panel.replaceChildren();
  if (!view) {
    const lines = views.map(({ scene }) => {
      const nodes = everyBox(scene).filter(({ kind }) => kind !== "reference" && kind !== "folded"), weights = once(weightsOf(scene));
      return `${scene.title}: ${nodes.length} boxes, ${weights.length} weights in them`;
    });
    panel.append(...lines.map((line) => element("p", { textContent: line })),
      element("p", { className: "faint", textContent: "Click a node or an edge, or find a node, to see all its fields." }));
    for (const { scene } of views) {
      if (!scene.notes.length) continue;
      const [summary, ...notes] = scene.notes;
      panel.append(element("h3", { textContent: "What was fused" }), element("p", { textContent: summary }),
        element("ol", { id: "notes" }, ...notes.slice(0, NOTES).map((note) => element("li", { textContent: note }))));
      if (notes.length > NOTES)
        panel.append(element("p", { className: "faint", textContent: `and ${notes.length - NOTES} more: dmlgraph lower --explain tells all` }));
    }
    return;
  }
  panel.append(element("h1", { textContent: box ? box.name : edge.label }));
  const kind = element("span", { className: "kind", textContent: box ? legendOf(box) : "tensor" });
  kind.style.borderColor = colours[box ? `${box.look}-line` : "edge"];
  panel.append(kind, fields((box ?? edge).rows));
  const links = (heading, boxes) => {
    if (!boxes.length) return;
    const items = boxes.map(([each, label]) => {
      const button = element("button", { type: "button", textContent: label, title: label });
      button.onclick = () => { select(view, { box: each }, { show: true }); view.canvas.focus(); };
      return element("li", {}, button);
    });
    panel.append(element("h3", { textContent: heading }), element("ul", {}, ...items));
  };
  if (edge) return links("Between", [[edge.from, edge.from.name], [edge.to, edge.to.name]]);
  if (box.inner) {
    const what = box.kind === "folded" ? "scope" : "group";
    const button = element("button", { type: "button", textContent: `${box.open ? "Close" : "Open"} the ${what}` });
    button.id = "group";
    button.setAttribute("aria-expanded", box.open);
    button.onclick = () => { toggle(view, box); $("group").focus(); };
    panel.append(element("h3", { textContent: box.kind === "folded" ? "Scope" : "Fused" }), button);
    if (box.inners.length > 1) panel.append(copies(view, box));
    const inside = box.inner.boxes.filter((each) => each.kind !== "reference").map((each) => [each, each.name]);
    links(box.kind === "folded" ? "Holds" : "Came from", inside);
  }
  links("Reads", box.into.map((each) => [each.from, `${each.from.name}: ${each.label}`]));
  links("Weights", box.weights.map((each) => [each, `${each.name}: ${each.line}`]));
  const hosts = box.host ? weightsOf(view.scene).filter((each) => each.name === box.name) : [box];
  links("Read by", hosts.flatMap(({ out }) => out).map((each) => [each.to, `${each.to.name}: ${each.label}`]));
}

// The choice of which of several scopes that are alike is shown.
function copies(view, box) {
  const options = box.inners.map(({ title }) => element("option", { textContent: title }));
  const chooser = element("select", { id: "copy" }, ...options);
  chooser.setAttribute("aria-label", "Which copy is shown");
  chooser.selectedIndex = box.inners.indexOf(box.inner);
  chooser.onchange = () => {
    box.inner = box.inners[chooser.selectedIndex];
    arrange(view.scene);
    tell();
    $("copy").focus();
    redraw();
  };
  return chooser;
}

function fields(rows) {
  const list = element("dl");
  for (const [what, value] of pairs(rows)) list.append(element("dt", { textContent: what }), element("dd", { textContent: value }));
  return list;
}

const legendOf = ({ kind, family }) => (family ? `${data.kinds[kind]} · ${family}` : data.kinds[kind]);
