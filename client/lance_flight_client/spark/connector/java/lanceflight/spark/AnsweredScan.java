package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.OptionalLong;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.types.StructType;

/** Rows that Python has sent with its plan: an aggregation that reads none. */
record AnsweredScan(StructType readSchema, JsonNode sent) implements LocalScan, SupportsReportStatistics {
    @Override
    public InternalRow[] rows() {
        return CatalystValues.rows(readSchema, sent);
    }

    @Override
    public Statistics estimateStatistics() {
        return new Estimate(OptionalLong.of(sent.size()), readSchema.defaultSize());
    }

    private record Estimate(OptionalLong numRows, int rowSize) implements Statistics {
        @Override
        public OptionalLong sizeInBytes() {
            return OptionalLong.of(Math.max(1, numRows.getAsLong() * rowSize));
        }
    }
}
