// The editor's queries, maps that are too large for SVG, and keys. Everything that a server says is shown as text.
"use strict";
const HEADERS = {"x-lance-flight-console": "1", "content-type": "application/json"};
const MOST_ROWS = 10 ** 15;
const at = (id) => document.getElementById(id);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

async function answered(path, options) {
  let answer;
  try { answer = await fetch(path, {headers: HEADERS, ...options}); } catch { throw new Error("The console does not answer: does it still run?"); }
  if (answer.redirected) throw new Error("The console asks who you are: load the page again.");
  if (!answer.ok) throw new Error((await answer.json().catch(() => ({}))).error || `The console answered ${answer.status}.`);
  return answer;
}

const ask = async (path, options) => (await answered(path, options)).json();
const post = (body) => ({method: "POST", body: JSON.stringify(body)});

// An address with other parameters; null takes one away.
function addressWith(changes) {
  const found = new URLSearchParams(location.search);
  Object.entries(changes).forEach(([name, value]) => (value === null ? found.delete(name) : found.set(name, value)));
  return `${location.pathname}${found.size ? `?${found}` : ""}${location.hash}`;
}

const rowsOf = (count) => `${count.toLocaleString("en")} row${count === 1 ? "" : "s"}`;

// The result of a query: its rows in a grid, a chart of them, and what copies or downloads them.
function resultPane() {
  const view = createViewer(at("viewer")), kinds = ["chart", "x", "y"];
  let id = null;
  const whole = (row, column) => ask(`/query/${id}/value?row=${row}&column=${column}`);
  const isCut = () => said && (said.cut || said.count >= (at("sql")?.dataset.most || Infinity));
  const grid = createGrid(at("result"), {opens: (cell) => view(cell, whole), changed: () => { tell(); draw(); }, marks: at("sql")?.dataset.marks, orders: tableOrder(() => isCut())});
  const failed = (text) => { at("error").textContent = text; at("error").hidden = !text; };
  let said = null;

  function tell() {
    if (!said) return;
    const shown = grid.rows().length, seconds = `${said.seconds.toFixed(said.done ? 3 : 1)} s`;
    const notes = (said.before || []).map((each) => `${each.rows === null ? `${each.affected.toLocaleString("en")} rows affected` : rowsOf(each.rows)}; `).join("");
    const some = shown < said.count ? `${shown.toLocaleString("en")} of ` : "";
    if (said.error) at("state").textContent = `ended after ${seconds}, with ${rowsOf(said.count)}`;
    else if (said.columns?.length) at("state").textContent = `${said.done ? "" : "running, "}${notes}${some}${rowsOf(said.count)}, ${seconds}${said.cut ? "; there are more" : isCut() ? "; there may be more" : ""}`;
    else at("state").textContent = !said.done ? `running, ${seconds}` : notes + (said.affected >= 0 ? `${said.affected.toLocaleString("en")} rows affected` : "done");
  }

  function offerCharts(columns) {
    const given = new URLSearchParams(location.search), numbers = columns.filter(isNumber), [first] = columns;
    const usual = {x: first.name, y: (numbers.find((column) => column !== first) || first).name};
    ["x", "y"].forEach((axis) => {
      const chosen = columns.some((column) => column.name === given.get(axis)) ? given.get(axis) : usual[axis];
      at(`chart-${axis}`).replaceChildren(...columns.map((column, place) => { const option = element("option", column.name); option.value = place; option.selected = column.name === chosen; return option; }));
    });
    at("chart").value = given.get("chart") || "";
    if (at("chart").selectedIndex < 0) at("chart").value = "";
  }

  function draw() {
    const kind = at("chart").value, figure = at("drawn"), columns = grid.columns();
    figure.hidden = !kind;
    document.querySelectorAll(".axis-of").forEach((label) => { label.hidden = !kind || (kind === "histogram" && label.dataset.axis === "x"); });
    if (!kind || !columns.length || !said?.done) { figure.replaceChildren(); return; }
    const [svg, note] = drawChart(kind, columns, grid.rows(), ["x", "y"].map((axis) => Number(at(`chart-${axis}`).value)));
    figure.replaceChildren(svg, element("figcaption", `${note}${isCut() ? ` Only the first ${rowsOf(said.count)} are here.` : ""}`));
  }

  function choose() {
    const kind = at("chart").value, columns = grid.columns(), name = (axis) => columns[at(`chart-${axis}`).value].name;
    // The address of the page is the chart's too.
    history.replaceState(null, "", addressWith(kind ? {chart: kind, x: kind === "histogram" ? null : name("x"), y: name("y")} : {chart: null, x: null, y: null}));
    draw();
  }

  kinds.forEach((kind) => at(kind === "chart" ? kind : `chart-${kind}`).addEventListener("change", choose));
  at("filter").addEventListener("input", () => grid.filter(at("filter").value));
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(COPIES[button.dataset.copy](grid.columns(), grid.rows()));
    at("state").textContent = `copied ${rowsOf(grid.rows().length)}`;
  }));

  return {
    failed,
    clear: () => {
      said = null;
      grid.clear();
      failed("");
      ["downloads", "tools"].forEach((name) => at(name).classList.add("away"));
      at("drawn").hidden = true;
      at("filter").value = "";
      at("state").textContent = "running";
    },
    cancel: () => ask(`/query/${id}/cancel`, post({})),
    // Runs an EXPLAIN, with `each` on its way, and returns the address of what it has explained; null where it failed.
    // It goes on where `each` fails: only what it does is not seen then.
    explain: async (asked, begun, each) => {
      let known;
      id = (await ask("/query", post(asked))).id;
      begun();
      do {
        known = await ask(`/query/${id}?after=${MOST_ROWS}`);
        at("state").textContent = `${known.done ? "ended after" : "running,"} ${known.seconds.toFixed(1)} s`;
        if (!known.done) await each(`/query/${id}/operators`);
      } while (!known.done);
      if (known.error) failed(known.error);
      return known.error ? null : `/query/${id}/plan`;
    },
    run: async (asked, begun) => {
      let count = 0;
      id = (await ask("/query", post(asked))).id;
      if (begun) begun();
      do {
        said = await ask(`/query/${id}?after=${count}`);
        if (said.columns?.length && !grid.columns().length) { grid.start(said.columns); offerCharts(said.columns); }
        count += said.rows.length;
        if (said.rows.length) grid.append(said.rows);
        tell();
      } while (!said.done);
      if (said.error) failed(said.error);
      if (!said.columns?.length || said.error) return;
      at("downloads").querySelectorAll("a").forEach((link) => { link.href = `/query/${id}.${link.dataset.format}`; });
      ["downloads", "tools"].forEach((name) => at(name).classList.remove("away"));
      draw();
    },
  };
}

// Rows of a table of which not all are here are ordered by the server, over all of them: what this returns goes there.
function tableOrder(isCut) {
  const form = document.querySelector(".lights [name=sort]")?.form;
  if (!form) return undefined;
  const go = (name) => isCut() && (location.assign(addressWith({sort: name, down: go.now.name === name && !go.now.isDown ? "1" : null})), true);
  go.now = {name: form.elements.sort.value, isDown: form.elements.down.checked};
  return go;
}

// The list of tables: those whose names have a text, in the order of a column. Unknown sizes come last.
function tablesPage() {
  const body = at("tables").tBodies[0];
  let sorted = null;
  const key = (row, place) => (place ? row.cells[place]?.dataset.sort || "" : row.dataset.name);
  function arrange() {
    const wanted = at("named").value.trim().toLowerCase();
    [...body.rows].forEach((row) => { row.hidden = !row.dataset.name.toLowerCase().includes(wanted); });
    if (!sorted) return;
    const {place, sign} = sorted, keys = new Map([...body.rows].map((row) => [row, key(row, place)]));
    const rows = [...body.rows].sort((a, b) => (!keys.get(a) || !keys.get(b) ? !keys.get(a) - !keys.get(b) : sign * (place ? keys.get(a) - keys.get(b) : keys.get(a).localeCompare(keys.get(b)))));
    if (rows.some((row, step) => row !== body.rows[step])) body.append(...rows);
  }
  at("tables").tHead.addEventListener("click", ({target}) => {
    const cell = target.closest("th");
    if (!target.closest("button")) return;
    sorted = {place: cell.cellIndex, sign: sorted?.place === cell.cellIndex ? -sorted.sign : cell.cellIndex ? -1 : 1};
    cell.parentElement.querySelectorAll("th").forEach((each) => each.removeAttribute("aria-sort"));
    cell.setAttribute("aria-sort", sorted.sign > 0 ? "ascending" : "descending");
    arrange();
  });
  at("named").addEventListener("input", arrange);
  document.body.addEventListener("htmx:afterSettle", arrange);
}

// Rows of a table: the query that the page shows is run, and only reads.
async function rowsPage() {
  const pane = resultPane();
  pane.clear();
  try { await pane.run({sql: at("sql").textContent, writes: false}); } catch (problem) { pane.failed(problem.message); at("state").textContent = ""; }
}

function queryPage() {
  let isBusy = false;
  const pane = resultPane(), names = JSON.parse(at("names").textContent);
  const decoded = () => { try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; } };
  const editor = window.createEditor({
    parent: at("editor"), text: decoded(), names,
    nonce: document.body.dataset.nonce, run: () => run(true), plan: () => plan("plan"),
  });
  editor.focus();
  ask("/functions").then(editor.know, () => {});

  async function during(view, work) {
    const sql = editor.text().trim().replace(/;$/, ""), chosen = editor.chosen().trim();
    if (!sql || isBusy) return;
    isBusy = at("run").disabled = at("plan").disabled = at("measure").disabled = true;
    history.replaceState(null, "", `${addressWith({view}).replace(/#.*/, "")}#${encodeURIComponent(sql)}`);
    at("planned").replaceChildren();
    pane.clear();
    try {
      const statements = statementsOf(chosen || sql);
      if (!statements.length) throw new Error("There is no statement: only comments.");
      await work(statements, parameters(statements.at(-1)));
    } catch (problem) {
      pane.failed(problem.message);
      at("state").textContent = "";
    }
    isBusy = at("run").disabled = at("plan").disabled = at("measure").disabled = false;
    at("cancel").disabled = true;
  }

  // The fields of the parameters that a statement has; their values are in the address too.
  function parameters(sql) {
    const wanted = parametersOf(sql), box = at("parameters"), given = new URLSearchParams(location.search);
    const value = (name) => document.getElementsByName(`p.${name}`)[0]?.value ?? given.get(`p.${name}`) ?? "";
    const values = Object.fromEntries(wanted.map((name) => [name, value(name)]));
    box.replaceChildren(...wanted.map((name) => {
      const label = element("label", `$${name} `), input = element("input");
      input.name = `p.${name}`;
      input.value = values[name];
      label.append(input);
      return label;
    }));
    const gone = Object.fromEntries([...given.keys()].filter((name) => name.startsWith("p.")).map((name) => [name, null]));
    history.replaceState(null, "", addressWith({...gone, ...Object.fromEntries(wanted.map((name) => [`p.${name}`, values[name]]))}));
    return wanted.length ? values : undefined;
  }

  const mayCancel = () => { at("cancel").disabled = false; };

  // What only an address says may read, but not change anything: `writes` is said by who asks for it here.
  const run = (writes) => during(null, (statements, values) =>
    pane.run({sql: statements.at(-1), before: statements.slice(0, -1), parameters: values, writes}, mayCancel));

  const plan = (view) => during(view, async (statements, values) => {
    const draw = async (path) => { const text = await (await answered(path)).text(); if (text.trim()) at("planned").innerHTML = text; };
    const found = await pane.explain({sql: statements.at(-1), before: statements.slice(0, -1), parameters: values, view}, mayCancel, (path) => (view === "measure" ? draw(path).catch(() => {}) : undefined));
    if (!found) return;
    await draw(found);
    at("state").textContent = view === "measure" ? "run and measured" : "planned, not run";
    showMaps();
  });

  const show = (sql) => { editor.replace(sql); editor.focus(); };
  const chooses = (text, action) => { const made = element("button", text, "choice"); made.addEventListener("click", action); return made; };

  function listSaved() {
    const rows = savedQueries().map(([name, sql]) => {
      const row = element("li"), forget = chooses("×", () => { keepQueries(savedQueries().filter(([other]) => other !== name)); listSaved(); });
      forget.setAttribute("aria-label", `forget ${name}`);
      row.append(chooses(name, () => show(sql)), forget);
      return row;
    });
    at("saved").replaceChildren(...(rows.length ? rows : [element("li", "None: write a name, and Save.", "empty")]));
  }

  function listTables() {
    at("schema").replaceChildren(...Object.entries(names).map(([table, columns]) => {
      const box = element("details"), list = element("ul");
      const quoted = (name) => (/^[a-z_][a-z0-9_]*$/.test(name) ? name : `"${name.replaceAll('"', '""')}"`);
      box.append(element("summary", table), list);
      box.addEventListener("toggle", () => {
        if (list.children.length) return;
        list.append(...[element("li"), ...columns.map(() => element("li"))]);
        list.firstChild.append(chooses("first 100 rows", () => { show(`SELECT * FROM ${table.split(".").map(quoted).join(".")} LIMIT 100`); run(false); }));
        columns.forEach((column, place) => list.children[place + 1].append(chooses(column, () => editor.insert(quoted(column)))));
      });
      return box;
    }));
  }

  at("history").addEventListener("toggle", async () => {
    if (!at("history").open) return;
    try {
      const found = await ask("/query/history");
      at("past").replaceChildren(...(found.length ? found.map(({sql, outcome, began}) => { const row = element("li"), made = chooses(sql.slice(0, 300), () => show(sql)); made.append(" ", element("small", `${began} ${outcome}`)); row.append(made); return row; }) : [element("li", "Nothing has been run yet.", "empty")]));
    } catch (problem) { at("past").replaceChildren(element("li", problem.message, "problem")); }
  });
  at("save").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = at("save-name").value.trim();
    if (!name || !editor.text().trim()) return;
    keepQueries([...savedQueries().filter(([other]) => other !== name), [name, editor.text()]]);
    at("save-name").value = "";
    listSaved();
  });
  listSaved();
  listTables();

  const fromAddress = () => { const view = new URLSearchParams(location.search).get("view"); return ["plan", "measure"].includes(view) ? plan(view) : run(false); };
  at("run").addEventListener("click", () => run(true));
  ["plan", "measure"].forEach((view) => at(view).addEventListener("click", () => plan(view)));
  at("format").addEventListener("click", () => show(formatted(editor.text())));
  at("cancel").addEventListener("click", () => pane.cancel().catch((problem) => pane.failed(problem.message)));
  addEventListener("hashchange", () => { if (decoded() !== editor.text()) { editor.replace(decoded()); fromAddress(); } });
  if (editor.text()) fromAddress();
}

// Maps: the cell that is pointed at, or gone to by keys, is told below them.

const units = ["B", "KiB", "MiB", "GiB", "TiB"];
function bytes(size) {
  let step = 0;
  while (size >= 1024 && step < 4) { size /= 1024; step += 1; }
  return `${step ? size.toFixed(1) : size} ${units[step]}`;
}

// The cells of a picture: their words are its titles.
function pictured(box) {
  const cells = new Map([...box.querySelectorAll("rect[data-at]")].map((rect) => [rect.dataset.at, rect]));
  return {
    has: (key) => cells.has(key),
    first: () => cells.keys().next().value,
    words: (key) => cells.get(key).textContent,
    under: (event) => event.target.dataset.at,
    show: (key) => {
      box.querySelectorAll("rect.here").forEach((rect) => rect.classList.remove("here"));
      if (key) { cells.get(key).classList.add("here"); cells.get(key).scrollIntoView({block: "nearest", inline: "nearest"}); }
    },
    keys: [...cells.keys()],
  };
}

// The cells of a canvas, which is as large as what is seen of the map, and drawn anew as that is scrolled.
function drawn(box) {
  const {layout, rows, columns, cells, fields, isLit} = JSON.parse(at(box.dataset.map).textContent);
  const canvas = box.querySelector("canvas"), [width, height] = layout.cell, found = new Map(), lines = [];
  cells.forEach((cell) => { found.set(`${cell[0]},${cell[1]}`, cell); (lines[cell[0]] ||= []).push(cell); });
  const space = element("div", "", "space");
  space.style.width = `${layout.width}px`;
  space.style.height = `${layout.height}px`;
  canvas.replaceWith(space);
  space.append(canvas);
  let here = null, isWaiting = false;

  function draw() {
    isWaiting = false;
    const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const scale = devicePixelRatio || 1, ink = canvas.getContext("2d"), {clientWidth: wide, clientHeight: high, scrollLeft: left, scrollTop: top} = box;
    canvas.width = wide * scale;
    canvas.height = high * scale;
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${high}px`;
    ink.scale(scale, scale);
    const firstRow = Math.max(0, Math.floor(top / height)), lastRow = Math.min(rows.length, Math.ceil((top + high) / height));
    const fills = ["off", 1, 2, 3, 4, 5, 6, 7, 8].map((step) => colour(step === "off" ? "off" : `c${step}`)), line = colour("ink");
    for (let row = firstRow; row < lastRow; row += 1) {
      const y = layout.top + row * height - top;
      (lines[row] || []).forEach(([, column, step, , read]) => {
        const x = layout.left + column * width - left;
        if (x < layout.left - width || x > wide) return;
        ink.fillStyle = fills[read ? step : 0];
        ink.fillRect(x, y, width - 1, height - 2);
        if (here === `${row},${column}`) { ink.strokeStyle = line; ink.lineWidth = 2; ink.strokeRect(x, y, width - 1, height - 2); }
      });
    }
    ink.fillStyle = colour("paper");
    ink.fillRect(0, 0, layout.left - 2, high);
    ink.fillRect(0, 0, wide, layout.top - 2);
    ink.fillStyle = colour("soft");
    ink.font = "12px system-ui, sans-serif";
    columns.forEach((label, column) => {
      const x = layout.left + (column + 0.5) * width - left;
      if (column % layout.every || x < layout.left || x > wide) return;
      ink.save();
      ink.translate(x, layout.top - 6);
      if (layout.turned) ink.rotate(-Math.PI / 4); else ink.textAlign = "center";
      ink.fillText(label, 0, 0);
      ink.restore();
    });
    ink.textAlign = "left";
    ink.fillStyle = colour("ink");
    ink.font = "600 12px system-ui, sans-serif";
    ink.fillText(fields[0], 0, layout.top - 8);
    ink.font = "12px system-ui, sans-serif";
    ink.fillStyle = colour("soft");
    ink.textAlign = "right";
    for (let row = firstRow; row < lastRow; row += 1) {
      const y = layout.top + row * height - top + 14;
      if (y > layout.top) ink.fillText(rows[row], layout.left - 8, y);
    }
  }

  const soon = () => { if (!isWaiting) { isWaiting = true; requestAnimationFrame(draw); } };
  box.addEventListener("scroll", soon);
  addEventListener("resize", soon);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", soon);
  draw();
  return {
    has: (key) => found.has(key),
    first: () => found.keys().next().value,
    words: (key) => {
      const [row, column, , partitions, read, count, size, files] = found.get(key), n = (value) => value.toLocaleString("en");
      const named = [fields[0] && `${fields[0]} = ${rows[row]}`, fields[1] && `${fields[1]} = ${columns[column]}`].filter(Boolean).join(", ");
      const lit = !isLit ? "" : partitions > 1 ? `; ${read} of ${partitions} read` : read ? "; read" : "; not read";
      return `${named}: ${partitions > 1 ? `${partitions} partitions, ` : ""}${n(count)} rows, ${bytes(size)}, ${n(files)} file${files === 1 ? "" : "s"}${lit}`;
    },
    under: (event) => {
      const seen = box.getBoundingClientRect(), x = event.clientX - seen.left, y = event.clientY - seen.top;
      if (x < layout.left || y < layout.top) return undefined;
      return `${Math.floor((y + box.scrollTop - layout.top) / height)},${Math.floor((x + box.scrollLeft - layout.left) / width)}`;
    },
    show: (key) => {
      here = key;
      if (key) {
        const [row, column] = key.split(",").map(Number), x = layout.left + column * width, y = layout.top + row * height;
        box.scrollLeft = Math.min(Math.max(box.scrollLeft, x + width - box.clientWidth), x - layout.left);
        box.scrollTop = Math.min(Math.max(box.scrollTop, y + height - box.clientHeight), y - layout.top);
      }
      soon();
    },
    keys: [...found.keys()],
  };
}

const STEPS = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]};

function showMap(box) {
  box.dataset.isShown = "yes";
  const map = box.dataset.map ? drawn(box) : pictured(box), told = at(box.getAttribute("aria-describedby"));
  const places = map.keys.map((key) => key.split(",").map(Number));
  const last = [0, 1].map((axis) => places.reduce((most, place) => Math.max(most, place[axis]), 0));
  let here = null;
  function go(key, isPointed) {
    if (!key || !map.has(key)) return;
    here = key;
    told.textContent = map.words(key);
    told.classList.add("told");
    if (!isPointed) map.show(key);
  }
  box.addEventListener("pointermove", (event) => go(map.under(event), true));
  const open = () => { if (here && box.dataset.opens) { const [row, column] = here.split(","); location.assign(`${box.dataset.opens}&row=${row}&column=${column}`); } };
  box.addEventListener("click", (event) => { const key = map.under(event); if (key && map.has(key)) { go(key); open(); } });
  box.addEventListener("focus", () => { if (!here) go(map.first()); });
  box.addEventListener("blur", () => map.show(null));
  box.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (event.key === "Enter") open();
    if (!step) return;
    event.preventDefault();
    let [row, column] = (here || map.first()).split(",").map(Number);
    // Over places without partitions, to the next one with some.
    do { row += step[0]; column += step[1]; } while (row >= 0 && column >= 0 && row <= last[0] && column <= last[1] && !map.has(`${row},${column}`));
    go(`${row},${column}`);
  });
}

const showMaps = () => document.querySelectorAll(".cells:not([data-is-shown])").forEach(showMap);

// What was written before the scripts had come has had no listeners.
function lightTheWritten() {
  const isWritten = (field) => (field.matches("select") ? ![...field.selectedOptions].every((option) => option.defaultSelected) : field.value !== field.defaultValue);
  if (at("lights") && [...at("lights").querySelectorAll("input, select")].some(isWritten)) htmx.trigger("#lights", "submit");
}

addEventListener("DOMContentLoaded", () => {
  if (at("editor")) queryPage();
  if (at("sql")) rowsPage();
  if (at("tables")) tablesPage();
  showMaps();
  lightTheWritten();
  const trouble = (text) => { at("trouble").textContent = text; at("trouble").hidden = !text; };
  const answers = document.body;
  answers.addEventListener("htmx:afterSwap", showMaps);
  // A button that is replaced while it is held down loses its click. The list waits for its next renewal.
  answers.addEventListener("htmx:beforeSwap", ({detail}) => {
    if (detail.requestConfig.verb === "get" && detail.target.querySelector("button:active")) detail.shouldSwap = false;
  });
  answers.addEventListener("htmx:responseError", ({detail: {xhr}}) => trouble(/^text\/plain/.test(xhr.getResponseHeader("content-type")) ? xhr.responseText : `The console answered ${xhr.status}.`));
  answers.addEventListener("htmx:sendError", () => trouble("The console does not answer: does it still run? What is shown here may be old."));
  answers.addEventListener("htmx:afterOnLoad", ({detail: {xhr}}) => { if (xhr.status < 400) trouble(""); });
  answers.addEventListener("click", async ({target}) => {
    if (!target.dataset.copies) return;
    await navigator.clipboard.writeText(at(target.dataset.copies).textContent);
    target.textContent = "Copied";
  });
  // A change waits for a yes: it is asked for by a dialog of the page.
  answers.addEventListener("htmx:confirm", (event) => {
    if (!event.detail.question) return;
    event.preventDefault();
    const dialog = at("confirm"), goOn = event.detail.issueRequest;
    at("confirmed").textContent = event.detail.question;
    dialog.returnValue = "no";
    dialog.onclose = () => { if (dialog.returnValue === "yes") goOn(true); };
    dialog.showModal();
  });
  document.querySelectorAll("#confirm button, #keys button").forEach((button) => button.addEventListener("click", () => button.closest("dialog").close(button.value)));
  const pages = {t: "/", q: "/query", a: "/activity", o: "/operations"};
  let isGoing = false;
  addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, [contenteditable], dialog[open]") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?") at("keys").showModal();
    if (isGoing && pages[event.key]) location.assign(pages[event.key]);
    isGoing = event.key === "g";
  });
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea, [contenteditable]");
    const box = at("where") || at("named");
    if (event.key === "/" && !isTyping && box) { event.preventDefault(); box.focus(); }
    if (event.key === "Escape" && event.target === at("where")) event.target.blur();
  });
});
