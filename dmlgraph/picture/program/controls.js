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
