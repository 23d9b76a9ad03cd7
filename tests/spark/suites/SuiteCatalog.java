package lanceflight.suites;

import java.util.HashMap;
import java.util.Map;
import lanceflight.spark.LanceFlightCatalog;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableInfo;

/** A catalog of ours that makes its own tables, whatever format a suite asks for. */
public final class SuiteCatalog extends LanceFlightCatalog {
    private static TableInfo without(TableInfo given) {
        Map<String, String> properties = new HashMap<>(given.properties());
        properties.keySet().removeAll(java.util.Set.of("provider", "option.provider"));
        TableInfo.Builder table = new TableInfo.Builder();
        table.withColumns(given.columns());
        table.withPartitions(given.partitions());
        table.withProperties(properties);
        return table.build();
    }

    @Override
    public Table createTable(Identifier table, TableInfo given) throws TableAlreadyExistsException, NoSuchNamespaceException {
        return super.createTable(table, without(given));
    }

    @Override
    public StagedTable stageCreate(Identifier table, TableInfo given) throws TableAlreadyExistsException, NoSuchNamespaceException {
        return super.stageCreate(table, without(given));
    }

    @Override
    public StagedTable stageReplace(Identifier table, TableInfo given) throws NoSuchNamespaceException {
        return super.stageReplace(table, without(given));
    }

    @Override
    public StagedTable stageCreateOrReplace(Identifier table, TableInfo given) throws NoSuchNamespaceException {
        return super.stageCreateOrReplace(table, without(given));
    }
}
