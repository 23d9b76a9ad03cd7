package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** An UPDATE, a MERGE, or a DELETE by rows: partitions that may have matching rows are read whole and written anew. */
final class RowChanges implements RowLevelOperation, RowLevelOperationBuilder {
    private final LanceFlightTable table;
    private final Command command;
    private WholePartitions scan;

    RowChanges(LanceFlightTable table, Command command) {
        this.table = table;
        this.command = command;
    }

    @Override
    public RowLevelOperation build() {
        return this;
    }

    @Override
    public Command command() {
        return command;
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new Reader();
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new LanceFlightWrite(table, info, () -> scan.read(), command.name());
    }

    private final class Reader implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters {
        private final LanceFlightScanBuilder pushed = new LanceFlightScanBuilder(table, table);
        private StructType columns = table.schema();

        @Override
        public void pruneColumns(StructType required) {
            columns = table.whole(required);
        }

        @Override
        public Predicate[] pushPredicates(Predicate[] predicates) {
            pushed.pushPredicates(predicates);
            return predicates;
        }

        @Override
        public Predicate[] pushedPredicates() {
            return pushed.pushedPredicates();
        }

        @Override
        public Scan build() {
            if (scan != null) {
                // What the one has read and the other has not would be lost.
                throw new IllegalStateException("the rows to change in " + table.name() + " are read by two scans");
            }
            scan = new WholePartitions(table, columns, pushed.pushedPredicates());
            return scan;
        }
    }

    /** Reads all rows of the partitions that predicates leave. */
    private static final class WholePartitions extends LanceFlightScan {
        WholePartitions(LanceFlightTable table, StructType columns, Predicate[] pushed) {
            super(table, table, columns, pushed);
        }

        @Override
        String method() {
            return "plan_whole_partitions";
        }

        JsonNode read() {
            return planned().get("read");
        }

        @Override
        public boolean equals(Object other) {
            // What is read here is replaced: it is a scan of its own.
            return this == other;
        }

        @Override
        public int hashCode() {
            return System.identityHashCode(this);
        }
    }
}
