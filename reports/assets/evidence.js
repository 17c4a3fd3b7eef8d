"use strict";
// "Show me": every [data-show] opens the definition, the SQL and the rows its number rests on.
(() => {
  const evidence = JSON.parse(document.getElementById("evidence").textContent);
  const dialog = document.getElementById("show");
  const part = (selector) => dialog.querySelector(selector);
  const node = (tag, text, className) => {
    const element = document.createElement(tag);
    element.textContent = text;
    if (className) element.className = className;
    return element;
  };

  function show(id) {
    const e = evidence[id];
    part(".definition").textContent = e.definition;
    part(".more a").href = e.link;
    part("pre").textContent = e.sql;
    part(".copy").textContent = "copy";
    part(".total").textContent = e.total > e.rows.length ? `first ${e.rows.length} of ${e.total}` : `${e.total}`;
    const head = document.createElement("tr");
    head.append(...e.columns.map((name, i) => node("th", name, e.rows.some((row) => typeof row[i] === "number") ? "n" : "")));
    const rows = e.rows.map((values) => {
      const row = document.createElement("tr");
      row.append(...values.map((v) => node("td", v === null ? "NULL" : String(v), v === null ? "null" : typeof v === "number" ? "n" : "")));
      return row;
    });
    part("table").replaceChildren(head, ...rows);
    dialog.showModal();
    dialog.scrollTop = 0;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-show]");
    if (button) show(button.dataset.show);
    else if (event.target === dialog) dialog.close(); // the backdrop
  });
  part(".copy").addEventListener("click", async () => {
    const pre = part("pre");
    getSelection().selectAllChildren(pre);
    try {
      await navigator.clipboard.writeText(pre.textContent);
    } catch {
      document.execCommand("copy"); // pages opened from disk may lack the clipboard API
    }
    part(".copy").textContent = "copied";
  });
})();

// One tooltip for the page: tip(event, lines) shows it, tip() hides it. A line is text or [colour, text, text].
const tip = (() => {
  const box = document.getElementById("tip");
  return (event, lines) => {
    box.hidden = !lines;
    if (!lines) return;
    box.replaceChildren(
      ...lines.map((line) => {
        const row = document.createElement("div");
        if (typeof line === "string") row.textContent = line;
        else {
          const [colour, text, value] = line;
          const swatch = document.createElement("i");
          swatch.style.background = colour;
          const label = document.createElement("span");
          label.textContent = text;
          const number = document.createElement("b");
          number.textContent = value;
          row.append(swatch, label, number);
        }
        return row;
      }),
    );
    const { clientX: x, clientY: y } = event;
    box.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.offsetWidth - 8))}px`;
    box.style.top = `${y + 18 + box.offsetHeight > innerHeight ? y - box.offsetHeight - 12 : y + 18}px`;
  };
})();
document.addEventListener("pointermove", (event) => {
  const marked = event.target.closest?.("[data-tip]");
  if (marked) tip(event, [marked.dataset.tip]);
  else if (!event.target.closest?.(".chart")) tip();
});

const time = (ns) => {
  const [size, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]].find(([s]) => Math.abs(ns) >= s * 0.9995) ?? [1, "ns"];
  return ns === 0 ? "0" : `${ns / size < 999.5 ? (ns / size).toPrecision(3) : Math.round(ns / size)} ${unit}`;
};
const tickLabel = (ns) => time(ns).replace(/\.0+(?= )|(?<=\.\d*[1-9])0+(?= )/, ""); // 50.0 ms reads 50 ms
const colourOf = (category) => `var(--${category})`;
