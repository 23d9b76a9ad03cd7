package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportPartitioning;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.connector.read.SupportsRuntimeV2Filtering;
import org.apache.spark.sql.connector.read.partitioning.KeyGroupedPartitioning;
import org.apache.spark.sql.connector.read.partitioning.Partitioning;
import org.apache.spark.sql.connector.read.partitioning.UnknownPartitioning;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.types.StructType;

/** A read of some columns and partitions of a table; Python plans it once, and reads it for the tasks. */
class LanceFlightScan implements Batch, SupportsReportPartitioning, SupportsReportStatistics, SupportsRuntimeV2Filtering {
    private final LanceFlightTable streamed;
    private final LanceFlightTable table;
    private final StructType columns;
    private final Predicate[] pushed;
    private Predicate[] atRuntime = new Predicate[0];
    private JsonNode planned;

    /** `streamed` is what a stream reads, and `table` what a batch does. */
    LanceFlightScan(LanceFlightTable streamed, LanceFlightTable table, StructType columns, Predicate[] pushed) {
        this.streamed = streamed;
        this.table = table;
        this.columns = columns;
        this.pushed = pushed;
    }

    @Override
    public StructType readSchema() {
        return columns;
    }

    @Override
    public synchronized String description() {
        String predicates = Arrays.stream(pushed).map(Object::toString).collect(Collectors.joining(", "));
        // Spark also describes scans that it has not planned, in its log for one.
        boolean isPruned = planned != null && planned.hasNonNull("partitions");
        return table.name() + " (lance_flight) filters=[" + predicates + "]"
            + (isPruned ? " partitions: " + planned.get("partitions").asText() : "");
    }

    @Override
    public Batch toBatch() {
        table.checkBatch();
        return this;
    }

    @Override
    public MicroBatchStream toMicroBatchStream(String checkpoint) {
        Set<String> known = Set.of(streamed.schema().fieldNames());
        for (String column : columns.fieldNames()) {
            if (!known.contains(column)) {
                throw new UnsupportedOperationException(
                    "readStream of column " + column + ": expected columns of the table; hidden ones are read in batches");
            }
        }
        return new TableStream(streamed);
    }

    /** Returns whether the scan is one of a point of the table's history. */
    final boolean isPinned() {
        return table.isPinned();
    }

    /** Returns the arguments of a request about the rows that the scan reads, but for what is left out at run time. */
    final ObjectNode asked() {
        return table.asked(pushed);
    }

    /** Returns the method that plans the scan. */
    String method() {
        return "plan_scan";
    }

    final synchronized JsonNode planned() {
        if (planned == null) {
            ObjectNode arguments = Planner.arguments().put("handle", table.handle());
            arguments.set("columns", Planner.names(columns.fieldNames()));
            arguments.set("predicates", ExpressionNodes.of(pushed).addAll(ExpressionNodes.of(atRuntime)));
            planned = table.planner().ask(method(), arguments);
        }
        return planned;
    }

    @Override
    public InputPartition[] planInputPartitions() {
        return Portion.of(planned());
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new PortionReader.Factory(table.planner().workerPython());
    }

    @Override
    public Partitioning outputPartitioning() {
        JsonNode keys = planned().get("keys");
        int partitions = planned().get("portions").size();
        return keys.isEmpty() ? new UnknownPartitioning(partitions)
            : new KeyGroupedPartitioning(Transforms.of(keys), partitions);
    }

    @Override
    public Statistics estimateStatistics() {
        JsonNode rows = planned().get("rows");
        OptionalLong count = rows.isNull() ? OptionalLong.empty() : OptionalLong.of(rows.asLong());
        return new Estimate(count, columns.defaultSize());
    }

    private record Estimate(OptionalLong numRows, int rowSize) implements Statistics {
        @Override
        public OptionalLong sizeInBytes() {
            return numRows.isEmpty() ? numRows : OptionalLong.of(Math.max(1, Math.multiplyExact(numRows.getAsLong(), rowSize)));
        }
    }

    @Override
    public NamedReference[] filterAttributes() {
        Set<String> read = Set.of(columns.fieldNames());
        return Arrays.stream(table.partitioning()).flatMap(field -> Arrays.stream(field.references()))
            .filter(column -> column.fieldNames().length == 1 && read.contains(column.fieldNames()[0]))
            .distinct().toArray(NamedReference[]::new);
    }

    @Override
    public synchronized void filter(Predicate[] predicates) {
        atRuntime = predicates;
        planned = null;
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
