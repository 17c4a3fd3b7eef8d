// Stacked bars of ledger categories, over steps (of one rank or of the mean) and over ranks. Few bars lie, many stand.
const stacks = [];
document.querySelectorAll("[data-chart=stack]").forEach((figure) => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const place = figure.querySelector(".canvas");
  const names = Object.keys(data.series);
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

  const node = (tag, attributes, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const sum = (bar) => bar.v.reduce((total, v) => total + (v ?? 0), 0);
  const named = (bar) => `${data.axis} ${bar.x ?? "unknown"}`;

  function draw() {
    const bars = data.series[series];
    const width = Math.max(place.clientWidth, 280);
    const peak = Math.max(...bars.map(sum), 1);
    const power = 10 ** Math.floor(Math.log10(peak / 4));
    const tick = [1, 2, 2.5, 5, 10].map((m) => m * power).find((t) => peak / t <= 5);
    const shape = bars.length <= 12 ? lying(bars, width, peak) : standing(bars, width, peak);
    const svg = node("svg", { viewBox: `0 0 ${width} ${shape.height}`, width: "100%", role: "img" });
    for (let ns = 0; ns <= peak; ns += tick) svg.append(...shape.rule(ns));
    bars.forEach((bar, index) => svg.append(group(bar, index, shape)));
    place.replaceChildren(svg);
  }

  // Where things go: box(index, from, to) is the rectangle of a part, hit(index) of the whole bar.
  function lying(bars, width, peak) {
    const [left, right, pitch, thick] = [76, 62, 25, 18];
    const height = bars.length * pitch + 24;
    const at = (ns) => left + ((width - left - right) * ns) / peak;
    return {
      height,
      box: (i, a, b) => ({ x: at(a), width: Math.max(at(b) - at(a) - 0.7, 0.3), y: i * pitch, height: thick }),
      hit: (i) => ({ x: 0, width, y: i * pitch - 3, height: pitch }),
      rule: (ns) => [
        node("line", { x1: at(ns), x2: at(ns), y1: 0, y2: height - 20, class: "rule" }),
        node("text", { x: at(ns), y: height - 7, "text-anchor": "middle" }, tickLabel(ns)),
      ],
      labels: (bar, i) => [
        node("text", { x: left - 8, y: i * pitch + 13, "text-anchor": "end" }, named(bar)),
        node("text", { x: at(sum(bar)) + 6, y: i * pitch + 13 }, time(sum(bar))),
      ],
    };
  }
  function standing(bars, width, peak) {
    const [height, left, bottom, top] = [220, 46, 22, 8];
    const pitch = (width - left) / bars.length;
    const gap = pitch > 6 ? 2 : pitch > 3 ? 1 : 0;
    const every = Math.ceil((String(bars[bars.length - 1].x).length * 7 + 12) / pitch);
    const at = (ns) => top + (height - top - bottom) * (1 - ns / peak);
    const x = (i) => left + i * pitch;
    return {
      height,
      box: (i, a, b) => ({ x: x(i) + gap / 2, width: pitch - gap, y: at(b), height: Math.max(at(a) - at(b), 0.2) }),
      hit: (i) => ({ x: x(i), width: pitch, y: top, height: height - top - bottom }),
      rule: (ns) => [
        node("line", { x1: left, x2: width, y1: at(ns), y2: at(ns), class: "rule" }),
        node("text", { x: left - 6, y: at(ns) + 3, "text-anchor": "end" }, tickLabel(ns)),
      ],
      labels: (bar, i) =>
        i % every ? [] : [node("text", { x: x(i) + pitch / 2, y: height - 6, "text-anchor": "middle" }, bar.x ?? "?")],
    };
  }

  function group(bar, index, shape) {
    const g = node("g", { class: bar.open ? "open" : "" });
    let base = 0;
    bar.v.forEach((ns, category) => {
      if (!ns) return;
      const style = `fill:${colourOf(data.categories[category][0])}`;
      g.append(node("rect", { ...shape.box(index, base, base + ns), style }));
      base += ns;
    });
    g.append(...shape.labels(bar, index), node("rect", { ...shape.hit(index), class: "hit" }));
    g.addEventListener("pointermove", (event) => tip(event, [
      `${named(bar)} · ${time(sum(bar))}${bar.open ? " · not complete" : ""}`,
      ...data.categories
        .map(([category, label], i) => [colourOf(category), label, bar.v[i] === null ? "not recorded" : time(bar.v[i])])
        .reverse(),
    ]));
    g.addEventListener("pointerleave", () => tip());
    if (data.axis === "rank") g.addEventListener("click", () => stacks.forEach((stack) => stack(named(bar))));
    return g;
  }

  if (data.axis === "step") stacks.push(choose);
  new ResizeObserver(draw).observe(place);
});
