package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.StructType;

/** A read of some columns and partitions of a table; Python plans it once, and its tasks run in Spark's Python workers. */
class LanceFlightScan implements Scan, Batch {
    private final LanceFlightTable table;
    private final StructType columns;
    private final Predicate[] pushed;
    private JsonNode planned;

    LanceFlightScan(LanceFlightTable table, StructType columns, Predicate[] pushed) {
        this.table = table;
        this.columns = columns;
        this.pushed = pushed;
    }

    @Override
    public StructType readSchema() {
        return columns;
    }

    @Override
    public String description() {
        String predicates = Arrays.stream(pushed).map(Object::toString).collect(Collectors.joining(", "));
        return table.name() + " (lance_flight) filters=[" + predicates + "]";
    }

    @Override
    public Batch toBatch() {
        return this;
    }

    private synchronized JsonNode planned() {
        if (planned == null) {
            ObjectNode arguments = Planner.arguments().put("handle", table.handle());
            arguments.set("columns", Planner.names(columns.fieldNames()));
            arguments.set("predicates", ExpressionNodes.of(pushed));
            planned = table.planner().ask("plan_scan", arguments);
        }
        return planned;
    }

    @Override
    public InputPartition[] planInputPartitions() {
        return Tasks.partitions(planned());
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return Tasks.readers(table.planner(), planned(), columns);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof LanceFlightScan scan && table.handle().equals(scan.table.handle())
            && columns.equals(scan.columns) && Arrays.equals(pushed, scan.pushed);
    }

    @Override
    public int hashCode() {
        return 31 * table.handle().hashCode() + Arrays.hashCode(pushed);
    }
}
