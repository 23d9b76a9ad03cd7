// Writes the scripts that the wheel has, and the licences of what is in them.
import {build} from "esbuild"
import {copyFile, readFile, writeFile, readdir} from "node:fs/promises"
import {join} from "node:path"

const target = "../lance_flight_client/console/static"
const {metafile} = await build({
  entryPoints: ["editor.js"], outfile: `${target}/editor.js`, bundle: true, minify: true, metafile: true, charset: "utf8", legalComments: "none",
})
await copyFile("node_modules/htmx.org/dist/htmx.min.js", `${target}/htmx.js`)

const packages = new Set(["htmx.org"])
for (const file of Object.keys(metafile.inputs)) {
  const found = file.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)
  if (found) packages.add(found[1])
}
const texts = []
for (const name of [...packages].sort()) {
  const place = join("node_modules", name)
  const {version} = JSON.parse(await readFile(join(place, "package.json"), "utf8"))
  const licence = (await readdir(place)).find((file) => /^licen[cs]e/i.test(file))
  texts.push(`${name} ${version}\n\n${(await readFile(join(place, licence), "utf8")).trim()}\n`)
}
await writeFile(`${target}/licences.txt`, texts.join("\n----\n\n"))
