// One panel per model. Weights arrive as the square roots of attention weights in bytes, so that small ones keep digits.
const { models } = data;
const ROW = 22; // height of a token in the view of lines, as in the style sheet
const panels = [];

function colours() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  return { accent: value("--accent"), text: value("--text"), quiet: value("--quiet"), memory: value("--memory"), line: value("--line") };
}

async function unpack(part) {
  const bytes = Uint8Array.from(atob(part.weights), (character) => character.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  part.roots = new Uint8Array(await new Response(plain).arrayBuffer());
  part.weights = null;
}

class Panel {
  constructor(model) {
    this.model = model;
    this.frame = model.frames.length - 1;
    this.layer = 0;
    this.head = 0;
    this.chosen = null; // {side: "from" or "to", index}: clicked, and stays
    this.pointed = null; // the same: under the pointer
    this.sorting = { column: -1, down: false };
    this.part = Math.max(0, this.frameShown.parts.findIndex((part) => part.kind === "cross"));
    this.view = this.shown?.kind === "cross" ? "matrix" : "lines";
    if (this.view === "matrix") this.layer = this.shown.layers - 1; // where alignments are clearest
    this.root = this.build();
    this.drawFrame();
  }

  get frameShown() { return this.model.frames[this.frame]; }
  get shown() { return this.frameShown.parts[this.part]; }
  get start() { // of the shown head's bytes
    const { heads, queries, keys } = this.shown;
    return (this.layer * heads + this.head) * queries.length * keys.length;
  }
  root_(query, key) { return this.shown.roots[this.start + query * this.shown.keys.length + key] / 255; }
  weight(query, key) { return this.root_(query, key) ** 2; }

  build() {
    this.parts = make("span", { class: "choices", role: "group", "aria-label": words.part });
    this.bar = make("div", { class: "bar" }, this.parts);
    if (this.model.frames.length > 1) this.bar.append(...this.slider());
    this.grid = make("div", { class: "grid", role: "grid", "aria-label": words.overview, onkeydown: (event) => this.onGridKey(event) });
    this.title = make("h3");
    this.status = make("p", { class: "status", "aria-live": "polite" });
    this.views = make("span", { class: "choices", role: "group", "aria-label": words.view });
    this.stage = make("div", { class: "stage" });
    this.attribution = make("section", { class: "box attribution" });
    this.table = make("section", { class: "box statistics" });
    this.tokens = make("section", { class: "box tokens" },
      this.title, make("div", { class: "bar" }, this.views), this.status, this.stage);
    this.overview = make("section", { class: "box overview" }, make("h3", {}, words.overview), this.grid);
    return make("section", { class: "panel", "aria-label": this.model.name },
      ...(models.length > 1 ? [make("h2", {}, this.model.name)] : []), this.bar,
      make("div", { class: "boxes" },
        make("div", { class: "column" }, this.overview, this.attribution, this.table), make("div", { class: "column" }, this.tokens)));
  }

  slider() {
    this.step = make("output");
    const range = make("input", { type: "range", min: 0, max: this.model.frames.length - 1, value: this.frame, "aria-label": words.checkpoint,
      oninput: (event) => { this.frame = Number(event.target.value); this.drawFrame(); } });
    return [make("label", {}, words.checkpoint, " ", range), this.step];
  }

  drawFrame() {
    const frame = this.frameShown;
    if (this.step) this.step.textContent = frame.label;
    this.parts.replaceChildren(...(frame.parts.length > 1 ? frame.parts : []).map((part, number) =>
      make("button", { type: "button", "aria-pressed": String(number === this.part), onclick: () => this.choosePart(number) }, part.title)));
    this.bar.hidden = !this.step && frame.parts.length < 2;
    this.drawAttribution();
    if (!this.shown) { this.overview.hidden = this.tokens.hidden = this.table.hidden = true; return; }
    this.drawGrid();
    this.drawTable();
    this.drawHead();
  }

  choosePart(number) {
    this.part = number;
    this.chosen = this.pointed = null;
    this.layer = Math.min(this.layer, this.shown.layers - 1);
    this.head = Math.min(this.head, this.shown.heads - 1);
    this.drawFrame();
    this.parts.children[number]?.focus();
  }

  // overview

  drawGrid() {
    const { layers, heads } = this.shown;
    this.grid.style.gridTemplateColumns = `18px repeat(${heads}, minmax(0, ${heads < 5 ? 92 : 64}px))`;
    const cells = [make("span", { role: "columnheader" })];
    for (let head = 0; head < heads; head++) cells.push(make("span", { role: "columnheader" }, String(head + 1)));
    for (let layer = 0; layer < layers; layer++) {
      cells.push(make("span", { role: "rowheader" }, String(layer + 1)));
      for (let head = 0; head < heads; head++) cells.push(this.cell(layer, head));
    }
    this.grid.replaceChildren(...cells);
    this.markCell();
  }

  cell(layer, head) {
    const { entropy, distance, diagonal, queries, keys } = this.shown;
    const values = { layer: layer + 1, head: head + 1, entropy: entropy[layer][head].toFixed(2), distance: distance[layer][head].toFixed(1), diagonal: (100 * diagonal[layer][head]).toFixed(0) };
    const enlarged = Math.max(queries.length, keys.length) < 64; // smoothed, a causal mask would seem to leak
    const canvas = make("canvas", { "aria-hidden": "true", class: enlarged ? "sharp" : "" });
    this.paint(canvas, layer, head);
    const label = phrase(words.cell, values);
    return make("button", { type: "button", class: "cell", role: "gridcell", title: label, "aria-label": label, "data-layer": layer, "data-head": head,
      onclick: () => this.choose(layer, head) }, canvas);
  }

  paint(canvas, layer, head) {
    const { queries, keys, heads, roots } = this.shown;
    const size = queries.length * keys.length, start = (layer * heads + head) * size;
    const [red, green, blue] = colours().accent.split(",").map(Number);
    canvas.width = keys.length;
    canvas.height = queries.length;
    const image = new ImageData(keys.length, queries.length), pixels = image.data;
    for (let index = 0, place = 0; index < size; index++) {
      pixels[place++] = red; pixels[place++] = green; pixels[place++] = blue; pixels[place++] = roots[start + index];
    }
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  onGridKey(event) {
    if (this.move(event.key)) {
      event.preventDefault();
      event.stopPropagation();
      this.grid.querySelector('[aria-selected="true"]').focus();
    }
  }

  move(key) {
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!(key in steps) || !this.shown) return false;
    const within = (value, count) => Math.min(count - 1, Math.max(0, value));
    this.choose(within(this.layer + steps[key][0], this.shown.layers), within(this.head + steps[key][1], this.shown.heads));
    return true;
  }

  choose(layer, head) {
    [this.layer, this.head] = [layer, head];
    this.markCell();
    this.markRow();
    this.drawHead();
  }

  markCell() {
    for (const cell of this.grid.querySelectorAll(".cell")) {
      const selected = Number(cell.dataset.layer) === this.layer && Number(cell.dataset.head) === this.head;
      cell.setAttribute("aria-selected", String(selected));
      cell.tabIndex = selected ? 0 : -1; // one stop for the Tab key, arrows inside
    }
  }

  // one head

  drawHead() {
    this.title.textContent = phrase(words.head, { layer: this.layer + 1, head: this.head + 1 });
    this.views.replaceChildren(...["lines", "matrix"].map((view) =>
      make("button", { type: "button", "aria-pressed": String(view === this.view), onclick: () => { this.view = view; this.drawHead(); } }, words[view])));
    if (this.view === "lines") this.buildLines();
    else this.buildMatrix();
    this.update();
  }

  buildLines() {
    const { queries, keys, memory } = this.shown;
    const list = (side, tokens) => make("ol", { class: side, "aria-label": words[side], role: "listbox", onkeydown: (event) => this.onListKey(event, side) },
      ...tokens.map((token, index) => make("li", {
        role: "option", tabindex: index ? "-1" : "0", title: token, class: side === "to" && index < memory ? "remembered" : "",
        onmouseenter: () => this.point({ side, index }), onmouseleave: () => this.point(null),
        onfocus: () => this.point({ side, index }), onblur: () => this.point(null), onclick: () => this.pin({ side, index }),
      }, token)));
    [this.from, this.to] = [list("from", queries), list("to", keys)];
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.stage.replaceChildren(make("div", { class: "lines", style: `--before: ${ROW * memory}px` }, this.from, this.canvas, this.to));
    const height = ROW * Math.max(memory + queries.length, keys.length), ratio = Math.min(2, devicePixelRatio || 1);
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(this.canvas.clientWidth * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.getContext("2d").scale(ratio, ratio);
  }

  onListKey(event, side) {
    const items = [...this[side].children], here = items.indexOf(document.activeElement);
    const next = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") this.pin({ side, index: here });
    else if (next === undefined) return;
    else items[Math.min(items.length - 1, Math.max(0, next))].focus();
    event.preventDefault();
    event.stopPropagation();
  }

  point(token) { this.pointed = token; this.update(); }

  pin(token) {
    const again = this.chosen && this.chosen.side === token.side && this.chosen.index === token.index;
    this.chosen = again ? null : token;
    this.update();
  }

  update() {
    const active = this.pointed || this.chosen;
    if (this.view === "lines") this.drawLines(active);
    else this.drawMatrix(active);
    this.describe(active);
  }

  describe(active) {
    if (!active) { this.status.textContent = this.shown.memory ? `${words.hint} ${words.remembered}` : words.hint; return; }
    const { queries, keys } = this.shown, name = (tokens, index) => `“${tokens[index]}”`;
    if (active.key !== undefined) {
      this.status.textContent = `${name(queries, active.index)} → ${name(keys, active.key)}: ${this.weight(active.index, active.key).toFixed(3)}`;
      return;
    }
    const from = active.side === "from", tokens = from ? keys : queries;
    const weights = tokens.map((_, index) => (from ? this.weight(active.index, index) : this.weight(index, active.index)));
    const top = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 4).filter((index) => weights[index] > 0.005);
    const list = top.map((index) => `${name(tokens, index)} ${weights[index].toFixed(2)}`).join(words.comma);
    this.status.textContent = phrase(from ? words.attends : words.attended, { token: name(from ? queries : keys, active.index), list });
  }

  drawLines(active) {
    const { queries, keys, memory } = this.shown, { accent } = colours();
    const context = this.canvas.getContext("2d"), width = this.canvas.clientWidth;
    context.clearRect(0, 0, width, this.canvas.height);
    context.strokeStyle = `rgb(${accent})`;
    context.lineWidth = 1.6;
    const stroke = (query, key, alpha) => {
      const [first, last] = [ROW * (memory + query + 0.5), ROW * (key + 0.5)];
      context.globalAlpha = alpha;
      context.beginPath();
      context.moveTo(2, first);
      context.bezierCurveTo(width / 2, first, width / 2, last, width - 2, last);
      context.stroke();
    };
    const shades = { from: new Float32Array(queries.length), to: new Float32Array(keys.length) };
    if (!active) {
      for (let query = 0; query < queries.length; query++)
        for (let key = 0; key < keys.length; key++) if (this.weight(query, key) > 0.06) stroke(query, key, 0.85 * this.root_(query, key));
    } else if (active.side === "from") {
      keys.forEach((_, key) => { const root = shades.to[key] = this.root_(active.index, key); if (root > 0.06) stroke(active.index, key, root); });
    } else {
      queries.forEach((_, query) => { const root = shades.from[query] = this.root_(query, active.index); if (root > 0.06) stroke(query, active.index, root); });
    }
    for (const side of ["from", "to"])
      [...this[side].children].forEach((item, index) => {
        item.style.backgroundColor = shades[side][index] > 0.06 ? `rgba(${accent}, ${(0.75 * shades[side][index]).toFixed(2)})` : "";
        item.classList.toggle("chosen", Boolean(active && active.side === side && active.index === index));
      });
  }

  buildMatrix() {
    this.canvas = make("canvas", { class: "matrix", tabindex: "0", role: "img", "aria-label": words.matrix,
      onmousemove: (event) => this.point(this.under(event)), onmouseleave: () => this.point(null),
      onclick: (event) => { this.chosen = this.under(event); this.update(); }, onkeydown: (event) => this.onMatrixKey(event) });
    this.stage.replaceChildren(this.canvas);
    const { queries, keys } = this.shown;
    const context = this.canvas.getContext("2d"), ratio = Math.min(2, devicePixelRatio || 1);
    context.font = "12px system-ui, sans-serif";
    const longest = (tokens) => Math.min(110, 8 + Math.max(...tokens.map((token) => context.measureText(token).width)));
    const [left, above] = [longest(queries), longest(keys)];
    const size = Math.max(13, Math.min(28, Math.floor((this.stage.clientWidth - left - 2) / keys.length)));
    this.scale = { left, above, size };
    const [width, height] = [left + size * keys.length + 1, above + size * queries.length + 1];
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.picture = make("canvas");
    this.paint(this.picture, this.layer, this.head);
    context.scale(ratio, ratio);
  }

  under(event) {
    const { left, above, size } = this.scale;
    const [query, key] = [Math.floor((event.offsetY - above) / size), Math.floor((event.offsetX - left) / size)];
    const { queries, keys } = this.shown;
    const row = query >= 0 && query < queries.length, column = key >= 0 && key < keys.length;
    if (row && column) return { side: "from", index: query, key };
    if (row) return { side: "from", index: query };
    return column ? { side: "to", index: key } : null;
  }

  onMatrixKey(event) {
    const { queries, keys } = this.shown, steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    if (!(event.key in steps)) return;
    const { index = 0, key = 0 } = this.chosen || {};
    const within = (value, count) => Math.min(count - 1, Math.max(0, value));
    this.pointed = null;
    this.chosen = { side: "from", index: within(index + steps[event.key][0], queries.length), key: within(key + steps[event.key][1], keys.length) };
    this.update();
    event.preventDefault();
    event.stopPropagation();
  }

  drawMatrix(active) {
    const { queries, keys, memory } = this.shown, { left, above, size } = this.scale, { text, quiet, memory: shade, line } = colours();
    const context = this.canvas.getContext("2d"), [width, height] = [size * keys.length, size * queries.length];
    context.clearRect(0, 0, left + width + 2, above + height + 2);
    context.globalAlpha = 1;
    context.fillStyle = shade;
    context.fillRect(left, 0, size * memory, above + height);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.picture, left, above, width, height);
    context.strokeStyle = line;
    context.lineWidth = 1;
    context.strokeRect(left + 0.5, above + 0.5, width, height);
    context.textBaseline = "middle";
    const on = (side, index) => active && (active.side === side ? active.index === index : active.key === index);
    const write = (token, bold) => {
      context.font = `${bold ? "700 " : ""}12px system-ui, sans-serif`;
      context.fillStyle = bold ? text : quiet;
      context.fillText(token, 0, 0, 104);
    };
    context.textAlign = "right";
    queries.forEach((token, query) => { context.save(); context.translate(left - 4, above + size * (query + 0.5)); write(token, on("from", query)); context.restore(); });
    context.textAlign = "left";
    keys.forEach((token, key) => { context.save(); context.translate(left + size * (key + 0.5), above - 4); context.rotate(-Math.PI / 2); write(token, on("to", key)); context.restore(); });
    if (!active) return;
    context.strokeStyle = text;
    if (active.side === "to") context.strokeRect(left + size * active.index + 0.5, above + 0.5, size, height);
    else if (active.key === undefined) context.strokeRect(left + 0.5, above + size * active.index + 0.5, width, size);
    else context.strokeRect(left + size * active.key + 0.5, above + size * active.index + 0.5, size, size);
  }

  // beside it

  drawAttribution() {
    const { attribution, replaced, mix, tokens } = this.frameShown, boxes = [];
    for (const [place, shares] of Object.entries(mix)) boxes.push(make("h3", {}, words.mix[place]), bars(shares));
    const highest = Math.max(1e-12, ...attribution.scores.map(Math.abs));
    boxes.push(make("h3", {}, words.attribution), make("p", {}, attribution.output), make("p", { class: "hint" }, words.caution),
      chips(attribution.tokens, attribution.scores, (score) => `${score > 0 ? "+" : score < 0 ? "−" : ""}${short(Math.abs(score))}`, (score) => score / highest));
    if (replaced) boxes.push(make("h3", {}, words.replaced), chips(tokens, replaced, (share) => `${(100 * share).toFixed(0)}%`, (share) => -share));
    this.attribution.replaceChildren(...boxes);
  }

  drawTable() {
    const { layers, heads, entropy, distance, diagonal } = this.shown;
    this.rows = [];
    for (let layer = 0; layer < layers; layer++)
      for (let head = 0; head < heads; head++) this.rows.push([layer + 1, head + 1, entropy[layer][head], distance[layer][head], diagonal[layer][head]]);
    const titles = words.columns.map((title, column) => make("th", { scope: "col" }, make("button", { type: "button", onclick: () => this.sort(column) }, title)));
    this.body = make("tbody");
    this.table.replaceChildren(make("h3", {}, words.statistics), make("p", { class: "hint" }, words.meaning),
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": words.statistics }, make("table", {}, make("thead", {}, make("tr", {}, ...titles)), this.body)));
    this.fillTable();
  }

  sort(column) {
    this.sorting = { column, down: this.sorting.column === column ? !this.sorting.down : column > 1 };
    this.fillTable();
  }

  fillTable() {
    const { column, down } = this.sorting, rows = [...this.rows];
    if (column >= 0) rows.sort((a, b) => (down ? b[column] - a[column] : a[column] - b[column]));
    this.body.replaceChildren(...rows.map((row) => make("tr", { "data-layer": row[0] - 1, "data-head": row[1] - 1, onclick: () => this.choose(row[0] - 1, row[1] - 1) },
      ...[row[0], row[1], row[2].toFixed(2), row[3].toFixed(2), `${(100 * row[4]).toFixed(1)}%`].map((value) => make("td", {}, String(value))))));
    this.table.querySelectorAll("th").forEach((title, number) => title.setAttribute("aria-sort", number !== column ? "none" : down ? "descending" : "ascending"));
    this.markRow();
  }

  markRow() {
    for (const row of this.body.children)
      row.setAttribute("aria-selected", String(Number(row.dataset.layer) === this.layer && Number(row.dataset.head) === this.head));
  }
}

function short(value) {
  return value === 0 ? "0" : value < 0.001 ? value.toExponential(0) : value.toPrecision(2);
}

function chips(tokens, values, text, strength) {
  return make("div", { class: "chips", tabindex: "0" }, ...tokens.map((token, index) => {
    const share = strength(values[index]), alpha = Math.min(0.8, 0.8 * Math.abs(share)).toFixed(2);
    const colour = share < 0 ? "--negative" : "--accent";
    return make("span", { class: alpha > 0.25 ? "chip strong" : "chip", style: `background: rgba(var(${colour}), ${alpha})` }, token, make("small", {}, text(values[index])));
  }));
}

function bars(shares) { // one per layer, from the embeddings up
  const highest = Math.max(...shares);
  return make("div", { class: "bars" }, ...shares.flatMap((share, layer) => [
    make("span", {}, layer ? phrase(words.layer, { layer }) : words.words),
    make("span", { class: "track" }, make("span", { class: "fill", style: `width: ${(100 * share) / highest}%` })),
    make("span", { class: "share" }, `${(100 * share).toFixed(1)}%`)]));
}

async function open() {
  const keys = document.getElementById("keys");
  keys.textContent = words.keys;
  keys.hidden = !models.some((model) => model.frames.some((frame) => frame.parts.length));
  await Promise.all(models.flatMap((model) => model.frames.flatMap((frame) => frame.parts.map(unpack))));
  followTheme(() => { for (const panel of panels) panel.drawFrame(); });
  const main = document.querySelector("main");
  main.classList.toggle("two", models.length > 1);
  for (const model of models) {
    const panel = new Panel(model);
    panels.push(panel);
    main.append(panel.root);
    panel.drawFrame(); // again: sizes are known now
  }
  addEventListener("keydown", (event) => {
    const free = event.target === document.body || event.target.closest?.("button:not(.cell)");
    if (free && panels[0].shown && panels[0].move(event.key)) event.preventDefault();
  });
  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; for (const panel of panels) if (panel.shown) panel.drawHead(); } });
  document.body.dataset.ready = "true";
}

open();
