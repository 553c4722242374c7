"use strict";
// Draws the scenes of the page's data; names below say where html.py puts what.
const data = JSON.parse(document.getElementById("data").textContent);
const text = (index) => data.texts[index];
const pairs = (rows) => Array.from({ length: rows.length / 2 }, (_, i) => [text(rows[2 * i]), text(rows[2 * i + 1])]);
const $ = (id) => document.getElementById(id);
const SANS = getComputedStyle(document.body).fontFamily;
const READABLE = 0.38; // from this scale on texts are drawn
const NOTES = 200; // of what was fused, so many lines are shown
const LEGIBLE = 0.85; // a page opens at least at this scale
const HEAD = 30; // the height of the heading of an open box
const MAP = { w: 170, h: 240, margin: 12 }; // the most room of the map in a corner of a view

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

// What a box tells of its node.
function node(record) {
  const [kind, look, family, name, lines, rows, origins] = data.nodes[record];
  return { kind, look, family, name: text(name), lines: lines.map(text), rows, origins: origins.map(text) };
}

// A scene's boxes and edges; a weight is a line in the box that reads it, its `host`; `owner` is the box in which it is, if any.  A box with a scene inside can be open: then the
// scene around it is stretched (see `arrange`), so the places that were computed for closed boxes are kept in `closed`.
function prepare(scene, owner = null) {
  const prepared = { title: scene.title, notes: scene.notes.map(text), owner, closed: { w: scene.width, h: scene.height } };
  const boxes = prepared.boxes = scene.boxes.map(([record, x, y, w, h, outline, cap, standsFor], index) => {
    const box = { ...node(record), index, closed: { x, y, w, h }, outline: outlines[outline], cap: outlines[cap], standsFor,
      into: [], out: [], around: prepared, inner: null, inners: [], open: false, host: null };
    box.weights = data.nodes[record][7].map(([line, weight]) =>
      ({ ...node(weight), line: text(line), weights: [], into: [], out: [{ to: box, label: text(line) }], around: prepared, inner: null, host: box }));
    return box;
  });
  prepared.edges = scene.edges.map(([from, to, label, place, way, tip, rows]) => {
    const edge = { from: boxes[from], to: boxes[to], label: text(label), rows, closed: { place, way, tip } };
    boxes[from].out.push(edge);
    boxes[to].into.push(edge);
    return edge;
  });
  for (const [index, groups] of Object.entries(scene.groups)) {
    const box = boxes[index];
    box.inners = groups.map((group) => prepare(group, box));
    box.inner = box.inners[0]; // of several scopes that are alike, the one that is shown
    box.open = data.open && box.kind === "folded";
  }
  arrange(prepared);
  return prepared;
}

// How far a coordinate moves where the open intervals [from, to] are stretched to lengths: where several cover a place,
// the greatest stretching counts.  All else keeps its order and at least its distances, so nothing comes to overlap.
function stretching(intervals) {
  const stops = [...new Set(intervals.flatMap(({ from, to }) => [from, to]))].sort((a, b) => a - b);
  const moved = [0]; // by stop: how far it moves
  for (let i = 1; i < stops.length; i++) {
    const covering = intervals.filter(({ from, to }) => from <= stops[i - 1] && to >= stops[i]);
    const factor = covering.reduce((most, { from, to, length }) => Math.max(most, length / (to - from)), 1);
    moved.push(moved[i - 1] + (factor - 1) * (stops[i] - stops[i - 1]));
  }
  return (at) => {
    let low = 0, high = stops.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (stops[middle] <= at) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return at;
    if (low === stops.length) return at + moved[low - 1];
    const part = (at - stops[low - 1]) / (stops[low] - stops[low - 1]);
    return at + moved[low - 1] + part * (moved[low] - moved[low - 1]);
  };
}

// Places of everything in a scene, with room for what is open in it.
function arrange(scene) {
  const open = scene.boxes.filter((box) => box.open);
  for (const box of open) arrange(box.inner);
  const need = ({ inner }) => ({ w: Math.max(inner.width, 190), h: inner.height + HEAD });
  const x = stretching(open.map((box) => ({ from: box.closed.x - box.closed.w / 2, to: box.closed.x + box.closed.w / 2, length: Math.max(need(box).w, box.closed.w) })));
  const y = stretching(open.map((box) => ({ from: box.closed.y - box.closed.h / 2, to: box.closed.y + box.closed.h / 2, length: Math.max(need(box).h, box.closed.h) })));
  scene.version = (scene.version ?? 0) + 1;
  scene.width = x(scene.closed.w);
  scene.height = y(scene.closed.h);
  for (const box of scene.boxes) {
    const { closed } = box;
    Object.assign(box, { x: x(closed.x), y: y(closed.y), w: closed.w, h: closed.h });
    if (!box.open) continue;
    const left = x(closed.x - closed.w / 2), right = x(closed.x + closed.w / 2), top = y(closed.y - closed.h / 2), bottom = y(closed.y + closed.h / 2);
    Object.assign(box, { x: (left + right) / 2, y: (top + bottom) / 2, w: right - left, h: bottom - top });
    box.inner.dx = (left + right - box.inner.width) / 2; // where the scene inside begins
    box.inner.dy = top + HEAD;
  }
  const all = scene.all = new Path2D();
  for (const edge of scene.edges) {
    const { from, to, closed } = edge, way = closed.way.map((at, i) => (i % 2 ? y(at) : x(at)));
    // Closed boxes and arrow heads keep their sizes, so the ends of an edge move with them.
    const beside = (box, atX, atY) => (box.open ? [x(atX), y(atY)] : [box.x + atX - box.closed.x, box.y + atY - box.closed.y]);
    const tip = beside(to, ...closed.tip), [lastX, lastY] = closed.way.slice(-2);
    way.splice(0, 2, ...beside(from, ...closed.way.slice(0, 2)));
    way.splice(-2, 2, tip[0] + lastX - closed.tip[0], tip[1] + lastY - closed.tip[1]);
    const wire = new Path2D();
    wire.moveTo(way[0], way[1]);
    for (let i = 2; i < way.length; i += 6) wire.bezierCurveTo(...way.slice(i, i + 6));
    all.addPath(wire);
    const xs = way.filter((_, i) => i % 2 === 0), ys = way.filter((_, i) => i % 2);
    let place = null;
    if (closed.place) { // it stays beside its edge, which goes straight down there
      const [labelX, labelY] = closed.place, line = lineThere(closed.way, labelY);
      place = [(line === 0 ? way[0] : x(closed.way[line])) + labelX - closed.way[line], y(labelY)];
    }
    const middle = place ? place[0] : xs[0];
    Object.assign(edge, { wire, head: arrow(way, tip), place,
      left: Math.min(...xs, middle - 90), right: Math.max(...xs, middle + 90), top: Math.min(...ys), bottom: Math.max(...ys) });
  }
}

// Where the piece of a way begins that is at a height.
function lineThere(way, height) {
  let piece = 0;
  while (piece + 8 < way.length && way[piece + 7] < height) piece += 6;
  return piece;
}

// All boxes of a scene and of the scopes in it; not those that a fused node came from.
const everyBox = (scene) => scene.boxes.flatMap((box) => (box.kind === "folded" ? [box, ...box.inners.flatMap(everyBox)] : [box]));

const weightsOf = (scene) => everyBox(scene).flatMap((box) => box.weights);

// Boxes that are to be marked, and the ones that hide them.
const markable = (boxes) => new Set(boxes.flatMap((box) => [box, ...scenesAround(box).filter(hidden).map(({ owner }) => owner)]));

// The scenes around a box, from the innermost on, without the view's; the boxes in which they are.
function scenesAround(box) {
  const scenes = [];
  for (let scene = box.around; scene.owner; scene = scene.owner.around) scenes.push(scene);
  return scenes;
}
const around = (box) => scenesAround(box).map(({ owner }) => owner);
const hidden = (scene) => !scene.owner.open || scene.owner.inner !== scene;

// Where the scene of a box begins in the view's scene.
const origin = (box) => around(box).reduce(([dx, dy], { inner }) => [dx + inner.dx, dy + inner.dy], [0, 0]);

function heading(box) {
  if (box.kind !== "folded") return `${box.lines[0]} came from`;
  return box.inners.length > 1 ? `${box.lines[0]} × ${box.inners.length}: ${box.inner.title}` : box.lines[0];
}

// The colour of a box that is too small for texts: an overlay's, its family's, or its kind's.
const farColour = ({ look, family }) => (/^(shade|alarm)/.test(look) ? colours[`${look}-fill`] : colours[`${look === "plain" ? look : family ?? look}-line`]);

// The middle of a line of a box, from the middle of the box; weights are the last lines.
function lineAt(box, index) {
  const { title, line, leading } = data.fonts, count = box.lines.length + box.weights.length;
  const top = (box.kind === "constant" ? 4.5 : 0) - ((title + (count - 1) * line) * leading) / 2;
  return top + (index ? title + (index - 0.5) * line : title / 2) * leading;
}

// The weight of a box at a height from its middle.
const weightAt = (box, y) =>
  box.weights.find((_, index) => Math.abs(y - lineAt(box, box.lines.length + index)) <= (data.fonts.line * data.fonts.leading) / 2);

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
    if (first) this.fit(LEGIBLE);
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
    this.paintMap(sight);
  }

  // Where the map is on the canvas, and its scale; null where all of the scene is in sight.
  map() {
    const { width, height } = this.scene;
    const all = this.x <= 0 && this.y <= 0 && this.x + this.width / this.scale >= width && this.y + this.height / this.scale >= height;
    const scale = Math.min(MAP.w / width, MAP.h / height);
    if (all || scale >= this.scale) return null;
    const w = Math.max(width * scale, 24), h = Math.max(height * scale, 24);
    return { x: this.width - w - MAP.margin, y: this.height - h - MAP.margin, w, h, scale };
  }

  paintMap(sight) {
    const map = this.map(), c = this.context, ratio = window.devicePixelRatio || 1;
    if (!map) return;
    if (this.drawn?.version !== this.scene.version || this.drawn.colours !== colours) this.drawn = this.drawMap(map, ratio);
    c.setTransform(ratio, 0, 0, ratio, map.x * ratio, map.y * ratio);
    c.fillStyle = colours.panel;
    c.strokeStyle = colours.rule;
    c.lineWidth = 1;
    c.fillRect(-6, -6, map.w + 12, map.h + 12);
    c.strokeRect(-6, -6, map.w + 12, map.h + 12);
    c.drawImage(this.drawn.canvas, 0, 0, map.w, map.h);
    const clamp = (at, most) => Math.min(Math.max(at * map.scale, 0), most);
    const left = clamp(sight.left, map.w), top = clamp(sight.top, map.h), right = clamp(sight.right, map.w), bottom = clamp(sight.bottom, map.h);
    c.strokeStyle = colours.mark;
    c.lineWidth = 1.6;
    c.strokeRect(left, top, Math.max(right - left, 3), Math.max(bottom - top, 3));
  }

  drawMap(map, ratio) {
    const canvas = element("canvas", { width: Math.ceil(map.w * ratio), height: Math.ceil(map.h * ratio) }), c = canvas.getContext("2d");
    const paint = (scene, dx, dy) => {
      for (const box of scene.boxes) {
        const w = Math.max(box.w * map.scale, 1), h = Math.max(box.h * map.scale, 1);
        c.fillStyle = box.open ? colours.rule : farColour(box);
        c.fillRect((box.x + dx) * map.scale - w / 2, (box.y + dy) * map.scale - h / 2, w, h);
        if (box.open) paint(box.inner, dx + box.inner.dx, dy + box.inner.dy);
      }
    };
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.strokeStyle = colours.edge;
    c.save();
    c.scale(map.scale, map.scale);
    c.lineWidth = 0.5 / map.scale;
    c.stroke(this.scene.all);
    c.restore();
    paint(this.scene, 0, 0);
    return { canvas, version: this.scene.version, colours };
  }

  // Moves to a point of the map; false if it is not on it.
  jump(px, py) {
    const map = this.map();
    if (!map || px < map.x - 6 || py < map.y - 6 || px > map.x + map.w + 6 || py > map.y + map.h + 6) return false;
    this.x = (px - map.x) / map.scale - this.width / 2 / this.scale;
    this.y = (py - map.y) / map.scale - this.height / 2 / this.scale;
    this.draw();
    return true;
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
        c.fillStyle = colours.faint;
        for (const edge of seen) if (edge.place) c.fillText(edge.label, ...edge.place);
      }
    }
    for (const box of scene.boxes) {
      if (box.x + box.w / 2 < sight.left || box.x - box.w / 2 > sight.right) continue;
      if (box.y + box.h / 2 < sight.top || box.y - box.h / 2 > sight.bottom) continue;
      if (box.open) this.paintOpen(box, sight);
      else this.paintBox(box, readable);
    }
  }

  paintBox(box, readable) {
    const c = this.context;
    const marked = box === selected.box || this.marked.has(box) || box.weights.some((each) => this.marked.has(each));
    c.fillStyle = this.scale < 0.12 ? farColour(box) : colours[`${box.look}-fill`];
    c.strokeStyle = marked ? colours.mark : colours[`${box.look}-line`];
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
    if (box.family) {
      c.fillStyle = colours[`${box.family}-line`];
      c.fill(box.cap);
    }
    if (readable) {
      const { title, line } = data.fonts;
      const own = colours[`${box.look}-ink`];
      const say = (each, size, y, colour) => { c.fillStyle = colour === colours.mark ? colour : own || colour; c.fillText(each, 0, y, box.w - 22); };
      c.font = `600 ${title}px ${SANS}`;
      say(box.lines[0], title, lineAt(box, 0), colours.ink);
      c.font = `${line}px ${SANS}`;
      box.lines.slice(1).forEach((each, index) => say(each, line, lineAt(box, index + 1), colours.faint));
      box.weights.forEach((weight, index) =>
        say(weight.line, line, lineAt(box, box.lines.length + index), weight === selected.box ? colours.mark : colours.ink));
    }
    c.restore();
  }

  paintOpen(box, sight) {
    const c = this.context, { inner } = box, marked = box === selected.box || this.marked.has(box);
    c.strokeStyle = marked ? colours.mark : colours[`${box.kind}-line`];
    c.lineWidth = marked ? Math.max(3, 2 / this.scale) : 1.6;
    c.fillStyle = box.kind === "folded" ? colours.panel : colours.paper;
    c.beginPath();
    c.roundRect(box.x - box.w / 2, box.y - box.h / 2, box.w, box.h, 12);
    c.fill();
    c.stroke();
    if (this.scale >= READABLE) {
      c.textAlign = "left";
      c.font = `600 ${data.fonts.line}px ${SANS}`;
      c.fillStyle = colours.ink;
      c.fillText(heading(box), box.x - box.w / 2 + 14, box.y - box.h / 2 + 17, box.w - 28);
      c.textAlign = "center";
    }
    c.save();
    c.translate(inner.dx, inner.dy);
    this.paintScene(inner, { left: sight.left - inner.dx, right: sight.right - inner.dx, top: sight.top - inner.dy, bottom: sight.bottom - inner.dy });
    c.restore();
  }

  // What is at a point of the canvas: {box}, {edge} or {}; {box, ground: true} for the ground of an open box.
  at(px, py) { return this.within(this.scene, this.x + px / this.scale, this.y + py / this.scale); }

  within(scene, x, y) {
    const box = scene.boxes.find((b) => Math.abs(x - b.x) <= b.w / 2 && Math.abs(y - b.y) <= b.h / 2);
    if (box && box.open && y > box.y - box.h / 2 + HEAD) {
      const found = this.within(box.inner, x - box.inner.dx, y - box.inner.dy);
      return found.box || found.edge ? found : { box, ground: true };
    }
    if (box) return { box: (!box.open && weightAt(box, y - box.y)) || box };
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

// Pointer and keys.

// Not for what is selected: the panel tells all about it.
function tooltip(view, event) {
  const tip = $("tip"), { box, edge, ground = false } = event ? view.at(event.offsetX, event.offsetY) : {};
  view.canvas.classList.toggle("over", Boolean((box || edge) && !ground));
  tip.hidden = !(box || edge) || ground || (box ? box === selected.box : edge === selected.edge);
  if (tip.hidden) return;
  const rows = pairs((box ?? edge).rows).slice(0, 12).map(([what, value]) => element("div", { textContent: `${what}: ${value}` }));
  tip.replaceChildren(element("b", { textContent: box ? box.name : edge.label }), ...rows);
  const room = view.canvas.getBoundingClientRect(); // the panel beside it says more, and is not covered
  tip.style.left = `${Math.max(Math.min(event.clientX + 14, room.right - tip.offsetWidth - 8), 8)}px`;
  tip.style.top = `${Math.max(Math.min(event.clientY + 16, room.bottom - tip.offsetHeight - 8), 8)}px`;
}

function listen(view) {
  const { canvas } = view, fingers = new Map();
  let moved = 0, onMap = false;
  const spread = () => { const [a, b] = [...fingers.values()]; return Math.hypot(a.x - b.x, a.y - b.y); };
  canvas.onpointerdown = (event) => {
    tooltip(view, null);
    fingers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    canvas.setPointerCapture(event.pointerId);
    onMap = view.jump(event.offsetX, event.offsetY);
    moved = fingers.size > 1 ? Infinity : 0;
  };
  canvas.onpointermove = (event) => {
    const finger = fingers.get(event.pointerId);
    if (!finger) return tooltip(view, event);
    if (onMap) return void view.jump(event.offsetX, event.offsetY);
    const dx = event.offsetX - finger.x, dy = event.offsetY - finger.y, before = fingers.size === 2 ? spread() : 0;
    Object.assign(finger, { x: event.offsetX, y: event.offsetY });
    moved += Math.abs(dx) + Math.abs(dy);
    if (before) view.zoom(spread() / before, event.offsetX, event.offsetY);
    else if (moved > 4) { canvas.classList.add("moving"); view.move(dx, dy); }
  };
  canvas.onpointerup = canvas.onpointercancel = (event) => {
    const clicked = fingers.delete(event.pointerId) && moved <= 4 && event.type === "pointerup";
    canvas.classList.remove("moving");
    if (!clicked || onMap) return;
    const hit = view.at(event.offsetX, event.offsetY);
    if (hit.ground) return;
    select(view, hit);
    if (hit.box && hit.box.inner) toggle(view, hit.box);
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
  const box = selected.box.host ?? selected.box, { boxes } = box.around;
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
  } else if (event.key === "Enter" && selected.view === view && selected.box?.inner) toggle(view, selected.box);
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
    for (const { scene } of views) {
      for (const box of everyBox(scene)) box.open = box.open && box.kind === "folded"; // scopes stay as they are
      arrange(scene);
    }
    select(views[0], {});
  } else if (ZOOM_KEYS[event.key]) views.forEach(ZOOM[ZOOM_KEYS[event.key]]);
};

// Begin.

function legend() {
  const ns = "http://www.w3.org/2000/svg";
  $("legend").replaceChildren(...data.legend.map(([look, name, outline, cap]) => {
    const svg = document.createElementNS(ns, "svg");
    svg.setAttribute("viewBox", "-15 -11 30 22");
    svg.setAttribute("aria-hidden", "true");
    const line = colours[`${look}-line`];
    for (const [d, fill, stroke] of [[outline, colours[`${look}-fill`], line], [cap, line, "none"]]) {
      const path = document.createElementNS(ns, "path");
      for (const [key, value] of Object.entries({ d, fill, stroke, "stroke-width": 1.4 })) path.setAttribute(key, value);
      svg.append(path);
    }
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
