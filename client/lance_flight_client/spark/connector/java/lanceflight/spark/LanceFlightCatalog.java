package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.NamespaceAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.StagingTableCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalogCapability;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog of Spark's over a root or a server: it knows nothing itself, and asks Python for everything. */
public class LanceFlightCatalog implements StagingTableCatalog, SupportsNamespaces, FunctionCatalog, ProcedureCatalog, Views {
    private final ThreadLocal<Table> evolved = new ThreadLocal<>();
    private Planner planner;

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        planner = new Planner(name, options);
    }

    /** Returns what this catalog asks Python by. */
    public Planner planner() {
        return planner;
    }

    @Override
    public String name() {
        return planner.catalog();
    }

    @Override
    public String[] defaultNamespace() {
        return new String[] {"public"};
    }

    @Override
    public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
        JsonNode found = namespaceAsked("list_tables", namespace);
        Identifier[] tables = new Identifier[found.size()];
        for (int i = 0; i < tables.length; i++) {
            tables[i] = Identifier.of(namespace, found.get(i).asText());
        }
        return tables;
    }

    @Override
    public Table loadTable(Identifier table) throws NoSuchTableException {
        Table asked = evolved.get();
        evolved.remove();
        if (asked != null && isWrite()) {
            return asked;
        }
        return loaded(tableAsked("load_table", table, Planner.arguments(table)));
    }

    @Override
    public Table loadTable(Identifier table, String version) {
        return loaded(planner.ask("load_table", Planner.arguments(table).put("version", version)));
    }

    @Override
    public Table loadTable(Identifier table, long microseconds) {
        return loaded(planner.ask("load_table", Planner.arguments(table).put("microseconds", microseconds)));
    }

    /** Returns whether a write asks for columns by the methods of ALTER TABLE, which nothing but Spark's rule tells apart. */
    private static boolean isWrite() {
        return StackWalker.getInstance().walk(frames -> frames.anyMatch(frame -> frame.getClassName().contains(".analysis.Resolve")
            && frame.getClassName().contains("SchemaEvolution")));
    }

    private Table loaded(JsonNode answer) {
        return new LanceFlightTable(planner, answer);
    }

    private JsonNode tableAsked(String method, Identifier table, ObjectNode arguments) throws NoSuchTableException {
        try {
            return planner.ask(method, arguments);
        } catch (LanceFlightException exc) {
            if (exc.is("not_found")) {
                throw new NoSuchTableException(table);
            }
            throw exc;
        }
    }

    private JsonNode namespaceAsked(String method, String[] namespace) throws NoSuchNamespaceException {
        return namespaceAsked(method, namespace, Planner.arguments(namespace));
    }

    private JsonNode namespaceAsked(String method, String[] namespace, ObjectNode arguments)
            throws NoSuchNamespaceException {
        try {
            return planner.ask(method, arguments);
        } catch (LanceFlightException exc) {
            if (exc.is("not_found")) {
                throw new NoSuchNamespaceException(namespace);
            }
            throw exc;
        }
    }

    @Override
    public Set<TableCatalogCapability> capabilities() {
        // Of generated columns Python says what to write instead, and Spark would not.
        return EnumSet.allOf(TableCatalogCapability.class);
    }

    @Override
    public Table createTable(Identifier table, TableInfo definition)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        made("create_table", table, Definitions.table(Planner.arguments(table), definition));
        return newlyMade(table);
    }

    /** Makes a table like another one; Spark 4.1 has no such method. */
    public Table createTableLike(Identifier table, TableInfo definition, Table like)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        ObjectNode arguments = Definitions.table(Planner.arguments(table), definition);
        if (like instanceof LanceFlightTable known && known.planner() == planner) {
            arguments.put("like", known.handle());
        }
        made("create_table_like", table, arguments);
        return newlyMade(table);
    }

    private Table newlyMade(Identifier table) {
        try {
            return loadTable(table);
        } catch (NoSuchTableException exc) {
            throw new LanceFlightException("table " + table + " was dropped as soon as it was made", exc);
        }
    }

    private JsonNode made(String method, Identifier table, ObjectNode definition)
            throws TableAlreadyExistsException, NoSuchNamespaceException {
        try {
            return namespaceAsked(method, table.namespace(), definition);
        } catch (LanceFlightException exc) {
            if (exc.is("already_exists")) {
                throw new TableAlreadyExistsException(table);
            }
            throw exc;
        }
    }

    @Override
    public StagedTable stageCreate(Identifier table, TableInfo info) throws TableAlreadyExistsException, NoSuchNamespaceException {
        ObjectNode definition = Definitions.table(Planner.arguments(table), info);
        return new NewTable(planner, made("stage_table", table, definition.put("replace", false)));
    }

    @Override
    public StagedTable stageReplace(Identifier table, TableInfo info) throws NoSuchNamespaceException {
        // Spark has looked whether there is one.
        return stageCreateOrReplace(table, info);
    }

    @Override
    public StagedTable stageCreateOrReplace(Identifier table, TableInfo info) throws NoSuchNamespaceException {
        ObjectNode definition = Definitions.table(Planner.arguments(table), info);
        return new NewTable(planner, namespaceAsked("stage_table", table.namespace(), definition.put("replace", true)));
    }

    @Override
    public Table alterTable(Identifier table, TableChange... changes) throws NoSuchTableException {
        try {
            ObjectNode arguments = Definitions.changes(Planner.arguments(table), changes);
            if (isWrite()) {
                // The columns are committed with the rows: Spark loads the table once more, in this thread, to write them.
                evolved.set(loaded(planner.ask("evolve_table", arguments)));
                return evolved.get();
            }
            planner.ask("alter_table", arguments);
        } catch (LanceFlightException exc) {
            // Spark hides what an IllegalArgumentException says here, and what is not found is a column.
            throw exc.unsupported();
        }
        return loadTable(table);
    }

    @Override
    public boolean dropTable(Identifier table) {
        return planner.ask("drop_table", Planner.arguments(table)).asBoolean();
    }

    /** Drops a table with its files, as DROP TABLE does. */
    @Override
    public boolean purgeTable(Identifier table) {
        return dropTable(table);
    }

    @Override
    public void renameTable(Identifier table, Identifier to) throws NoSuchTableException, TableAlreadyExistsException {
        ObjectNode arguments = Planner.arguments(table).put("to", to.name());
        arguments.set("to_namespace", Planner.names(to.namespace()));
        try {
            tableAsked("rename_table", table, arguments);
        } catch (LanceFlightException exc) {
            if (exc.is("already_exists")) {
                throw new TableAlreadyExistsException(to);
            }
            throw exc;
        }
    }

    @Override
    public String[][] listNamespaces() {
        JsonNode found = planner.ask("list_namespaces", Planner.arguments());
        String[][] namespaces = new String[found.size()][];
        for (int i = 0; i < namespaces.length; i++) {
            namespaces[i] = new String[] {found.get(i).asText()};
        }
        return namespaces;
    }

    @Override
    public String[][] listNamespaces(String[] within) throws NoSuchNamespaceException {
        if (within.length == 0) {
            return listNamespaces();
        }
        loadNamespaceMetadata(within);
        return new String[0][];
    }

    @Override
    public Map<String, String> loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
        return Planner.texts(namespaceAsked("load_namespace", namespace));
    }

    @Override
    public void createNamespace(String[] namespace, Map<String, String> properties) throws NamespaceAlreadyExistsException {
        try {
            planner.ask("create_namespace", Planner.with(Planner.arguments(namespace), "properties", properties));
        } catch (LanceFlightException exc) {
            if (exc.is("already_exists")) {
                throw new NamespaceAlreadyExistsException(namespace);
            }
            throw exc;
        }
    }

    @Override
    public void alterNamespace(String[] namespace, NamespaceChange... changes) {
        throw new UnsupportedOperationException(
            "ALTER NAMESPACE: a namespace has no properties and no comment; expected COMMENT ON TABLE, or TBLPROPERTIES of a table");
    }

    @Override
    public boolean dropNamespace(String[] namespace, boolean cascade) throws NoSuchNamespaceException {
        namespaceAsked("drop_namespace", namespace, Planner.arguments(namespace).put("cascade", cascade));
        return true;
    }

    @Override
    public Identifier[] listFunctions(String[] namespace) {
        return Arrays.stream(KeyFunctions.names()).map(name -> Identifier.of(namespace, name)).toArray(Identifier[]::new);
    }

    @Override
    public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
        return KeyFunctions.of(function.name()).or(() -> WrittenKeys.named(function.name()))
            .orElseThrow(() -> new NoSuchFunctionException(function));
    }

    @Override
    public Identifier[] listProcedures(String[] namespace) {
        return Procedures.all(planner);
    }

    @Override
    public UnboundProcedure loadProcedure(Identifier procedure) {
        return Procedures.named(planner, procedure);
    }
}
