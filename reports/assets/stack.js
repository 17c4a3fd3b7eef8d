// Stacked bars of ledger categories: over steps (of one rank or of their mean) and over ranks.
const stacks = [];
document.querySelectorAll("[data-chart=stack]").forEach((figure) => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const place = figure.querySelector(".canvas");
  const names = Object.keys(data.series);
  const svgNode = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  let series = names[0];
  let select;
  if (names.length > 1) {
    select = document.createElement("select");
    select.setAttribute("aria-label", "Which rank");
    for (const name of names) select.add(new Option(name, name));
    select.addEventListener("change", () => choose(select.value));
    place.before(select);
  }
  function choose(name) {
    if (!data.series[name]) return false;
    series = name;
    if (select) select.value = name;
    draw();
    return true;
  }

  function draw() {
    const bars = data.series[series];
    const [width, height, left, bottom, top] = [Math.max(place.clientWidth, 280), 220, 46, 22, 8];
    const sum = (bar) => bar.v.reduce((total, v) => total + (v ?? 0), 0);
    const peak = Math.max(...bars.map(sum), 1);
    const tick = [1, 2, 2.5, 5, 10].map((m) => m * 10 ** Math.floor(Math.log10(peak / 4))).find((t) => peak / t <= 5);
    const y = (ns) => top + (height - top - bottom) * (1 - ns / peak);
    const pitch = Math.min((width - left) / bars.length, 46);
    const gap = pitch > 6 ? 2 : pitch > 3 ? 1 : 0;
    const svg = svgNode("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", role: "img" });
    for (let ns = 0; ns <= peak; ns += tick) {
      svg.append(svgNode("line", { x1: left, x2: width, y1: y(ns), y2: y(ns), class: "rule" }));
      svg.append(svgNode("text", { x: left - 6, y: y(ns) + 3, "text-anchor": "end" }, ns ? time(ns) : "0"));
    }
    const every = Math.ceil((String(bars[bars.length - 1].x).length * 7 + 12) / pitch);
    bars.forEach((bar, index) => {
      const x = left + index * pitch;
      const group = svgNode("g", { class: bar.open ? "open" : "" });
      let base = 0;
      bar.v.forEach((ns, category) => {
        if (!ns) return;
        group.append(svgNode("rect", {
          x: x + gap / 2, y: y(base + ns), width: pitch - gap, height: Math.max(y(base) - y(base + ns), 0.2),
          style: `fill:${colourOf(data.categories[category][0])}`,
        }));
        base += ns;
      });
      group.append(svgNode("rect", { x, y: top, width: pitch, height: height - top - bottom, class: "hit" }));
      if (index % every === 0) {
        group.append(svgNode("text", { x: x + pitch / 2, y: height - 6, "text-anchor": "middle" }, bar.x ?? "?"));
      }
      group.addEventListener("pointermove", (event) => tip(event, [
        `${data.axis} ${bar.x ?? "unknown"} · ${time(sum(bar))}${bar.open ? " · not complete" : ""}`,
        ...data.categories
          .map(([category, label], i) => [colourOf(category), label, bar.v[i] === null ? "not recorded" : time(bar.v[i])])
          .reverse(),
      ]));
      group.addEventListener("pointerleave", () => tip());
      if (data.axis === "rank") {
        group.addEventListener("click", () => {
          if (stacks.some((stack) => stack(`rank ${bar.x}`))) {
            document.getElementById("ledger").scrollIntoView({ behavior: "smooth" });
          }
        });
      }
      svg.append(group);
    });
    place.replaceChildren(svg);
  }

  if (data.axis === "step") stacks.push(choose);
  new ResizeObserver(draw).observe(place);
});
