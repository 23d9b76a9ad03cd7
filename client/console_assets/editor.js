// The editor of the console: CodeMirror with the SQL of the server's tables. Bundled into lance_flight_client/console/static/editor.js.
import {basicSetup} from "codemirror"
import {EditorState, Prec} from "@codemirror/state"
import {EditorView, keymap, placeholder} from "@codemirror/view"
import {HighlightStyle, syntaxHighlighting} from "@codemirror/language"
import {PostgreSQL, sql} from "@codemirror/lang-sql"
import {tags} from "@lezer/highlight"

const colours = syntaxHighlighting(HighlightStyle.define([
  {tag: tags.keyword, color: "var(--accent)", fontWeight: "600"},
  {tag: [tags.string, tags.special(tags.string)], color: "var(--link)"},
  {tag: tags.comment, color: "var(--soft)", fontStyle: "italic"},
]))
const theme = EditorView.theme({
  "&": {color: "var(--ink)", backgroundColor: "var(--paper)", fontSize: "14px"},
  ".cm-content": {caretColor: "var(--ink)"},
  ".cm-placeholder": {color: "var(--soft)"},
  ".cm-cursor": {borderLeftColor: "var(--ink)"},
  ".cm-gutters": {backgroundColor: "var(--shade)", color: "var(--soft)", borderRight: "1px solid var(--line)"},
  ".cm-activeLine, .cm-activeLineGutter": {backgroundColor: "transparent"},
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {backgroundColor: "var(--c1) !important"},
  ".cm-tooltip": {backgroundColor: "var(--shade)", color: "var(--ink)", border: "1px solid var(--line)"},
})

// Columns of the tables that the statement names come first, then functions with how they are called, then words.
const columnsOf = (names, text) => [...text.matchAll(/\b(?:FROM|JOIN|UPDATE|INTO)\s+((?:"[^"]*"|[\w$@.])+)/gi)].flatMap(([, name]) => {
  const table = name.replaceAll('"', "").replace(/^public\./, "").replace(/[@$].*/, "")
  return (names[table] || []).map((column) => ({label: column, apply: /^[a-z_][a-z0-9_]*$/.test(column) ? column : `"${column.replaceAll('"', '""')}"`, detail: table, type: "property", boost: 90}))
})
const called = ({name, call, about}) => ({label: name, detail: call.slice(0, 60), info: about || undefined, apply: `${name}(`, type: "function", boost: -20})

window.createEditor = ({parent, text, names, nonce, run, plan}) => {
  let functions = []
  const complete = (context) => {
    const word = context.matchBefore(/[\w]+/)
    if (!word && !context.explicit) return null
    const before = context.state.sliceDoc(Math.max(0, (word?.from ?? context.pos) - 1), word?.from ?? context.pos)
    if (before === "." || before === "'" || before === '"') return null
    return {from: word?.from ?? context.pos, options: [...columnsOf(names, context.state.doc.toString()), ...functions], validFor: /^\w*$/}
  }
  const does = (action) => () => { action(); return true }
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: text,
      extensions: [
        EditorView.cspNonce.of(nonce),
        EditorView.contentAttributes.of({"aria-label": "SQL"}),
        Prec.highest(keymap.of([{key: "Mod-Enter", run: does(run)}, {key: "Mod-Shift-Enter", run: does(plan)}])),
        basicSetup,
        PostgreSQL.language.data.of({autocomplete: complete}),
        sql({dialect: PostgreSQL, schema: names, upperCaseKeywords: true}),
        EditorView.lineWrapping,
        placeholder("SELECT …"),
        colours,
        theme,
      ],
    }),
  })
  return {
    focus: () => view.focus(),
    text: () => view.state.doc.toString(),
    chosen: () => view.state.sliceDoc(view.state.selection.main.from, view.state.selection.main.to),
    know: (found) => { functions = found.map(called) },
    insert: (more) => { view.dispatch(view.state.replaceSelection(more)); view.focus() },
    replace: (other) => view.dispatch({changes: {from: 0, to: view.state.doc.length, insert: other}}),
  }
}
