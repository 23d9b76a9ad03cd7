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

window.createEditor = ({parent, text, names, nonce, run, plan}) => {
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
    replace: (other) => view.dispatch({changes: {from: 0, to: view.state.doc.length, insert: other}}),
  }
}
