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
