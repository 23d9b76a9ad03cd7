// The editor's queries, maps that are too large for SVG, and keys. Everything that a server says is shown as text.
"use strict";
const HEADERS = {"x-lance-flight-console": "1", "content-type": "application/json"};
const at = (id) => document.getElementById(id);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

const isNumber = (column) => /^(u?int|float|double|half|decimal)/.test(column.type);

async function ask(path, options) {
  const answer = await fetch(path, {headers: HEADERS, ...options});
  const said = await answer.json();
  if (!answer.ok) throw new Error(said.error || `the console answered ${answer.status}`);
  return said;
}

function queryPage() {
  const page = {id: null, timer: null};
  const result = at("result");
  const decoded = () => { try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; } };
  const editor = window.createEditor({
    parent: at("editor"), text: decoded(), names: JSON.parse(at("names").textContent),
    nonce: document.body.dataset.nonce, run: () => run(""), plan: () => run("EXPLAIN "),
  });
  editor.focus();

  const failed = (text) => { at("error").textContent = text; at("error").hidden = !text; };
  const ended = () => { at("cancel").disabled = true; at("run").disabled = at("plan").disabled = false; };

  async function run(prefix) {
    const sql = editor.text().trim().replace(/;$/, "");
    if (!sql || at("run").disabled) return;
    history.replaceState(null, "", "#" + encodeURIComponent(sql));
    result.replaceChildren();
    failed("");
    at("downloads").hidden = true;
    at("run").disabled = at("plan").disabled = true;
    at("cancel").disabled = false;
    at("state").textContent = "running";
    try {
      page.id = (await ask("/query", {method: "POST", body: JSON.stringify({sql: prefix + sql})})).id;
      await follow(page.id, !prefix);
    } catch (problem) {
      failed(problem.message);
      at("state").textContent = "";
    }
    ended();
  }

  async function follow(id, isResult) {
    let body = null, count = 0, said;
    do {
      said = await ask(`/query/${id}?after=${count}`);
      if (said.columns && !body && said.columns.length) {
        const head = element("tr");
        said.columns.forEach((column) => { const cell = element("th", column.name, isNumber(column) ? "n" : ""); cell.title = column.type; head.append(cell); });
        body = element("tbody");
        const top = element("thead");
        top.append(head);
        result.append(top, body);
      }
      if (body) body.append(...said.rows.map((row) => shownRow(row, said.columns)));
      count += said.rows.length;
      at("state").textContent = `${said.done ? "" : "running, "}${count.toLocaleString("en")} rows, ${said.seconds.toFixed(said.done ? 3 : 1)} s`;
    } while (!said.done);
    if (said.error) failed(said.error);
    else if (said.cut) at("state").textContent += "; there are more";
    else if (!body) at("state").textContent = said.affected >= 0 ? `${said.affected.toLocaleString("en")} rows affected` : "done";
    if (isResult && body && !said.error) {
      at("downloads").querySelectorAll("a").forEach((link) => { link.href = `/query/${id}.${link.dataset.format}`; });
      at("downloads").hidden = false;
    }
  }

  function shownRow(row, columns) {
    const line = element("tr");
    row.forEach((value, place) => {
      const cell = value === null ? element("td", "NULL", "null") : element("td", value, isNumber(columns[place]) ? "n" : "");
      if (value !== null && value.includes("\n")) { cell.replaceChildren(element("pre", value)); }
      line.append(cell);
    });
    return line;
  }

  at("run").addEventListener("click", () => run(""));
  at("plan").addEventListener("click", () => run("EXPLAIN "));
  at("cancel").addEventListener("click", () => ask(`/query/${page.id}/cancel`, {method: "POST", body: "{}"}).catch((problem) => failed(problem.message)));
  addEventListener("hashchange", () => { if (decoded() !== editor.text()) { editor.replace(decoded()); } });
  if (editor.text()) run("");
}

function drawMap(canvas) {
  const {layout, rows, columns, cells} = JSON.parse(at(canvas.dataset.map).textContent);
  const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const scale = devicePixelRatio || 1, ink = canvas.getContext("2d"), [width, height] = layout.cell;
  canvas.width = layout.width * scale;
  canvas.height = layout.height * scale;
  canvas.style.width = `${layout.width}px`;
  ink.scale(scale, scale);
  cells.forEach(([row, column, step, read]) => {
    ink.fillStyle = colour(read === 0 ? "off" : `c${step}`);
    ink.fillRect(layout.left + column * width, layout.top + row * height, width - 1, height - 2);
  });
  ink.fillStyle = colour("soft");
  ink.font = "12px system-ui, sans-serif";
  ink.textAlign = "right";
  rows.forEach((label, row) => ink.fillText(label, layout.left - 8, layout.top + row * height + 14));
  ink.textAlign = "left";
  columns.forEach((label, column) => {
    if (column % layout.every) return;
    ink.save();
    ink.translate(layout.left + (column + 0.5) * width, layout.top - 6);
    if (layout.turned) ink.rotate(-Math.PI / 4);
    ink.fillText(label, 0, 0);
    ink.restore();
  });
}

const drawMaps = () => document.querySelectorAll("canvas[data-map]").forEach(drawMap);

addEventListener("DOMContentLoaded", () => {
  if (at("editor")) queryPage();
  drawMaps();
  document.body.addEventListener("htmx:afterSwap", drawMaps);
  addEventListener("keydown", (event) => {
    const isTyping = event.target.closest("input, select, textarea, [contenteditable]");
    if (event.key === "/" && !isTyping && at("where")) { event.preventDefault(); at("where").focus(); }
    if (event.key === "Escape" && event.target === at("where")) event.target.blur();
  });
});
