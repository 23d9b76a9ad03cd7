// Calls the two Flight SQL clients of npm, and prints one line `name = value`, or `name ! error`, for each call.
// Its argument is the port of a server on this machine.
const { FlightSQLClient } = require("@gizmodata/gizmosql-client");
const { createFlightSqlClient } = require("@lakehouse-rs/flight-sql-client");
const { tableFromIPC } = require("apache-arrow");

const at = { host: "127.0.0.1", port: Number(process.argv[2]) };

async function say(name, call) {
  let said;
  try {
    said = ` = ${JSON.stringify(await call(), (_, value) => (typeof value === "bigint" ? Number(value) : value))}`;
  } catch (error) {
    said = ` ! ${error.message.split(";")[0]}`;
  }
  console.log(name + said.replaceAll("\n", " "));
}

async function gizmodata() {
  const client = new FlightSQLClient({ ...at, plaintext: true });
  const rows = async (sql) => (await client.execute(sql)).toArray();
  await say("connect", async () => client.connect());
  await say("create", () => rows("CREATE TABLE by_node (id BIGINT, name VARCHAR, at DATE) PARTITIONED BY (name)"));
  await say("insert", () => rows("INSERT INTO by_node VALUES (1, 'a', DATE '2024-02-29'), (2, 'Ø', NULL)"));
  await say("rows", () => rows("SELECT * FROM by_node ORDER BY id"));
  await say("300,000 rows", async () => {
    const text = "CAST(value AS VARCHAR) AS text";
    const table = await client.execute(`SELECT value, ${text} FROM generate_series(1, 300000) ORDER BY value`);
    return [table.numRows, table.get(299999).text];
  });
  await say("catalogs", () => client.getCatalogs());
  await say("schemas", () => client.getSchemas());
  await say("tables", () => client.getTables("lance", "public", "by\\_%"));
  await say("table types", () => client.getTableTypes());
  await say("info", async () => (await client.getSqlInfo([0])).get(0));
  await say("schema of a query", async () => (await client.getQuerySchema("SELECT 1 AS a")).fields.map(String));
  await say("prepare", () => client.prepare("SELECT 1 AS a"));
  await say("wrong SQL", () => rows("SELECT nope FROM by_node"));
  await say("close", () => client.close());
}

async function lakehouse() {
  const client = await createFlightSqlClient({ ...at, tls: false, headers: [] });
  const rows = (answer) => tableFromIPC(answer).toArray();
  await say("lakehouse: rows", async () => rows(await client.query("SELECT * FROM by_node ORDER BY id")));
  await say("lakehouse: update", async () => rows(await client.query("UPDATE by_node SET id = id + 10 WHERE name = 'a'")));
  await say("lakehouse: rows after it", async () => rows(await client.query("SELECT id FROM by_node WHERE name = 'a'")));
  await say("lakehouse: catalogs", async () => rows(await client.getCatalogs()));
  await say("lakehouse: schemas", async () => rows(await client.getDbSchemas({ dbSchemaFilterPattern: "pub%" })));
  await say("lakehouse: tables", async () => rows(await client.getTables({ tableNameFilterPattern: "by\\_%" })));
  await say("lakehouse: wrong SQL", () => client.query("SELECT nope FROM by_node"));
}

gizmodata().then(lakehouse).then(() => process.exit(0));
