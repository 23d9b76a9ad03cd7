// What the editor knows of SQL: where statements end, which parameters they have, and how they are laid out.
"use strict";

// Comments, strings, names in quotes, words, numbers, spaces and signs, in their order; together they are the text.
const piecesOf = (sql) => sql.match(/--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|\$(\w*)\$[\s\S]*?(?:\$\1\$|$)|'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|\$\w+|[A-Za-z_]\w*|\d[\w.]*|\s+|[^\sA-Za-z_\d]/g) || [];
const isSpace = (piece) => /^\s|^--|^\/\*/.test(piece);

function statementsOf(sql) {
  const found = [];
  let text = "", isEmpty = true;
  const end = () => { if (!isEmpty) found.push(text.trim()); text = ""; isEmpty = true; };
  piecesOf(sql).forEach((piece) => { if (piece === ";") end(); else { text += piece; isEmpty &&= isSpace(piece); } });
  end();
  return found;
}

const parametersOf = (sql) => [...new Set(piecesOf(sql).filter((piece) => /^\$\w+$/.test(piece)).map((piece) => piece.slice(1)))];

const CLAUSES = /^(SELECT|FROM|WHERE|GROUP|ORDER|HAVING|LIMIT|OFFSET|UNION|EXCEPT|INTERSECT|VALUES|SET|WINDOW|QUALIFY|RETURNING)$/i;
const JOINS = /^(JOIN|LEFT|RIGHT|FULL|INNER|CROSS|NATURAL)$/i;
const CONNECTS = /^(AND|OR)$/i;

// A clause to a line, conditions and joins below it; comments, strings and names are left as they are.
function formatted(sql) {
  let made = "", depth = 0, before = "", isBetween = false;
  const breaks = [], line = (more) => { made = made.trimEnd(); if (made) made += `\n${"  ".repeat(more)}`; };
  piecesOf(sql.trim()).forEach((piece) => {
    if (/^\s/.test(piece)) { if (made && !/\s$/.test(made)) made += " "; return; }
    if (piece === "(") { breaks.push(false); depth += 1; }
    if (piece === ")") { if (breaks.pop()) line(depth - 1); depth = Math.max(depth - 1, 0); }
    const isJoined = JOINS.test(piece) && JOINS.test(before);
    if (CLAUSES.test(piece) && (!depth || breaks.at(-1) || (/^SELECT$/i.test(piece) && before === "("))) {
      if (/^SELECT$/i.test(piece) && before === "(") breaks[breaks.length - 1] = true;
      line(depth);
    } else if (JOINS.test(piece) && !isJoined && !/^\($/.test(before) && (!depth || breaks.at(-1))) line(depth);
    else if (CONNECTS.test(piece) && !isBetween && (!depth || breaks.at(-1))) line(depth + 1);
    if (/^BETWEEN$/i.test(piece)) isBetween = true; else if (/^AND$/i.test(piece)) isBetween = false;
    made += piece.startsWith("--") ? `${piece}\n${"  ".repeat(depth)}` : piece;
    if (!isSpace(piece)) before = piece;
    if (piece === ";") made += "\n";
  });
  return made.trim();
}

// Queries that this browser keeps by name.
const SAVED = "lance-flight queries", MOST_SAVED = 200;
function savedQueries() {
  try { return Object.entries(JSON.parse(localStorage.getItem(SAVED)) || {}).filter(([, sql]) => typeof sql === "string"); } catch { return []; }
}
const keepQueries = (pairs) => localStorage.setItem(SAVED, JSON.stringify(Object.fromEntries(pairs.slice(-MOST_SAVED))));
