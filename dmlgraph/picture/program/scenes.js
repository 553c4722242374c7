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
