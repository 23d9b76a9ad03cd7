package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchFunctionException;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.FunctionCatalog;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A catalog of Spark's over a root or a server: it knows nothing itself, and asks Python for everything. */
public class LanceFlightCatalog implements TableCatalog, SupportsNamespaces, FunctionCatalog {
    private Planner planner;

    @Override
    public void initialize(String name, CaseInsensitiveStringMap options) {
        planner = new Planner(name, options);
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
        try {
            return planner.ask(method, Planner.arguments(namespace));
        } catch (LanceFlightException exc) {
            if (exc.is("not_found")) {
                throw new NoSuchNamespaceException(namespace);
            }
            throw exc;
        }
    }

    @Override
    public Table alterTable(Identifier table, TableChange... changes) {
        throw new UnsupportedOperationException("ALTER TABLE");
    }

    @Override
    public boolean dropTable(Identifier table) {
        throw new UnsupportedOperationException("DROP TABLE");
    }

    @Override
    public void renameTable(Identifier table, Identifier to) {
        throw new UnsupportedOperationException("RENAME TABLE");
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
    public void createNamespace(String[] namespace, Map<String, String> properties) {
        throw new UnsupportedOperationException("CREATE NAMESPACE");
    }

    @Override
    public void alterNamespace(String[] namespace, NamespaceChange... changes) {
        throw new UnsupportedOperationException("ALTER NAMESPACE: a namespace of lance-flight has no properties to change");
    }

    @Override
    public boolean dropNamespace(String[] namespace, boolean cascade) {
        throw new UnsupportedOperationException("DROP NAMESPACE");
    }

    @Override
    public Identifier[] listFunctions(String[] namespace) {
        return new Identifier[0];
    }

    @Override
    public UnboundFunction loadFunction(Identifier function) throws NoSuchFunctionException {
        throw new NoSuchFunctionException(function);
    }
}
