// Charts of a result's rows, as SVG: bars, lines, points, and a histogram. Each draws few nodes, however many rows there are.
"use strict";
const WIDE = 900, HIGH = 300, LEFT = 70, BELOW = 46, MOST_BARS = 60, BINS = 30;
const SVG = "http://www.w3.org/2000/svg";

function svgElement(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  if (text !== undefined) made.textContent = text;
  return made;
}
const canvasOf = (label, width = WIDE, height = HIGH) => svgElement("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label});
const shortText = (text, most = 14) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

// Round numbers between two others, about five of them.
function ticks(low, high) {
  const span = high - low || Math.abs(high) || 1, power = 10 ** Math.floor(Math.log10(span / 5)), step = [1, 2, 5, 10].map((each) => each * power).find((each) => span / each <= 6);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9 && found.length < 12; value += step) found.push(Math.abs(value) < step * 1e-9 ? 0 : value);
  return found;
}

function written(value, column, span) {
  if (column && isMoment(column)) return new Date(value).toISOString().replace("T", " ").slice(0, span > 86_400_000 * 3 ? 10 : 16);
  return Math.abs(value) >= 1e6 || (value && Math.abs(value) < 1e-3) ? value.toExponential(1) : value.toLocaleString("en", {maximumFractionDigits: 4});
}

function axes(svg, lows, highs, {x, y}, withoutX) {
  const scaleX = (value) => LEFT + (WIDE - LEFT - 20) * ((value - lows[0]) / (highs[0] - lows[0] || 1));
  const scaleY = (value) => HIGH - BELOW - (HIGH - BELOW - 14) * ((value - lows[1]) / (highs[1] - lows[1] || 1));
  ticks(lows[1], highs[1]).forEach((value) => {
    svg.append(svgElement("line", {x1: LEFT, x2: WIDE - 20, y1: scaleY(value), y2: scaleY(value)}), svgElement("text", {x: LEFT - 8, y: scaleY(value) + 4, "text-anchor": "end"}, written(value, y, highs[1] - lows[1])));
  });
  if (!withoutX) ticks(lows[0], highs[0]).forEach((value) => svg.append(svgElement("text", {x: scaleX(value), y: HIGH - BELOW + 18, "text-anchor": "middle"}, written(value, x, highs[0] - lows[0]))));
  svg.append(svgElement("text", {x: WIDE - 20, y: HIGH - 6, "text-anchor": "end", class: "axis"}, shortText(x.name, 60)), svgElement("text", {x: 0, y: 11, class: "axis"}, shortText(y.name, 60)));
  return [scaleX, scaleY];
}

const spread = ([low, high]) => (low === high ? [low - 1, high + 1] : [low, high]);
const bounds = (values) => values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);

// Small bars without axes: of a vector, or of a column's histogram.
function drawBars(pairs, height = 60) {
  const [low, high] = bounds([0, ...pairs.map((pair) => pair[1])]), svg = canvasOf(`${pairs.length} values from ${low} to ${high}`, 400, height), scale = (value) => height - (height * (value - low)) / (high - low || 1), width = 400 / pairs.length;
  const path = pairs.map(([, value], place) => `M${(place * width).toFixed(2)} ${scale(0).toFixed(2)}V${scale(value).toFixed(2)}h${Math.max(width - (width > 3 ? 1 : 0), 0.2).toFixed(2)}V${scale(0).toFixed(2)}z`).join("");
  svg.append(svgElement("path", {d: path, class: "mark"}));
  return svg;
}

function barChart(found, {x, y}) {
  const shown = found.slice(0, MOST_BARS), values = shown.map((each) => each.y), [low, high] = bounds([0, ...values]);
  const svg = canvasOf(`${shown.length} bars: ${y.name} by ${x.name}`), [, scaleY] = axes(svg, [0, low], [1, high], {x, y}, true), width = (WIDE - LEFT - 20) / shown.length, isTurned = width < 70;
  shown.forEach((each, place) => {
    const left = LEFT + place * width, up = scaleY(Math.max(each.y, 0)), bar = svgElement("rect", {x: left + 1, y: up, width: Math.max(width - 2, 1), height: Math.max(Math.abs(scaleY(each.y) - scaleY(0)), 0.5), class: "mark"});
    bar.append(svgElement("title", {}, `${x.name} = ${each.label}: ${y.name} = ${each.text}`));
    svg.append(bar);
    if (place % Math.ceil(18 / width) === 0) {
      const at = [left + width / 2, HIGH - BELOW + 15];
      svg.append(svgElement("text", {x: at[0], y: at[1], ...(isTurned ? {"text-anchor": "end", transform: `rotate(-35 ${at[0]} ${at[1]})`} : {"text-anchor": "middle"})}, shortText(each.label, isTurned ? 9 : 12)));
    }
  });
  return [svg, found.length > shown.length ? `The first ${MOST_BARS} of ${found.length.toLocaleString("en")} rows are drawn.` : ""];
}

function pointChart(found, {x, y}, isLine) {
  const known = found.filter((each) => Number.isFinite(each.x) && Number.isFinite(each.y));
  if (isLine) known.sort((a, b) => a.x - b.x);
  const [lowX, highX] = spread(bounds(known.map((each) => each.x))), [lowY, highY] = spread(bounds(known.map((each) => each.y)));
  const svg = canvasOf(`${known.length} points: ${y.name} by ${x.name}`);
  if (!known.length) return [svg, "No row has numbers in both columns."];
  const [scaleX, scaleY] = axes(svg, [lowX, lowY], [highX, highY], {x, y});
  const path = known.map((each, place) => `${isLine && place ? "L" : "M"}${scaleX(each.x).toFixed(1)} ${scaleY(each.y).toFixed(1)}${isLine ? "" : "h.01"}`).join("");
  svg.append(svgElement("path", {d: path, class: isLine ? "stroke" : "points"}));
  return [svg, known.length < found.length ? `${(found.length - known.length).toLocaleString("en")} rows without numbers are left out.` : ""];
}

function histogram(found, {y}) {
  const values = found.map((each) => each.y).filter(Number.isFinite), [low, high] = bounds(values), svg = canvasOf(`Histogram of ${y.name}, ${values.length} rows`);
  if (!values.length) return [svg, "No row has a number."];
  const counts = new Array(low === high ? 1 : BINS).fill(0), step = (high - low) / counts.length || 1;
  values.forEach((value) => { counts[Math.min(Math.floor((value - low) / step), counts.length - 1)] += 1; });
  const [scaleX, scaleY] = axes(svg, [low, 0], [low + step * counts.length, Math.max(...counts)], {x: y, y: {name: "rows", type: ""}});
  counts.forEach((count, place) => {
    const left = scaleX(low + place * step), bar = svgElement("rect", {x: left + 0.5, y: scaleY(count), width: Math.max(scaleX(low + (place + 1) * step) - left - 1, 0.5), height: scaleY(0) - scaleY(count), class: "mark"});
    bar.append(svgElement("title", {}, `${written(low + place * step, y, high - low)} to ${written(low + (place + 1) * step, y, high - low)}: ${count.toLocaleString("en")} rows`));
    svg.append(bar);
  });
  return [svg, ""];
}

// The chart of a kind, and what it leaves out.
function drawChart(kind, columns, rows, places) {
  const [x, y] = places.map((place) => columns[place]);
  const found = rows.map((row) => ({x: numberOf(x, row[places[0]]), y: numberOf(y, row[places[1]]), label: row[places[0]] ?? "NULL", text: row[places[1]] ?? "NULL"}));
  if (kind === "histogram") return histogram(found, {y});
  return kind === "bar" ? barChart(found.filter((each) => Number.isFinite(each.y)), {x, y}) : pointChart(found, {x, y}, kind === "line");
}
