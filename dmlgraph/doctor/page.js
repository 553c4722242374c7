"use strict";

// The data: sections, each with a title, lines of text, a table (its head and rows) and files [name, content].
const { sections } = JSON.parse(document.getElementById("data").textContent);

/** An element with children; text is never read as HTML. */
function make(tag, ...children) {
  const element = document.createElement(tag);
  element.append(...children);
  return element;
}

const row = (cells, tag) => make("tr", ...cells.map((cell) => make(tag, cell)));

for (const { title, text, head, rows, files } of sections) {
  const parts = [make("h2", title)];
  if (text.length) {
    parts.push(make("pre", text.join("\n")));
  }
  if (rows.length) {
    parts.push(make("table", make("thead", row(head, "th")), make("tbody", ...rows.map((cells) => row(cells, "td")))));
  }
  for (const [name, content] of files) {
    parts.push(make("h3", name), make("pre", content));
  }
  document.getElementById("report").append(make("section", ...parts));
}
