// LanceDB's client for Node on an embedded database and on a server: one script, whose answers are printed for both.
const lancedb = require("@lancedb/lancedb");
const fs = require("fs");

const [address, place] = process.argv.slice(2);
const ROWS = 200;
const QUERY = [0.6, 0.7, 3, 1];
const OTHER = [0.1, -0.9, 5, 1];
const WORDS = ["puppy", "kitten", "frog"];

function rows(count, first = 0) {
  return Array.from({ length: count }, (_, place) => {
    const n = place + first;
    const vector = [Math.sin(n), Math.cos(n), n % 7, 1];
    return { id: n, cat: "abc"[n % 3], price: n / 4, body: `${WORDS[n % 3]} n${n}`, vector };
  });
}

const ids = async (query) => (await query.toArray()).map((row) => row.id).sort((a, b) => a - b);
const nearest = async (query) => (await query.toArray()).map((row) => [row.id, Math.round(row._distance * 1e4)]);
const failure = (work) => work().then(() => "none", (error) => error.constructor.name);

const STEPS = {
  create: async (s) => (await s.db.createTable("docs", rows(ROWS))).countRows(),
  schema: async (s) => String(await s.table.schema()),
  "exist ok": async (s) => (await s.db.createTable("docs", rows(2), { existOk: true })).countRows(),
  again: (s) => failure(() => s.db.createTable("docs", rows(2))),
  filter: (s) => ids(s.table.query().where("id < 5 AND cast(price as int) = 1").select(["id", "cat"])),
  offset: async (s) => (await s.table.query().limit(7).offset(3).toArray()).length,
  search: (s) => nearest(s.table.search(QUERY).limit(3)),
  cosine: (s) => nearest(s.table.vectorSearch(QUERY).distanceType("cosine").limit(3)),
  prefilter: (s) => nearest(s.table.query().nearestTo(QUERY).where("cat = 'b'").limit(3)),
  postfilter: (s) => ids(s.table.query().nearestTo(QUERY).where("cat = 'c'").postfilter().limit(9)),
  range: (s) => ids(s.table.query().nearestTo(QUERY).distanceRange(0.5, 4).limit(50)),
  "two vectors": async (s) => {
    const found = await s.table.query().nearestTo(QUERY).addQueryVector(OTHER).limit(2).toArray();
    return found.map((row) => [row.query_index, row.id]).sort();
  },
  "take offsets": (s) => ids(s.table.takeOffsets([5, 2])),
  "take row ids": async (s) => {
    const found = await s.table.query().where("id IN (3, 9)").withRowId().toArray();
    return ids(s.table.takeRowIds(found.map((row) => row._rowid)));
  },
  "index of texts": async (s) => {
    const config = lancedb.Index.fts({ withPosition: true, stem: false, removeStopWords: false });
    await s.table.createIndex("body", { config });
    return (await s.table.listIndices()).map((index) => [index.name, index.indexType, index.columns]);
  },
  text: (s) => ids(s.table.search("n7 n9", "fts").limit(5)),
  phrase: (s) => ids(s.table.query().fullTextSearch(new lancedb.PhraseQuery("puppy n9", "body")).limit(9)),
  errors: (s) => ids(s.table.query().fullTextSearch(new lancedb.MatchQuery("pupy", "body", { fuzziness: 1 })).limit(99)),
  hybrid: async (s) => {
    const reranker = await lancedb.rerankers.RRFReranker.create();
    return ids(s.table.query().nearestTo(QUERY).fullTextSearch("n164").rerank(reranker).limit(1));
  },
  "index of vectors": async (s) => {
    await s.table.createIndex("vector", { config: lancedb.Index.ivfFlat({ numPartitions: 2, distanceType: "l2" }) });
    return [await s.table.indexStats("vector_idx"), await nearest(s.table.search(QUERY).nprobes(2).limit(3))];
  },
  add: async (s) => (await s.table.add(rows(5, ROWS)), s.table.countRows()),
  update: async (s) => (await s.table.update({ where: "id = 1", valuesSql: { price: "price + 1" } })).rowsUpdated,
  merge: async (s) => {
    const merge = s.table.mergeInsert("id").whenMatchedUpdateAll({ where: "target.price < 3" });
    const found = await merge.whenNotMatchedInsertAll().whenNotMatchedBySourceDelete({ where: "id > 190" }).execute(rows(220).slice(0, 30));
    return [found.numInsertedRows, found.numUpdatedRows, found.numDeletedRows];
  },
  columns: async (s) => {
    await s.table.addColumns([{ name: "twice", valueSql: "price * 2" }]);
    await s.table.alterColumns([{ path: "twice", rename: "double" }]);
    const names = (await s.table.schema()).names;
    await s.table.dropColumns(["double"]);
    return [names, (await s.table.schema()).names];
  },
  versions: async (s) => {
    const version = await s.table.version();
    await s.table.delete("id < 50");
    await (await s.table.tags()).create("whole", version);
    await s.table.checkout("whole");
    const before = await s.table.countRows();
    await s.table.restore();
    return [before, await s.table.countRows(), Object.keys(await (await s.table.tags()).list())];
  },
  "a wrong vector": (s) => failure(() => s.table.search([1, 2]).toArray()),
  drop: async (s) => (await s.db.dropTable("docs"), (await s.db.tableNames()).includes("docs")),
};

async function answers(db) {
  const scene = { db };
  const found = {};
  for (const [name, step] of Object.entries(STEPS)) {
    try {
      found[name] = await step(scene);
    } catch (error) {
      found[name] = String(error);
    }
    scene.table ??= await db.openTable("docs");
  }
  return found;
}

async function main() {
  const wanted = await answers(await lancedb.connect(place));
  const found = await answers(await lancedb.connect("db://docs", { apiKey: "any", hostOverride: address }));
  const numbers = (_, value) => (typeof value === "bigint" ? Number(value) : value);
  fs.writeFileSync(1, JSON.stringify({ wanted, found }, numbers));
}

main();
