package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Arrays;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Relation;
import org.apache.spark.sql.connector.catalog.RelationCatalog;
import org.apache.spark.sql.connector.catalog.TableSummary;
import org.apache.spark.sql.connector.catalog.View;

/**
 * Views of a catalog, from Spark 4.2 on: they are listed and dropped as views, and read as tables.
 *
 * <p>Their queries are in the SQL of the service, which reads them: a query in Spark's SQL would mean something else there.
 */
interface Views extends RelationCatalog {
    Planner planner();

    @Override
    default Relation loadRelation(Identifier name) throws NoSuchTableException {
        return loadTable(name);
    }

    @Override
    default Identifier[] listViews(String[] namespace) throws NoSuchNamespaceException {
        JsonNode found;
        try {
            found = planner().ask("list_views", Planner.arguments(namespace));
        } catch (LanceFlightException exc) {
            if (exc.is("not_found")) {
                throw new NoSuchNamespaceException(namespace);
            }
            throw exc;
        }
        Identifier[] views = new Identifier[found.size()];
        for (int i = 0; i < views.length; i++) {
            views[i] = Identifier.of(namespace, found.get(i).asText());
        }
        return views;
    }

    @Override
    default TableSummary[] listTableSummaries(String[] namespace) throws NoSuchNamespaceException {
        // Spark would load each table to ask for its kind.
        return summaries(listTables(namespace), TableSummary.MANAGED_TABLE_TYPE).toArray(TableSummary[]::new);
    }

    @Override
    default TableSummary[] listRelationSummaries(String[] namespace) throws NoSuchNamespaceException {
        return Stream.concat(summaries(listTables(namespace), TableSummary.MANAGED_TABLE_TYPE),
            summaries(listViews(namespace), TableSummary.VIEW_TABLE_TYPE)).toArray(TableSummary[]::new);
    }

    private static Stream<TableSummary> summaries(Identifier[] names, String kind) {
        return Arrays.stream(names).map(name -> TableSummary.of(name, kind));
    }

    @Override
    default boolean dropView(Identifier view) {
        return planner().ask("drop_view", Planner.arguments(view)).asBoolean();
    }

    @Override
    default View createView(Identifier name, View view) {
        throw refused("create_view", name);
    }

    @Override
    default View replaceView(Identifier name, View view) {
        throw refused("replace_view", name);
    }

    @Override
    default View createOrReplaceView(Identifier name, View view) {
        throw refused("replace_view", name);
    }

    @Override
    default void renameView(Identifier name, Identifier to) {
        throw refused("create_view", to);
    }

    private UnsupportedOperationException refused(String procedure, Identifier name) {
        return new UnsupportedOperationException("views of catalog " + planner().catalog()
            + " are queries in the SQL of lance-flight, not of Spark; expected CALL " + planner().catalog() + ".system." + procedure
            + "('" + Stream.concat(Arrays.stream(name.namespace()), Stream.of(name.name())).collect(Collectors.joining("."))
            + "', 'SELECT …')");
    }
}
