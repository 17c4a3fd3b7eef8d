// A step as a timeline on a canvas: drag to pan, wheel to zoom once it has the focus, double click to see all of it.
document.querySelectorAll("[data-chart=timeline]").forEach((figure) => {
  const data = JSON.parse(figure.querySelector("script").textContent);
  const place = figure.querySelector(".canvas");
  const [LANE, HEAD, AXIS, DEPTH] = [15, 17, 20, 12];

  // Events nest: each takes the first lane that is free at its start. They come sorted by start, longest first.
  const rows = data.rows.map(({ label, events }) => {
    const ends = [];
    const lanes = [];
    for (let i = 0; i < events.length; i += 4) {
      let lane = ends.findIndex((end) => end <= events[i + 1]);
      if (lane < 0) lane = ends.length;
      ends[lane] = events[i + 1] + events[i + 2];
      lanes.push(Math.min(lane, DEPTH - 1));
    }
    return { label, events, lanes, height: HEAD + LANE * Math.min(Math.max(ends.length, 1), DEPTH) };
  });
  const height = AXIS + rows.reduce((total, row) => total + row.height, 4);
  const canvas = document.createElement("canvas");
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", figure.getAttribute("aria-label"));
  canvas.style.height = `${height}px`;
  const bar = document.createElement("div");
  bar.className = "tools";
  const hint = document.createElement("span");
  hint.textContent = "click, then wheel to zoom · drag to pan · double click for all";
  for (const [text, label, act] of [
    ["+", "Zoom in", () => zoom(0.5, 0.5)], ["−", "Zoom out", () => zoom(2, 0.5)], ["all", "Show all", () => reset()],
  ]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-label", label);
    button.addEventListener("click", act);
    bar.append(button);
  }
  bar.append(hint);
  place.append(bar, canvas);

  const [low, high] = [-0.01 * data.dur, 1.01 * data.dur];
  let [from, to] = [low, high];
  let queued = false;
  const reset = () => look(low, high);
  const width = () => canvas.clientWidth || 1;
  const at = (x) => from + (x / width()) * (to - from);

  function look(a, b) {
    const span = Math.min(Math.max(b - a, 200), high - low); // never closer than 200 ns
    from = Math.min(Math.max(a, low), high - span);
    to = from + span;
    if (!queued) requestAnimationFrame(draw);
    queued = true;
  }
  function zoom(factor, where) {
    const middle = from + where * (to - from);
    look(middle - (middle - from) * factor, middle + (to - middle) * factor);
  }

  function luminance(hex) {
    const [r, g, b] = [1, 3, 5].map((at) => (parseInt(hex.slice(at, at + 2), 16) / 255) ** 2.2);
    return 0.21 * r + 0.72 * g + 0.07 * b;
  }

  function draw() {
    queued = false;
    const [w, ratio] = [width(), devicePixelRatio || 1];
    canvas.width = w * ratio;
    canvas.height = height * ratio;
    const c = canvas.getContext("2d");
    c.scale(ratio, ratio);
    const style = getComputedStyle(figure);
    const css = (name) => style.getPropertyValue(`--${name}`).trim();
    const fills = data.colours.map(css);
    const inks = fills.map((fill) => (luminance(fill) > 0.3 ? "#111" : "#fff"));
    const font = style.fontFamily;
    const scale = w / (to - from);
    c.textBaseline = "middle";
    c.font = `10px ${font}`;
    axis(c, w, scale, css);
    let y = AXIS;
    for (const row of rows) {
      c.fillStyle = css("rule");
      c.fillRect(0, y, w, 1);
      c.font = `10px ${font}`;
      const edge = new Float64Array(DEPTH).fill(-1);
      for (let i = 0, n = 0; i < row.events.length; i += 4, n++) {
        const x = (row.events[i + 1] - from) * scale;
        const right = x + row.events[i + 2] * scale;
        if (right < 0 || x > w) continue;
        const lane = row.lanes[n];
        const left = Math.max(x, edge[lane], 0);
        const wide = Math.max(Math.min(right, w) - left, right > edge[lane] ? 0.6 : 0);
        if (!wide) continue;
        const topOf = y + HEAD + lane * LANE;
        c.fillStyle = fills[row.events[i + 3]];
        c.globalAlpha = 1 - 0.3 * ((row.events[i] * 0.618) % 1); // names differ in strength, categories in hue
        c.fillRect(left, topOf, Math.max(wide - (wide > 3 ? 0.7 : 0), 0.6), LANE - 2);
        c.globalAlpha = 1;
        edge[lane] = right;
        if (wide > 34) {
          c.save();
          c.beginPath();
          c.rect(left + 3, topOf, wide - 6, LANE);
          c.clip();
          c.fillStyle = inks[row.events[i + 3]];
          c.fillText(data.names[row.events[i]], left + 4, topOf + (LANE - 2) / 2 + 0.5);
          c.restore();
        }
      }
      c.font = `600 10px ${font}`;
      c.fillStyle = css("sheet");
      c.fillRect(1, y + 2, c.measureText(row.label).width + 6, HEAD - 4);
      c.fillStyle = css("quiet");
      c.fillText(row.label, 4, y + HEAD / 2 + 1);
      y += row.height;
    }
  }

  function axis(c, w, scale, css) {
    const wish = (90 / scale) || 1;
    const power = 10 ** Math.floor(Math.log10(wish));
    const tick = [1, 2, 5, 10].map((m) => m * power).find((t) => t >= wish);
    for (let ns = Math.ceil(from / tick) * tick; ns <= to; ns += tick) {
      const x = (ns - from) * scale;
      c.fillStyle = css("rule");
      c.fillRect(x, 0, 0.5, height);
      c.fillStyle = css("quiet");
      c.fillText(ns === 0 ? "0" : `${Number((ns / 1e6).toPrecision(7))} ms`, x + 3, AXIS / 2);
    }
    // The step's own bounds.
    c.fillStyle = css("ink");
    for (const ns of [0, data.dur]) c.fillRect((ns - from) * scale, 0, 1, height);
  }

  function find(x, y) {
    let top = AXIS;
    for (const row of rows) {
      if (y >= top && y < top + row.height) {
        const lane = Math.floor((y - top - HEAD) / LANE);
        const slack = (to - from) / width();
        for (let n = row.lanes.length - 1; n >= 0; n--) {
          const [name, start, dur] = row.events.slice(4 * n, 4 * n + 3);
          if (row.lanes[n] === lane && at(x) >= start - slack && at(x) <= start + dur + slack) {
            return [data.names[name], `${time(dur)} · starts at ${time(start)} · ${row.label}`];
          }
        }
      }
      top += row.height;
    }
    return null;
  }

  let grip = null;
  canvas.addEventListener("pointerdown", (event) => {
    grip = { x: event.clientX, from, to };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => { grip = null; });
  canvas.addEventListener("pointercancel", () => { grip = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (grip) {
      const moved = ((grip.x - event.clientX) / width()) * (grip.to - grip.from);
      look(grip.from + moved, grip.to + moved);
    }
    const lines = find(event.offsetX, event.offsetY);
    tip(event, lines);
  });
  canvas.addEventListener("pointerleave", () => tip());
  canvas.addEventListener("dblclick", reset);
  canvas.addEventListener("wheel", (event) => {
    // A page that scrolls past must not be caught: only a canvas in focus (or ctrl, as pinching sends) zooms.
    if (document.activeElement !== canvas && !event.ctrlKey) return;
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const moved = (event.deltaX / width()) * (to - from);
      look(from + moved, to + moved);
    } else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 300))), event.offsetX / width());
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = (to - from) / 8;
    const act = {
      ArrowLeft: () => look(from - step, to - step), ArrowRight: () => look(from + step, to + step),
      a: () => look(from - step, to - step), d: () => look(from + step, to + step),
      w: () => zoom(0.7, 0.5), s: () => zoom(1.4, 0.5), "+": () => zoom(0.7, 0.5), "-": () => zoom(1.4, 0.5),
      0: reset, Escape: () => canvas.blur(),
    }[event.key];
    if (act) {
      act();
      event.preventDefault();
    }
  });
  new ResizeObserver(draw).observe(canvas);
  for (const media of ["(prefers-color-scheme: dark)", "print"]) matchMedia(media).addEventListener("change", draw);
});
