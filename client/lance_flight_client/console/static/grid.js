// Rows of a result: a grid that holds the rows in view alone, a viewer for one value, and texts to copy. All values are set as text.
"use strict";
const ROW_HEIGHT = 28, MOST_CELLS = 1_400, WIDEST = 44, IN_A_CELL = 300;
const isNumber = (column) => /^((TINYINT|SMALLINT|INTEGER|BIGINT)( UNSIGNED)?|FLOAT16|REAL|DOUBLE|DECIMAL\(\d+, -?\d+\))$/.test(column.type);
const isMoment = (column) => /^(TIMESTAMP(TZ)?\(\d\)|DATE)$/.test(column.type);
const compareTexts = new Intl.Collator("en", {numeric: true}).compare;

// The number of a text: of a moment, milliseconds since 1970. NaN without one.
function numberOf(column, text) {
  if (text === null) return NaN;
  if (!isMoment(column)) return text === "inf" ? Infinity : text === "-inf" ? -Infinity : Number(text);
  const known = text.replace(" ", "T");
  return Date.parse(/T/.test(known) && !/([+-]\d\d:\d\d|Z)$/.test(known) ? `${known}Z` : known);
}

function createGrid(table, {opens, changed, marks, orders}) {
  const box = table.parentElement;
  let columns = [], rows = [], order = [], sorted = null, wanted = "", here = null, body = null, from = -1, to = -1, isWaiting = false;

  const isFound = (place) => !wanted || rows[place].some((text) => text !== null && text.toLowerCase().includes(wanted));

  function arrange() {
    order = [];
    for (let place = 0; place < rows.length; place += 1) if (isFound(place)) order.push(place);
    if (sorted) {
      const {at: column, down} = sorted, asNumber = isNumber(columns[column]), sign = down ? -1 : 1;
      const keys = rows.map((row) => (asNumber && row[column] !== null ? Number(row[column]) : row[column]));
      // NULL comes last, whichever way.
      order.sort((a, b) => (keys[a] === null || keys[b] === null ? (keys[a] === null) - (keys[b] === null) : sign * (asNumber && keys[a] !== keys[b] ? keys[a] - keys[b] : compareTexts(rows[a][column], rows[b][column]))) || a - b);
    }
    here = null;
    box.scrollTop = 0;
    from = -1;
    draw();
    changed();
  }

  function head() {
    const line = element("tr"), number = element("th", "#", "n at");
    number.scope = "col";
    line.append(number);
    columns.forEach((column, place) => {
      const cell = element("th", undefined, isNumber(column) ? "n" : ""), button = element("button", column.name, "sorts");
      cell.scope = "col";
      button.append(element("small", column.type));
      button.addEventListener("click", () => orders?.(column.name) || sort(place));
      if (orders?.now?.name === column.name) cell.setAttribute("aria-sort", orders.now.isDown ? "descending" : "ascending");
      cell.append(button);
      line.append(cell);
    });
    const top = element("thead");
    top.append(line);
    body = element("tbody");
    table.replaceChildren(top, body);
  }

  function sort(place) {
    sorted = !sorted || sorted.at !== place ? {at: place, down: false} : sorted.down ? null : {at: place, down: true};
    table.querySelectorAll("th").forEach((cell, at) => {
      if (sorted && at === place + 1) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending"); else cell.removeAttribute("aria-sort");
    });
    arrange();
  }

  // Widths come from the first rows' texts, so that nothing is measured, and nothing moves later.
  function keepWidths() {
    const widths = columns.map((column, place) => rows.slice(0, 100).reduce(
      (most, row) => Math.max(most, Math.min(WIDEST, (row[place] ?? "NULL").length)), Math.min(WIDEST, Math.max(column.name.length + 2, column.type.length))) + 3);
    table.querySelectorAll("th").forEach((cell, place) => { cell.style.width = `${place ? widths[place - 1] : 7}ch`; });
    table.style.width = `${widths.reduce((sum, width) => sum + width, 7)}ch`;
    const ordered = orders && table.querySelector("th[aria-sort]");
    if (ordered) box.scrollLeft = ordered.offsetLeft + ordered.offsetWidth - box.clientWidth;
  }

  function draw() {
    isWaiting = false;
    if (!body) return;
    const seen = Math.ceil((box.clientHeight || 400) / ROW_HEIGHT) + 1, top = Math.floor(box.scrollTop / ROW_HEIGHT);
    const spare = Math.max(2, Math.floor((MOST_CELLS / (columns.length + 1) - seen) / 2));
    if (from >= 0 && top >= from && Math.min(top + seen, order.length) <= to && to <= order.length) return;
    from = Math.max(0, top - Math.min(spare, 20));
    to = Math.min(order.length, top + seen + Math.min(spare, 20));
    body.replaceChildren(...order.slice(from, to).map((place, step) => shownRow(place, from + step)));
    table.style.marginTop = `${from * ROW_HEIGHT}px`;
    table.style.marginBottom = `${(order.length - to) * ROW_HEIGHT}px`;
    table.setAttribute("aria-rowcount", order.length + 1);
  }

  function shownRow(place, step) {
    const line = element("tr");
    line.setAttribute("aria-rowindex", step + 2);
    line.append(element("td", (place + 1).toLocaleString("en"), "n at"));
    rows[place].forEach((value, column) => {
      const isHere = here && here[0] === step && here[1] === column, kind = `${isNumber(columns[column]) ? "n" : ""}${value === null ? " null" : ""}`.trim();
      const cell = element("td", undefined, isHere ? `${kind} here`.trim() : kind), text = value === null ? "NULL" : value.slice(0, IN_A_CELL).replace(/\s*\n\s*/g, " ⏎ ");
      // What a search has found stands between marks.
      if (columns[column].name === marks) cell.append(...text.split(/⟦([^⟧]*)⟧?/).map((piece, at) => (at % 2 ? element("mark", piece) : piece))); else cell.textContent = text;
      line.append(cell);
    });
    return line;
  }

  function go(row, column) {
    here = [Math.min(Math.max(row, 0), order.length - 1), Math.min(Math.max(column, 0), columns.length - 1)];
    const up = here[0] * ROW_HEIGHT, height = box.clientHeight - table.tHead.offsetHeight - ROW_HEIGHT;
    box.scrollTop = Math.min(Math.max(box.scrollTop, up - height), up);
    from = -1;
    draw();
    const cell = body.querySelector("td.here");
    if (cell) cell.scrollIntoView({block: "nearest", inline: "nearest"});
  }

  const open = (row, column) => opens({column: columns[column], row: order[row], at: column, text: rows[order[row]][column]});

  box.addEventListener("scroll", () => { if (!isWaiting) { isWaiting = true; requestAnimationFrame(draw); } });
  addEventListener("resize", () => { from = -1; draw(); });
  table.addEventListener("click", ({target}) => {
    const cell = target.closest("tbody td");
    if (!cell || cell.cellIndex < 1) return;
    go(from + cell.parentElement.sectionRowIndex, cell.cellIndex - 1);
    open(...here);
  });
  box.addEventListener("keydown", (event) => {
    if (event.target !== box || !order.length) return;
    const page = Math.floor(box.clientHeight / ROW_HEIGHT) - 2;
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-page, 0], PageDown: [page, 0], Home: [-rows.length, 0], End: [rows.length, 0]}[event.key];
    if (step) { event.preventDefault(); if (here) go(here[0] + step[0], here[1] + step[1]); else go(0, 0); }
    if (event.key === "Enter" && here) { event.preventDefault(); open(...here); }
  });

  return {
    clear: () => { columns = []; rows = []; order = []; sorted = here = body = null; table.replaceChildren(); table.style.margin = "0"; },
    start: (found) => { columns = found; rows = []; order = []; from = -1; head(); },
    append: (more) => {
      const first = rows.length;
      rows.push(...more);
      if (!first && more.length) keepWidths();
      if (sorted || wanted) arrange(); else { for (let place = first; place < rows.length; place += 1) order.push(place); from = -1; draw(); }
    },
    filter: (text) => { wanted = text.trim().toLowerCase(); arrange(); },
    columns: () => columns,
    rows: () => order.map((place) => rows[place]),
  };
}

// Texts of rows for other programs.

const FORMULA = /^[=+\-@\t\r\n＝＋－＠]/;

function copiedCsv(columns, rows) {
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  // A spreadsheet must not compute a text, as in downloads.
  const plain = (text, column) => quoted(!isNumber(column) && FORMULA.test(text) ? `'${text}` : text);
  const lines = rows.map((row) => row.map((text, place) => (text === null ? "" : plain(text, columns[place]))));
  return [columns.map((column) => plain(column.name, {type: ""})), ...lines].map((line) => `${line.join(",")}\n`).join("");
}

function copiedMarkdown(columns, rows) {
  const escaped = (text) => text.replace(/[\\|`<>*_[\]]/g, "\\$&").replace(/\s*\n\s*/g, " ");
  const line = (cells) => `| ${cells.join(" | ")} |\n`;
  return line(columns.map((column) => escaped(column.name))) + line(columns.map((column) => (isNumber(column) ? "---:" : "---"))) +
    rows.map((row) => line(row.map((text) => (text === null ? "NULL" : escaped(text))))).join("");
}

function copiedJson(columns, rows) {
  const taken = new Map(), names = columns.map(({name}) => { const count = taken.get(name) || 0; taken.set(name, count + 1); return JSON.stringify(count ? `${name}_${count}` : name); });
  // A number is copied digit by digit: JavaScript's numbers end at 2⁵³.
  const value = (text, column) => (text === null ? "null" : (isNumber(column) && /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text)) || (column.type === "BOOLEAN" && /^(true|false)$/.test(text)) ? text : JSON.stringify(text));
  return `[\n${rows.map((row) => `  {${row.map((text, place) => `${names[place]}: ${value(text, columns[place])}`).join(", ")}}`).join(",\n")}\n]\n`;
}

const COPIES = {csv: copiedCsv, markdown: copiedMarkdown, json: copiedJson};

// The viewer of one value: JSON in lines, a list of numbers as bars, an image as a picture.

const IMAGES = [[/^89504e47/, "png"], [/^ffd8ff/, "jpeg"], [/^47494638/, "gif"], [/^52494646.{8}57454250/, "webp"]];

function imageOf(text) {
  const digits = /^X'([0-9A-F]+)'$/.exec(text)?.[1].toLowerCase(), kind = digits && IMAGES.find(([start]) => start.test(digits));
  if (!kind) return null;
  const made = element("img");
  made.alt = `image of ${(digits.length / 2).toLocaleString("en")} bytes`;
  made.src = `data:image/${kind[1]};base64,${btoa(digits.match(/../g).map((pair) => String.fromCharCode(parseInt(pair, 16))).join(""))}`;
  return made;
}

function numbersOf(text) {
  if (!/^\[[-+\d., e]+\]$/.test(text)) return null;
  const found = text.slice(1, -1).split(",").map(Number);
  return found.length > 1 && found.every(Number.isFinite) ? found : null;
}

function inLines(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  // Numbers that JavaScript would round stay as they are written.
  try { JSON.parse(text); } catch { return null; }
  if (/\d{16}/.test(text)) return text;
  return JSON.stringify(JSON.parse(text), null, 2);
}

function valueShown(text) {
  if (text === null) return [element("p", "NULL", "null")];
  const image = imageOf(text), numbers = numbersOf(text), parts = [];
  if (image) parts.push(image);
  if (numbers) {
    const length = Math.sqrt(numbers.reduce((sum, number) => sum + number * number, 0));
    parts.push(element("p", `${numbers.length.toLocaleString("en")} numbers, ${Math.min(...numbers)} to ${Math.max(...numbers)}, length ${length.toPrecision(5)}`, "of"), drawBars(numbers.map((number, place) => [String(place), number])));
  }
  if (!image) parts.push(element("pre", inLines(text) ?? text));
  return parts;
}

function createViewer(dialog) {
  const [title, shown] = [dialog.querySelector("h2"), dialog.querySelector(".value")];
  let copied = "";
  dialog.querySelector("[data-does=copy]").addEventListener("click", async ({target}) => { await navigator.clipboard.writeText(copied); target.textContent = "Copied"; });
  dialog.querySelector("[data-does=close]").addEventListener("click", () => dialog.close());
  return async ({column, row, at: place, text}, whole) => {
    title.textContent = `${column.name}, row ${(row + 1).toLocaleString("en")}`;
    dialog.querySelector("[data-does=copy]").textContent = "Copy";
    title.append(" ", element("small", column.type));
    copied = text ?? "";
    shown.replaceChildren(...valueShown(text));
    if (!dialog.open) dialog.showModal();
    if (text === null || !/… \([\d,]+ more\)$|^\([\d,]+ bytes\)$/.test(text)) return;
    try {
      copied = (await whole(row, place)).text;
      shown.replaceChildren(...valueShown(copied));
    } catch (problem) { shown.append(element("p", problem.message, "problem")); }
  };
}
