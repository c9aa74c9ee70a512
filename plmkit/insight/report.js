// The report of one model on one file.
const { labels, report } = data;
const MANY = 12; // classes above which the cells of the confusion matrix are small
const MOST = 60; // classes of which a matrix is drawn
const PAGE = 50; // mistakes that are shown at once
const LONG = 400; // characters above which a text is folded
const SVG = document.createRange().createContextualFragment("<svg></svg>").firstChild.namespaceURI;
const number = (value, digits = 3) => Math.abs(value) >= 1000 ? value.toLocaleString() : Number(value).toFixed(digits);
const percent = (share) => `${(100 * share).toFixed(1)}%`;

function draw(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function box(title, name, ...children) {
  return make("section", { class: `box ${name}`, "aria-label": title }, make("h3", {}, title), ...children);
}

// scores

function scores() {
  const list = make("dl"), counts = [];
  for (const [name, value] of Object.entries(report)) {
    if (typeof value !== "number") continue;
    if (!(name in labels)) continue;
    const interval = report.intervals?.[name];
    if (!interval) { counts.push(`${labels[name]} ${Number.isInteger(value) ? value.toLocaleString() : number(value)}`); continue; }
    const { low, high } = interval, scale = low >= 0 && high <= 1 ? (one) => 100 * one : low >= -1 && high <= 1 ? (one) => 50 * (one + 1) : null;
    const bar = make("dd", { class: "reach", "aria-hidden": "true" });
    if (scale) bar.append(make("div", { class: "whisker" },
      make("i", { style: `left: ${scale(low)}%; width: ${scale(high) - scale(low)}%` }), make("b", { style: `left: ${scale(value)}%` })));
    list.append(make("dt", {}, labels[name]), make("dd", { class: "value" }, number(value)), bar,
      make("dd", { class: "span" }, phrase(words.interval, { low: number(low), high: number(high) })));
  }
  return box(words.scores, "scores wide", list, make("p", { class: "hint counts" }, phrase(!report.intervals ? "{counts}" : counts.length ? words.counts : words.resampled,
    { counts: counts.join(" · "), resamples: report.intervals ? report.bootstrap.resamples.toLocaleString() : "" })));
}

// classes

function classes(title, scored, means = []) {
  const names = ["precision", "recall", "f1", "support"], shown = (one) => [make("td", {}, labels[one.name] && means.includes(one) ? labels[one.name] : one.name),
    ...names.map((name) => make("td", {}, name === "support" ? one[name].toLocaleString() : number(one[name])))];
  const body = make("tbody"), sorting = { column: null, down: true };
  const fill = () => {
    const rows = [...scored];
    if (sorting.column) rows.sort((a, b) => (sorting.down ? -1 : 1) * (sorting.column === "name" ? -a.name.localeCompare(b.name) : a[sorting.column] - b[sorting.column]));
    body.replaceChildren(...rows.map((one) => make("tr", {}, ...shown(one))));
  };
  const head = ["name", ...names].map((name) => make("th", { scope: "col" }, make("button", { type: "button", onclick: (event) => {
    sorting.down = sorting.column === name ? !sorting.down : name === "name" || name === "support";
    sorting.column = name;
    for (const cell of event.target.closest("tr").children) cell.removeAttribute("aria-sort");
    event.target.parentElement.setAttribute("aria-sort", sorting.down ? "descending" : "ascending");
    fill();
  } }, name === "name" ? words.class : labels[name])));
  fill();
  return box(title, "classes", make("div", { class: "scroll", tabindex: "0" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), body,
    make("tfoot", {}, ...means.map((one) => make("tr", {}, ...shown(one)))))));
}

function confusion(list) {
  const names = report.classes, cells = new Map();
  const rows = names.map((label, row) => {
    const total = report.confusion[row].reduce((sum, count) => sum + count, 0);
    return make("tr", {}, make("th", { scope: "row", title: label }, label), ...names.map((prediction, column) => {
      const count = report.confusion[row][column], share = total ? count / total : 0, same = row === column;
      const colour = `rgba(var(${same ? "--accent" : "--negative"}), ${count ? (0.08 + 0.82 * share).toFixed(3) : 0})`;
      const said = phrase(words.cell, { label, prediction, rows: count.toLocaleString(), share: percent(share) });
      const attributes = { class: `${same ? "same" : ""} ${share > 0.55 ? "strong" : ""}`, style: `background: ${colour}`, title: said };
      if (same || !count) return make("td", {}, make("span", attributes, count ? count.toLocaleString() : ""));
      const button = make("button", { ...attributes, type: "button", "aria-label": said, "aria-pressed": "false", onclick: () => list.choose(label, prediction) }, count.toLocaleString());
      cells.set(JSON.stringify([label, prediction]), button);
      return make("td", {}, button);
    }));
  });
  list.onchange = (label, prediction) => {
    for (const [key, button] of cells) button.setAttribute("aria-pressed", String(key === JSON.stringify([label, prediction])));
  };
  const head = make("tr", {}, make("td"), ...names.map((name) => make("th", { scope: "col", title: name }, make("span", {}, name))));
  return box(words.confusion, names.length > MANY ? "wide" : "", make("p", { class: "hint" }, cells.size ? words.choose : words.axes),
    make("div", { class: `heat${names.length > MANY ? " many" : ""}`, tabindex: "0" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows))));
}

function confused() {
  const rows = report.confused.slice(0, 20).map((one) => make("tr", {}, make("td", {}, one.label), make("td", { class: "left" }, one.prediction),
    make("td", {}, one.rows.toLocaleString()), make("td", {}, percent(one.share))));
  const head = [words.truth, words.predicted, labels.rows, words.share].map((name, place) => make("th", { scope: "col", class: place === 1 ? "left" : "" }, name));
  return box(words.confused, "", make("div", { class: "scroll", tabindex: "0" }, make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows))));
}

// calibration

const SIDE = 260, LEFT = 60, TOP = 10, BELOW = 40; // of a chart

function chart(height, x, y, ...marks) {
  const width = LEFT + SIDE + 18;
  const parts = [];
  for (const [place, text] of y.ticks) parts.push(draw("line", { class: "axis", x1: LEFT, x2: LEFT + SIDE, y1: TOP + place, y2: TOP + place }),
    draw("text", { x: LEFT - 6, y: TOP + place + 4, "text-anchor": "end" }, text));
  for (const [place, text] of x.ticks) parts.push(draw("text", { x: LEFT + place, y: TOP + height + 16, "text-anchor": "middle" }, text));
  parts.push(draw("text", { x: LEFT + SIDE / 2, y: TOP + height + 34, "text-anchor": "middle" }, x.title));
  const turned = `translate(10 ${TOP + height / 2}) rotate(-90)`;
  parts.push(draw("text", { transform: turned, "text-anchor": "middle" }, y.title));
  return draw("svg", { viewBox: `0 0 ${width} ${TOP + height + BELOW}`, role: "img", "aria-label": `${y.title} / ${x.title}` }, ...parts,
    draw("g", { transform: `translate(${LEFT} ${TOP})` }, ...marks));
}

const shares = (size, flip) => [0, 0.25, 0.5, 0.75, 1].map((share) => [flip ? size * (1 - share) : size * share, percent(share).replace(".0", "")]);

function reliability({ bins }) {
  const filled = bins.filter((bin) => bin.rows), most = Math.max(...filled.map((bin) => bin.rows));
  const points = filled.map((bin) => ({ x: SIDE * bin.confidence, y: SIDE * (1 - bin.right / bin.rows), bin }));
  const told = (bin) => phrase(words.bin, { low: number(bin.low, 2), high: number(bin.high, 2), rows: bin.rows.toLocaleString(), accuracy: percent(bin.right / bin.rows) });
  return chart(SIDE, { ticks: shares(SIDE, false), title: words.confidence }, { ticks: shares(SIDE, true), title: words.accuracy },
    draw("line", { class: "diagonal", x1: 0, y1: SIDE, x2: SIDE, y2: 0 }),
    draw("polyline", { class: "curve", points: points.map(({ x, y }) => `${x},${y}`).join(" ") }),
    ...points.map(({ x, y, bin }) => draw("circle", { class: "dot", cx: x, cy: y, r: 3 + 5 * Math.sqrt(bin.rows / most) }, draw("title", {}, told(bin)))));
}

function histogram({ bins }) {
  const height = SIDE, most = Math.max(...bins.map((bin) => bin.rows)), width = SIDE / bins.length;
  const ticks = [0, 0.5, 1].map((share) => [height * (1 - share), Math.round(share * most).toLocaleString()]);
  const bars = bins.filter((bin) => bin.rows).flatMap((bin) => {
    const right = height * bin.right / most, wrong = height * (bin.rows - bin.right) / most, x = SIDE * bin.low + 1;
    const title = () => draw("title", {}, phrase(words.bin, { low: number(bin.low, 2), high: number(bin.high, 2), rows: bin.rows.toLocaleString(), accuracy: percent(bin.right / bin.rows) }));
    return [draw("rect", { class: "bar-right", x, y: height - right, width: width - 2, height: right }, title()),
      draw("rect", { class: "bar-wrong", x, y: height - right - wrong, width: width - 2, height: wrong }, title())];
  });
  return chart(height, { ticks: shares(SIDE, false), title: words.confidence }, { ticks, title: labels.rows }, ...bars);
}

function key(name, colour) {
  return make("span", { class: "key" }, make("i", { style: `background: var(${colour})` }), name);
}

function calibration() {
  const { scaled, unscaled, temperature, bins } = report.calibration, figures = make("div", { class: "charts" }), ece = make("p", { class: "hint" });
  const versions = unscaled ? [[phrase(words.scaled, { temperature }), scaled], [words.unscaled, unscaled]] : [["", scaled]];
  const choices = make("div", { class: "choices", role: "group", "aria-label": words.calibration });
  const show = (place) => {
    const [, one] = versions[place];
    ece.textContent = phrase(words.ece, { ece: number(one.ece, 4), bins });
    figures.replaceChildren(make("figure", {}, make("figcaption", {}, words.reliability), reliability(one)),
      make("figure", {}, make("figcaption", {}, `${words.histogram} `, key(words.right, "--right"), key(words.wrong, "--wrong")), histogram(one)));
    [...choices.children].forEach((button, number) => button.setAttribute("aria-pressed", String(number === place)));
  };
  if (versions.length > 1) choices.append(...versions.map(([name, one], place) =>
    make("button", { type: "button", onclick: () => show(place) }, `${name}: ${number(one.ece, 4)}`)));
  show(0);
  return box(report.per_intent ? words.of_intent : words.calibration, "wide", choices, ece, figures);
}

function agreement() {
  const found = report.agreement, every = found.flatMap((one) => [one.prediction, one.label]);
  const low = Math.min(...every), high = Math.max(...every), size = (value) => SIDE * (value - low) / (high - low || 1);
  const ticks = (flip) => [0, 0.5, 1].map((share) => [SIDE * (flip ? 1 - share : share), Number((low + share * (high - low)).toPrecision(3)).toString()]);
  const points = found.map((one) => ({ x: size(one.prediction), y: SIDE - size(one.label), one }));
  const picture = chart(SIDE, { ticks: ticks(false), title: words.prediction }, { ticks: ticks(true), title: words.label },
    draw("line", { class: "diagonal", x1: 0, y1: SIDE, x2: SIDE, y2: 0 }),
    draw("polyline", { class: "curve", points: points.map(({ x, y }) => `${x},${y}`).join(" ") }),
    ...points.map(({ x, y, one }) => draw("circle", { class: "dot", cx: x, cy: y, r: 5 },
      draw("title", {}, phrase(words.tenth, { prediction: number(one.prediction), label: number(one.label), rows: one.rows })))));
  return box(words.agreement, "wide", make("div", { class: "charts" }, make("figure", {}, picture)));
}

// mistakes

class Mistakes {
  constructor() {
    const { hardest, count, measure } = report.mistakes;
    this.every = hardest;
    this.shown = PAGE;
    this.onchange = () => {};
    this.search = make("input", { type: "search", placeholder: words.search, "aria-label": words.search, oninput: () => this.reset() });
    this.label = this.select("label", words.any_label);
    this.prediction = this.select("prediction", words.any_prediction);
    this.clear = make("button", { type: "button", onclick: () => this.choose("", "") }, words.clear);
    this.list = make("ol");
    this.counted = make("span", { class: "hint", "aria-live": "polite" });
    this.more = make("button", { type: "button", onclick: () => { this.shown += PAGE; this.draw(); } }, words.more);
    const rest = count > hardest.length && measure !== "error" ? phrase(words.kept, { kept: hardest.length.toLocaleString(), all: count.toLocaleString() }) : "";
    this.root = box(measure === "error" ? words.errors : words.mistakes, "wide mistakes", make("p", { class: "hint" }, rest),
      make("div", { class: "filters" }, this.search, ...[this.label, this.prediction].filter(Boolean), this.clear), this.list,
      make("div", { class: "foot" }, this.more, this.counted));
    this.draw();
  }

  select(field, any) { // only where answers repeat
    const values = [...new Set(this.every.map((one) => one[field]))].sort();
    if (values.length > 200 || values.length > this.every.length / 2 + 1) return null;
    return make("select", { "aria-label": any, onchange: () => this.reset() }, make("option", { value: "" }, any),
      ...values.filter(Boolean).map((value) => make("option", { value }, value)));
  }

  choose(label, prediction) {
    const again = this.label?.value === label && this.prediction?.value === prediction;
    if (this.label) this.label.value = again ? "" : label;
    if (this.prediction) this.prediction.value = again ? "" : prediction;
    this.search.value = "";
    this.reset();
    if (label && !again) this.root.scrollIntoView({ behavior: "smooth" });
  }

  reset() {
    this.shown = PAGE;
    this.draw();
    this.onchange(this.label?.value, this.prediction?.value);
  }

  draw() {
    const wanted = this.search.value.trim().toLowerCase();
    const fits = (select, value) => !select?.value || select.value === value;
    const found = this.every.filter((one) => fits(this.label, one.label) && fits(this.prediction, one.prediction)
      && (!wanted || [one.text, one.other, one.label, one.prediction].some((text) => text?.toLowerCase().includes(wanted))));
    this.list.replaceChildren(...found.slice(0, this.shown).map((one) => this.item(one)));
    this.counted.textContent = phrase(words.counted, { shown: Math.min(this.shown, found.length).toLocaleString(), all: found.length.toLocaleString() });
    this.more.hidden = found.length <= this.shown;
    this.clear.disabled = !this.search.value && !this.label?.value && !this.prediction?.value;
  }

  item(one) {
    const fact = (name, text, kind = "") => make("span", { class: kind }, `${name} `, make("b", {}, text || words.nothing));
    const facts = [make("span", {}, place(one)), fact(words.said, one.prediction, "bad"), fact(words.expected, one.label)];
    if (one.size !== null) facts.push(make("span", {}, `${labels[report.mistakes.measure]} ${Number.isInteger(one.size) ? one.size : number(one.size)}`));
    return make("li", {}, make("div", { class: "facts" }, ...facts), text(one.text), ...(one.other ? [text(one.other, "other")] : []));
  }
}

function place(one) { // a line may have several rows
  if (!one.number) return phrase(words.line, { line: one.line.toLocaleString() });
  return one.id ? phrase(words.id, { id: one.id }) : phrase(words.row, { row: one.number.toLocaleString() });
}

function text(content, kind = "") {
  if (content.length <= LONG) return make("p", { class: kind }, content);
  return make("details", {}, make("summary", {}, `${content.slice(0, LONG / 2)}…`), make("p", { class: kind }, content));
}

function open() {
  document.getElementById("keys").hidden = true;
  followTheme();
  const list = report.mistakes?.hardest.length ? new Mistakes() : null;
  const drawn = report.confusion && report.classes.length <= MOST;
  document.querySelector("main").append(make("div", { class: "report" }, scores(),
    ...(report.per_class ? [classes(report.per_intent ? words.slots : words.classes, report.per_class, report.means)] : []),
    ...(report.per_intent ? [classes(words.intents, report.per_intent, report.intent_means)] : []),
    ...(report.confused && !(report.confusion && report.classes.length <= MANY) ? [confused()] : []),
    ...(drawn ? [confusion(list ?? { choose() {} })] : []),
    ...(report.calibration ? [calibration()] : []),
    ...(report.agreement ? [agreement()] : []),
    list ? list.root : box(words.mistakes, "wide", make("p", {}, words.none))));
  document.body.dataset.ready = "true";
}

open();
