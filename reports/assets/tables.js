// Sort a table by a click on a heading; filter it by what is typed beside its caption.
document.querySelectorAll("table.sortable").forEach((table) => {
  const body = table.tBodies[0];
  const key = (cell) => (cell.dataset.v === undefined ? cell.textContent.toLowerCase() : cell.dataset.v);
  table.querySelectorAll("th button").forEach((button, column) => {
    button.addEventListener("click", () => {
      const head = button.parentElement;
      const numeric = head.classList.contains("n");
      // Numbers start with the largest, names with A. Unknown is last either way.
      const up = head.getAttribute("aria-sort") ? head.getAttribute("aria-sort") !== "ascending" : !numeric;
      table.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const rows = [...body.rows].map((row) => [key(row.cells[column]), row]);
      rows.sort(([a], [b]) => {
        if (a === "" || b === "") return (a === "") - (b === "");
        return (up ? 1 : -1) * (numeric ? a - b : a < b ? -1 : a > b ? 1 : 0);
      });
      body.append(...rows.map(([, row]) => row));
    });
  });
  const box = table.closest(".table");
  const field = box.querySelector("input[type=search]");
  field?.addEventListener("input", () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of body.rows) {
      const text = `${row.textContent} ${row.querySelector(".name")?.title ?? ""}`.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    box.querySelector("output").textContent = words.length ? `${shown} of ${body.rows.length}` : "";
  });
});
