"use strict";

// The data: words, from the worst; places [device, machine, description]; graphs [file, sizes, [[test, cells], …]],
// with cells [place, word, time, report, attempts, reason]. The place -1 is that of a file that is wrong.
const { words, places, graphs } = JSON.parse(document.getElementById("data").textContent);
const SIGNS = {
  passed: "✓", failed: "✗", crashed: "!", "timed out": "◷", lost: "?", skipped: "–", "allowed to fail": "~", broken: "✗",
};
const WRONG_FILE = -1;
const by = (id) => document.getElementById(id);
const classOf = (word) => word.replaceAll(" ", "-");

/** An element with properties and children; text is never read as HTML. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const hidden = new Set(); // words whose results are not shown
const open = new Set(); // graphs whose tests are shown
let allOpen = false;
let current = null; // the button whose details are shown

/** The cells of a place that the filters let through, each with its test. */
function cellsOf(tests, place) {
  return tests.flatMap(([name, cells]) =>
    cells.filter((cell) => cell[0] === place && !hidden.has(words[cell[1]])).map((cell) => [name, cell]));
}

function shownPlaces() {
  const device = by("device").value, machine = by("machine").value;
  return places.map((_, index) => index).filter((index) =>
    (!device || places[index][0] === device) && (!machine || places[index][1] === machine));
}

/** The graphs and tests that have the words of the search and any cell to show: [index, tests] pairs. */
function shownGraphs(columns) {
  const parts = by("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (text) => parts.every((part) => text.toLowerCase().includes(part));
  return graphs.map(([file, sizes, tests], index) => {
    const title = `${file} ${sizes}`;
    const fitting = has(title) ? tests : tests.filter(([name]) => has(`${title} ${name}`));
    const visible = fitting.filter((test) =>
      [...columns, WRONG_FILE].some((place) => cellsOf([test], place).length));
    return [index, visible];
  }).filter(([, tests]) => tests.length);
}

// The table.

function head(columns) {
  const cells = columns.map((index) => {
    const [device, machine, description] = places[index];
    const parts = device.split(":").flatMap((part, place) => (place ? [":", make("wbr"), part] : [part]));
    return make("th", { scope: "col", title: description }, ...parts,
      make("small", {}, machine), make("small", { className: "about" }, description));
  });
  return make("thead", {}, make("tr", {}, make("th", { scope: "col" }, "Graph"), ...cells));
}

/** What a cell says for several results: the worst, how many, and the time of a single one. */
function summary(found) {
  const worst = words[Math.min(...found.map(([, cell]) => cell[1]))];
  const count = found.filter(([, cell]) => words[cell[1]] === worst).length;
  if (found.length === 1) return [worst, worst === "passed" ? found[0][1][2] : worst];
  return [worst, count === found.length ? `${count} ${worst}` : `${count} of ${found.length} ${worst}`];
}

function cell(found, graph, test, place) {
  if (!found.length) return make("td");
  const [word, text] = summary(found);
  const button = make("button", { type: "button", className: classOf(word) },
    make("b", { ariaHidden: "true" }, SIGNS[word]), " ", text);
  const where = place === WRONG_FILE ? "" : ` on ${places[place].slice(0, 2).filter(Boolean).join(", ")}`;
  const what = word === "passed" && found.length === 1 ? `passed in ${text}` : text;
  button.ariaLabel = `${graph}${test === null ? "" : `, ${test}`}${where}: ${what}`;
  button.addEventListener("click", () => select(button, graph, found, place));
  return make("td", place === WRONG_FILE ? { colSpan: Math.max(1, shownPlaces().length) } : {}, button);
}

function row(tests, graph, test, columns, header, className) {
  const wrong = cellsOf(tests, WRONG_FILE);
  const cells = wrong.length ? [cell(wrong, graph, test, WRONG_FILE)]
    : columns.map((place) => cell(cellsOf(tests, place), graph, test, place));
  return make("tr", { className }, header, ...cells);
}

function body(index, tests, columns) {
  const [file, sizes] = graphs[index];
  const graph = sizes ? `${file} with ${sizes}` : file;
  const isOpen = allOpen !== open.has(index);
  const fold = make("button", { type: "button", ariaExpanded: String(isOpen) }, file);
  if (sizes) fold.append(make("small", {}, `with ${sizes}`));
  fold.addEventListener("click", () => {
    if (!open.delete(index)) open.add(index);
    draw();
    document.querySelectorAll("tbody th button")[[...shownGraphs(columns)].findIndex(([i]) => i === index)]?.focus();
  });
  const rows = [row(tests, graph, null, columns, make("th", { scope: "rowgroup" }, fold), "graph")];
  if (isOpen) {
    for (const test of tests)
      rows.push(row([test], graph, test[0], columns, make("th", { scope: "row" }, test[0]), "test"));
  }
  return make("tbody", {}, ...rows);
}

function draw() {
  const columns = shownPlaces();
  const shown = shownGraphs(columns);
  by("matrix").replaceChildren(head(columns), ...shown.map(([index, tests]) => body(index, tests, columns)));
  const tests = shown.reduce((sum, [, each]) => sum + each.length, 0);
  by("shown").textContent = `${shown.length} of ${graphs.length} graphs, ${tests} tests, ` +
    `${columns.length} of ${places.length} devices`;
  by("unfold").ariaPressed = String(allOpen);
  document.body.dataset.drawn = "yes"; // for programs that look at the page
}

// The details of a cell.

function select(button, graph, found, place) {
  if (current) current.ariaCurrent = "false";
  current = button;
  button.ariaCurrent = "true";
  const close = make("button", { type: "button", id: "close", ariaLabel: "Close the details" }, "×");
  close.addEventListener("click", deselect);
  const parts = [close, make("h2", {}, graph)];
  if (place !== WRONG_FILE) {
    const [device, machine, description] = places[place];
    parts.push(make("p", {}, machine ? `${device} on ${machine}` : device), make("p", {}, description));
  }
  for (const [test, [, number, time, report, attempts, reason]] of found) {
    const word = words[number];
    const tag = make("span", { className: classOf(word) }, `${SIGNS[word]} ${word}`);
    parts.push(make("h3", {}, `${test} `, tag), make("p", {}, attempts > 1 ? `${time}, begun ${attempts} times` : time));
    if (reason) parts.push(make("p", {}, `allowed to fail: ${reason}`));
    if (report) parts.push(make("pre", { tabIndex: 0 }, report));
  }
  by("panel").replaceChildren(...parts);
  by("panel").hidden = false;
}

function deselect() {
  by("panel").hidden = true;
  if (current) {
    current.ariaCurrent = "false";
    current.focus();
  }
  current = null;
}

// Filters and keys.

function fill(select, values) {
  const found = [...new Set(values)].filter(Boolean).sort();
  select.append(...found.map((value) => make("option", { value }, value)));
  select.parentElement.hidden = found.length < 2;
  select.addEventListener("change", draw);
}

function wordButtons() {
  const counts = words.map(() => 0);
  for (const [, , tests] of graphs) for (const [, cells] of tests) for (const each of cells) counts[each[1]] += 1;
  return words.map((word, index) => [word, counts[index]]).filter(([, count]) => count).map(([word, count]) => {
    const button = make("button", { type: "button", className: classOf(word), ariaPressed: "true" },
      `${SIGNS[word]} ${count} ${word}`);
    button.addEventListener("click", () => {
      if (!hidden.delete(word)) hidden.add(word);
      button.ariaPressed = String(!hidden.has(word));
      draw();
    });
    return button;
  });
}

/** Arrows move between cells. */
function move(event) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  const here = event.target.closest("td, tbody th");
  if (!step || !here) return;
  const rows = [...document.querySelectorAll("tbody tr")];
  let down = rows.indexOf(here.parentElement), right = here.cellIndex;
  do {
    down += step[0];
    right += step[1];
    const next = rows[down]?.cells[right];
    if (!next) return;
    const button = next.querySelector("button");
    if (button) {
      button.focus();
      event.preventDefault();
      return;
    }
  } while (true);
}

fill(by("device"), places.map(([device]) => device));
fill(by("machine"), places.map(([, machine]) => machine));
by("words").append(...wordButtons());
by("search").addEventListener("input", draw);
by("unfold").addEventListener("click", () => {
  allOpen = !allOpen;
  open.clear();
  draw();
});
by("matrix").addEventListener("keydown", move);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && current) deselect();
  if (event.key === "/" && event.target !== by("search")) {
    by("search").focus();
    event.preventDefault();
  }
});
draw();
