"use strict";
// Draws the scenes of the page's data; names below say where html.py puts what.
const data = JSON.parse(document.getElementById("data").textContent);
const text = (index) => data.texts[index];
const pairs = (rows) => Array.from({ length: rows.length / 2 }, (_, i) => [text(rows[2 * i]), text(rows[2 * i + 1])]);
const $ = (id) => document.getElementById(id);
const SANS = getComputedStyle(document.body).fontFamily;
const READABLE = 0.38; // from this scale on texts are drawn
const NOTES = 200; // of what was fused, so many lines are shown
const CARD = { gap: 34, head: 30 }; // an opened group: distance from its node, height of its heading

const element = (tag, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
};

// The scenes, with names for places.

const outlines = data.outlines.map((path) => new Path2D(path));

function arrow(way, [x, y]) {
  const [fromX, fromY] = way.slice(-2);
  const length = Math.hypot(x - fromX, y - fromY) || 1;
  const across = ((y - fromY) / length) * 3.5, along = ((x - fromX) / length) * 3.5;
  const path = new Path2D();
  path.moveTo(x, y);
  path.lineTo(fromX - across, fromY + along);
  path.lineTo(fromX + across, fromY - along);
  path.closePath();
  return path;
}

function prepare(scene, parent = null) {
  const boxes = scene.boxes.map(([record, x, y, w, h, outline, standsFor], index) => {
    const [kind, name, lines, rows, origins] = data.nodes[record];
    return { index, kind, name: text(name), lines: lines.map(text), rows, origins: origins.map(text),
      x, y, w, h, outline: outlines[outline], standsFor, into: [], out: [], card: null };
  });
  const all = new Path2D();
  const edges = scene.edges.map(([from, to, label, labelX, labelY, way, tip, rows]) => {
    const wire = new Path2D();
    wire.moveTo(way[0], way[1]);
    for (let i = 2; i < way.length; i += 6) wire.bezierCurveTo(...way.slice(i, i + 6));
    all.addPath(wire);
    const xs = way.filter((_, i) => i % 2 === 0), ys = way.filter((_, i) => i % 2);
    const edge = { from: boxes[from], to: boxes[to], label: text(label), labelX, labelY, wire, head: arrow(way, tip), rows,
      left: Math.min(...xs, labelX - 70), right: Math.max(...xs, labelX + 70), top: Math.min(...ys), bottom: Math.max(...ys) };
    boxes[from].out.push(edge);
    boxes[to].into.push(edge);
    return edge;
  });
  const prepared = { title: scene.title, notes: scene.notes.map(text), width: scene.width, height: scene.height, boxes, edges, all, parent };
  for (const [index, group] of Object.entries(scene.groups)) {
    const owner = boxes[index];
    const inner = prepare(group, prepared);
    owner.card = { owner, scene: inner, open: false, w: Math.max(inner.width, 190), h: inner.height + CARD.head,
      x: owner.x + owner.w / 2 + CARD.gap, y: owner.y - inner.height / 2 - CARD.head };
    inner.card = owner.card;
  }
  prepared.cards = boxes.filter((box) => box.card).map((box) => box.card);
  return prepared;
}

// One view a scene: a canvas that shows a part of it.

let colours = {};
function readColours() {
  const style = getComputedStyle(document.documentElement);
  colours = new Proxy({}, { get: (known, name) => (known[name] ??= style.getPropertyValue(`--${name}`).trim()) });
}

class View {
  constructor(scene) {
    this.scene = scene;
    this.canvas = element("canvas", { tabIndex: 0 });
    this.canvas.setAttribute("role", "application");
    this.canvas.setAttribute("aria-label", `Graph ${scene.title}: ${scene.boxes.length} nodes; arrow keys walk along the edges`);
    this.section = element("section", {}, this.canvas, element("h2", { textContent: scene.title }));
    this.context = this.canvas.getContext("2d");
    this.marked = new Set();
    this.scale = 1;
    this.x = this.y = 0; // the scene's point at the canvas's upper left
    this.pending = false;
    new ResizeObserver(() => this.resize()).observe(this.canvas);
  }

  get width() { return this.canvas.clientWidth; }
  get height() { return this.canvas.clientHeight; }

  resize() {
    const first = !this.sized, ratio = window.devicePixelRatio || 1;
    this.sized = true;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    if (first) this.fit(READABLE * 1.6);
    this.paint();
    if (first) document.body.dataset.drawn = "";
  }

  // The whole scene; or, where that would be smaller than `least`, its beginning: from the topmost box on, for in the
  // middle of a large scene there may be nothing.
  fit(least = 0) {
    const { width, height, boxes } = this.scene;
    const whole = Math.max(Math.min(this.width / width, (this.height - 50) / height, 1.4), 0.002);
    this.scale = Math.max(whole, least);
    const first = boxes.reduce((top, box) => (!top || box.y - box.h / 2 < top.y - top.h / 2 ? box : top), null);
    const middle = whole < least && this.width / width < least && first ? first.x : width / 2;
    this.x = middle - this.width / 2 / this.scale;
    this.y = whole < least && first ? first.y - first.h / 2 - 70 / this.scale : height / 2 - (this.height / 2 + 20) / this.scale;
    this.draw();
  }

  zoom(factor, px = this.width / 2, py = this.height / 2) {
    const scale = Math.min(Math.max(this.scale * factor, 0.002), 4);
    this.x += px / this.scale - px / scale;
    this.y += py / this.scale - py / scale;
    this.scale = scale;
    this.draw();
  }

  move(dx, dy) {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.draw();
  }

  centre(x, y) {
    this.scale = Math.max(this.scale, 0.9);
    this.x = x - this.width / 2 / this.scale;
    this.y = y - this.height / 2 / this.scale;
    this.draw();
  }

  // Brings a rectangle of the scene into sight, smaller if it must be.
  show(left, top, right, bottom) {
    const room = 24 / this.scale, scale = Math.min(this.width / (right - left + 2 * room), this.height / (bottom - top + 2 * room));
    if (scale < this.scale) this.zoom(scale / this.scale);
    const into = (from, size, low, high) => Math.max(Math.min(from, low - room), high + room - size);
    this.x = into(this.x, this.width / this.scale, left, right);
    this.y = into(this.y, this.height / this.scale, top, bottom);
    this.draw();
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => this.paint());
  }

  paint() {
    this.pending = false;
    const c = this.context, scale = this.scale * (window.devicePixelRatio || 1);
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.clearRect(0, 0, this.canvas.width, this.canvas.height);
    c.setTransform(scale, 0, 0, scale, -this.x * scale, -this.y * scale);
    c.textAlign = "center";
    c.textBaseline = "middle";
    const sight = { left: this.x, top: this.y, right: this.x + this.width / this.scale, bottom: this.y + this.height / this.scale };
    this.paintScene(this.scene, sight);
    for (const card of this.scene.cards) if (card.open) this.paintCard(card, sight);
  }

  paintScene(scene, sight) {
    const c = this.context, readable = this.scale >= READABLE;
    c.lineWidth = Math.max(1.2, 0.5 / this.scale);
    c.strokeStyle = c.fillStyle = colours.edge;
    if (this.scale < 0.12) c.stroke(scene.all);
    else {
      const seen = scene.edges.filter((e) => e.right > sight.left && e.left < sight.right && e.bottom > sight.top && e.top < sight.bottom);
      for (const edge of seen) {
        const chosen = edge === selected.edge || (selected.box && (edge.from === selected.box || edge.to === selected.box));
        c.lineWidth = chosen ? 2.4 : Math.max(1.2, 0.5 / this.scale);
        c.strokeStyle = c.fillStyle = chosen ? colours.mark : colours.edge;
        c.stroke(edge.wire);
        c.fill(edge.head);
      }
      if (readable) {
        c.font = `${data.fonts.label}px ${SANS}`;
        c.strokeStyle = colours.paper;
        c.fillStyle = colours.faint;
        c.lineWidth = 3;
        c.lineJoin = "round";
        for (const edge of seen) {
          c.strokeText(edge.label, edge.labelX, edge.labelY);
          c.fillText(edge.label, edge.labelX, edge.labelY);
        }
      }
    }
    for (const box of scene.boxes) {
      if (box.x + box.w / 2 < sight.left || box.x - box.w / 2 > sight.right) continue;
      if (box.y + box.h / 2 < sight.top || box.y - box.h / 2 > sight.bottom) continue;
      this.paintBox(box, readable);
    }
  }

  paintBox(box, readable) {
    const c = this.context;
    const marked = box === selected.box || this.marked.has(box);
    c.fillStyle = colours[`${box.kind}-${this.scale < 0.12 ? "line" : "fill"}`];
    c.strokeStyle = marked ? colours.mark : colours[`${box.kind}-line`];
    c.lineWidth = marked ? Math.max(3, 2 / this.scale) : 1.4;
    if (this.scale < 0.12) {
      const least = 1.5 / this.scale;
      const w = Math.max(box.w, least), h = Math.max(box.h, least);
      c.fillRect(box.x - w / 2, box.y - h / 2, w, h);
      if (marked) c.strokeRect(box.x - w / 2, box.y - h / 2, w, h);
      return;
    }
    c.save();
    c.translate(box.x, box.y);
    if (box.kind === "reference") c.setLineDash([3, 2]);
    c.fill(box.outline);
    c.stroke(box.outline);
    if (readable) {
      const { title, line, leading } = data.fonts;
      let y = (box.kind === "constant" ? 4.5 : 0) - ((title + (box.lines.length - 1) * line) * leading) / 2;
      box.lines.forEach((each, index) => {
        const size = index ? line : title;
        c.font = `${index ? "" : "600 "}${size}px ${SANS}`;
        c.fillStyle = index ? colours.faint : colours.ink;
        c.fillText(each, 0, y + (size * leading) / 2, box.w - 8);
        y += size * leading;
      });
    }
    c.restore();
  }

  paintCard(card, sight) {
    const c = this.context, { owner } = card;
    c.strokeStyle = colours["fused-line"];
    c.lineWidth = 1.6;
    c.setLineDash([5, 4]);
    c.beginPath();
    c.moveTo(owner.x + owner.w / 2, owner.y);
    c.lineTo(card.x, owner.y);
    c.stroke();
    c.setLineDash([]);
    c.beginPath();
    c.roundRect(card.x, card.y, card.w, card.h, 12);
    c.fillStyle = colours.paper;
    c.shadowColor = "rgb(0 0 0/.3)";
    c.shadowBlur = 18;
    c.fill();
    c.shadowBlur = 0;
    c.shadowColor = "transparent";
    c.stroke();
    if (this.scale >= READABLE) {
      c.textAlign = "left";
      c.font = `600 ${data.fonts.line}px ${SANS}`;
      c.fillStyle = colours.ink;
      c.fillText(`${owner.lines[0]} came from`, card.x + 14, card.y + 17, card.w - 28);
      c.textAlign = "center";
    }
    c.save();
    const [dx, dy] = inside(card);
    c.translate(dx, dy);
    this.paintScene(card.scene, { left: sight.left - dx, right: sight.right - dx, top: sight.top - dy, bottom: sight.bottom - dy });
    c.restore();
  }

  // What is at a point of the canvas: {box} or {edge}, {card} for the ground of an opened group, or {}.
  at(px, py) {
    const x = this.x + px / this.scale, y = this.y + py / this.scale;
    for (const card of this.scene.cards.filter((each) => each.open).reverse()) {
      if (x < card.x || x > card.x + card.w || y < card.y || y > card.y + card.h) continue;
      const [dx, dy] = inside(card);
      const found = this.within(card.scene, x - dx, y - dy);
      return found.box || found.edge ? found : { card };
    }
    return this.within(this.scene, x, y);
  }

  within(scene, x, y) {
    const box = scene.boxes.find((b) => Math.abs(x - b.x) <= b.w / 2 && Math.abs(y - b.y) <= b.h / 2);
    if (box) return { box };
    const reach = 5 / this.scale, c = this.context;
    c.save();
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.lineWidth = 2 * reach;
    const edge = scene.edges.find((e) =>
      x > e.left - reach && x < e.right + reach && y > e.top - reach && y < e.bottom + reach && c.isPointInStroke(e.wire, x, y));
    c.restore();
    return edge ? { edge } : {};
  }
}

const inside = (card) => [card.x + (card.w - card.scene.width) / 2, card.y + CARD.head];

// Selecting.

let selected = {}; // {view, scene, box} or {view, scene, edge}
const views = data.scenes.map((scene) => new View(prepare(scene)));
const redraw = () => views.forEach((view) => view.draw());

function related(box) {
  const names = new Set([box.name, ...box.origins]);
  return (other) => other.kind !== "output" && (names.has(other.name) || other.origins.includes(box.name));
}

function select(view, found, { show = false } = {}) {
  if (found.box && found.box.standsFor !== undefined) {
    found = { box: view.scene.boxes[found.box.standsFor] };
    show = true;
  }
  selected = found.box || found.edge ? { view, ...found } : {};
  for (const each of views) {
    const mark = selected.box && selected.box.kind !== "output" ? each.scene.boxes.filter(related(selected.box)) : [];
    each.marked = new Set(each === view ? [] : mark);
    if (show && each !== view && mark.length) each.centre(mark[0].x, mark[0].y);
  }
  if (show && selected.box) reveal(view, selected.box);
  tell();
  redraw();
}

const cardOf = (view, box) => view.scene.cards.find((card) => card.scene.boxes.includes(box));

function reveal(view, box) {
  const card = cardOf(view, box);
  const [dx, dy] = card ? inside(card) : [0, 0];
  if (card) card.open = true;
  view.centre(box.x + dx, box.y + dy);
}

function toggle(view, box) {
  const { card } = box;
  card.open = !card.open;
  if (card.open) { // opened groups cover one another: only one at a time
    for (const other of view.scene.cards) if (other !== card) other.open = false;
    view.show(box.x - box.w / 2, Math.min(card.y, box.y - box.h / 2), card.x + card.w, Math.max(card.y + card.h, box.y + box.h / 2));
  } else if (selected.box && card.scene.boxes.includes(selected.box)) select(view, { box });
  tell();
  redraw();
}

// The panel: all about what is selected.

function tell() {
  const panel = $("panel"), { view, box, edge } = selected;
  panel.replaceChildren();
  if (!view) {
    const lines = views.map(({ scene }) => `${scene.title}: ${scene.boxes.filter((b) => b.kind !== "reference").length} boxes, ${scene.edges.length} edges`);
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
  const kind = element("span", { className: "kind", textContent: box ? legendOf(box.kind) : "tensor" });
  kind.style.borderColor = colours[box ? `${box.kind}-line` : "edge"];
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
  if (box.card) {
    const button = element("button", { type: "button", textContent: box.card.open ? "Close the group" : "Open the group" });
    button.id = "group";
    button.setAttribute("aria-expanded", box.card.open);
    button.onclick = () => { toggle(view, box); $("group").focus(); };
    panel.append(element("h3", { textContent: "Fused" }), button);
    links("Came from", box.card.scene.boxes.filter((each) => each.kind !== "reference").map((each) => [each, each.name]));
  }
  links("Reads", box.into.map((each) => [each.from, `${each.from.name}: ${each.label}`]));
  links("Read by", box.out.map((each) => [each.to, `${each.to.name}: ${each.label}`]));
}

function fields(rows) {
  const list = element("dl");
  for (const [what, value] of pairs(rows)) list.append(element("dt", { textContent: what }), element("dd", { textContent: value }));
  return list;
}

const legendOf = (kind) => data.legend.find(([each]) => each === kind)[1];

// Searching.

const everything = views.flatMap((view) => view.scene.boxes.filter((box) => box.kind !== "reference").map((box) =>
  ({ view, box, words: `${box.name} ${box.lines.join(" ")} ${box.origins.join(" ")}`.toLowerCase() })));
let found = [], active = 0;

function search() {
  const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const name = words.join(" ");
  found = words.length ? everything.filter((each) => words.every((word) => each.words.includes(word))) : [];
  const rank = ({ box }) => (box.name.toLowerCase() === name ? 0 : box.name.toLowerCase().startsWith(name) ? 1 : 2);
  found.sort((a, b) => rank(a) - rank(b));
  active = 0;
  for (const view of views) view.marked = new Set(found.filter((each) => each.view === view).map((each) => each.box));
  list();
  redraw();
}

function list() {
  const shown = found.slice(0, 50), open = $("search").value.trim() !== "";
  const items = shown.map(({ view, box }, index) => {
    const about = [legendOf(box.kind), box.lines[1] ?? "", views.length > 1 ? view.scene.title : ""].filter(Boolean).join(" · ");
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

// Pointer and keys.

// Not for what is selected: the panel tells all about it.
function tooltip(view, event) {
  const tip = $("tip"), { box, edge } = event ? view.at(event.offsetX, event.offsetY) : {};
  view.canvas.classList.toggle("over", Boolean(box || edge));
  tip.hidden = !(box || edge) || (box ? box === selected.box : edge === selected.edge);
  if (tip.hidden) return;
  const rows = pairs((box ?? edge).rows).slice(0, 12).map(([what, value]) => element("div", { textContent: `${what}: ${value}` }));
  tip.replaceChildren(element("b", { textContent: box ? box.name : edge.label }), ...rows);
  const room = view.canvas.getBoundingClientRect(); // the panel beside it says more, and is not covered
  tip.style.left = `${Math.max(Math.min(event.clientX + 14, room.right - tip.offsetWidth - 8), 8)}px`;
  tip.style.top = `${Math.max(Math.min(event.clientY + 16, room.bottom - tip.offsetHeight - 8), 8)}px`;
}

function listen(view) {
  const { canvas } = view, fingers = new Map();
  let moved = 0;
  const spread = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a.x - b.x, a.y - b.y); };
  canvas.onpointerdown = (event) => {
    tooltip(view, null);
    fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    canvas.setPointerCapture(event.pointerId);
    moved = fingers.size > 1 ? Infinity : 0;
  };
  canvas.onpointermove = (event) => {
    const finger = fingers.get(event.pointerId);
    if (!finger) return tooltip(view, event);
    const dx = event.offsetX - finger.x, dy = event.offsetY - finger.y, before = fingers.size === 2 ? spread() : 0;
    Object.assign(finger, { x: event.offsetX, y: event.offsetY });
    moved += Math.abs(dx) + Math.abs(dy);
    if (before) view.zoom(spread() / before, event.offsetX, event.offsetY);
    else if (moved > 4) { canvas.classList.add("moving"); view.move(dx, dy); }
  };
  canvas.onpointerup = canvas.onpointercancel = (event) => {
    const clicked = fingers.delete(event.pointerId) && moved <= 4 && event.type === "pointerup";
    canvas.classList.remove("moving");
    if (!clicked) return;
    const hit = view.at(event.offsetX, event.offsetY);
    if (hit.card) return;
    if (hit.box && hit.box.card && (hit.box === selected.box || !hit.box.card.open)) {
      select(view, hit);
      toggle(view, hit.box);
    } else select(view, hit);
  };
  canvas.onpointerleave = () => tooltip(view, null);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const step = event.deltaMode ? 24 : 1;
    if (event.ctrlKey || event.metaKey) view.zoom(Math.exp(-event.deltaY * step * 0.004), event.offsetX, event.offsetY);
    else if (event.shiftKey && !event.deltaX) view.move(-event.deltaY * step, 0);
    else view.move(-event.deltaX * step, -event.deltaY * step);
  }, { passive: false });
  canvas.onkeydown = (event) => keys(view, event);
}

const nearest = (boxes, box) => boxes.reduce((best, each) => (!best || Math.abs(each.x - box.x) < Math.abs(best.x - box.x) ? each : best), null);

function step(view, key) {
  const { box } = selected, card = cardOf(view, box);
  const boxes = (card ? card.scene : view.scene).boxes;
  if (key === "ArrowUp") return nearest(box.into.map((edge) => edge.from), box);
  if (key === "ArrowDown") return nearest(box.out.map((edge) => edge.to), box);
  const side = key === "ArrowLeft" ? -1 : 1;
  return nearest(boxes.filter((each) => (each.x - box.x) * side > 0 && Math.abs(each.y - box.y) < (each.h + box.h) / 2), box);
}

function keys(view, event) {
  const walk = event.key.startsWith("Arrow");
  if (walk && selected.view === view && selected.box) {
    const next = step(view, event.key);
    if (next) select(view, { box: next }, { show: true });
  } else if (walk) {
    const first = view.scene.boxes[0];
    if (first) select(view, { box: first }, { show: true });
  } else if (event.key === "Enter" && selected.view === view && selected.box?.card) toggle(view, selected.box);
  else return;
  event.preventDefault();
}

const ZOOM = { in: (view) => view.zoom(1.3), out: (view) => view.zoom(1 / 1.3), fit: (view) => view.fit() };
const ZOOM_KEYS = { "+": "in", "=": "in", "-": "out", "0": "fit" };
for (const button of $("zoom").children) button.onclick = () => views.forEach(ZOOM[button.dataset.zoom]);
document.onkeydown = (event) => {
  if (event.target === $("search") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") { event.preventDefault(); $("search").focus(); $("search").select(); }
  else if (event.key === "Escape") {
    for (const card of views.flatMap((view) => view.scene.cards)) card.open = false;
    select(views[0], {});
  } else if (ZOOM_KEYS[event.key]) views.forEach(ZOOM[ZOOM_KEYS[event.key]]);
};

// Begin.

function legend() {
  const ns = "http://www.w3.org/2000/svg";
  $("legend").replaceChildren(...data.legend.map(([kind, name, outline]) => {
    const svg = document.createElementNS(ns, "svg"), path = document.createElementNS(ns, "path");
    svg.setAttribute("viewBox", "-15 -11 30 22");
    svg.setAttribute("aria-hidden", "true");
    for (const [key, value] of Object.entries({ d: outline, fill: colours[`${kind}-fill`], stroke: colours[`${kind}-line`], "stroke-width": 1.4 }))
      path.setAttribute(key, value);
    svg.append(path);
    return element("span", {}, svg, name);
  }));
}

function dress() {
  readColours();
  legend();
  tell();
  redraw();
}

matchMedia("(prefers-color-scheme:dark)").addEventListener("change", dress);
dress();
for (const view of views) {
  $("views").append(view.section);
  listen(view);
}
