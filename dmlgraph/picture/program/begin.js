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
