package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** What a scan is to read: columns, predicates, aggregates and a limit that Spark offers, of which Python says which it takes. */
final class LanceFlightScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters,
        SupportsPushDownAggregates, SupportsPushDownLimit {
    private final LanceFlightTable streamed;
    private LanceFlightTable table;
    private StructType columns;
    private Predicate[] pushed = new Predicate[0];
    private Aggregation asked;
    private JsonNode aggregated;

    /** `table` is what a batch reads of it. */
    LanceFlightScanBuilder(LanceFlightTable streamed, LanceFlightTable table) {
        this.streamed = streamed;
        this.table = table;
        this.columns = table.schema();
    }

    @Override
    public void pruneColumns(StructType required) {
        // Rows without columns cannot be told apart from none: a scan has one at least.
        columns = required.isEmpty() ? new StructType().add(table.schema().fields()[0]) : table.whole(required);
    }

    @Override
    public Predicate[] pushPredicates(Predicate[] predicates) {
        ObjectNode arguments = Planner.arguments().put("handle", table.handle());
        arguments.set("predicates", ExpressionNodes.of(predicates));
        JsonNode answer = table.planner().ask("push_predicates", arguments);
        List<Predicate> taken = new ArrayList<>();
        List<Predicate> left = new ArrayList<>();
        for (int i = 0; i < predicates.length; i++) {
            String use = answer.get(i).asText();
            if (!use.equals("none")) {
                taken.add(predicates[i]);
            }
            if (!use.equals("whole")) {
                left.add(predicates[i]);
            }
        }
        pushed = taken.toArray(new Predicate[0]);
        return left.toArray(new Predicate[0]);
    }

    @Override
    public Predicate[] pushedPredicates() {
        return pushed;
    }

    @Override
    public boolean supportCompletePushDown(Aggregation aggregation) {
        table.checkBatch();
        if (!aggregation.equals(asked)) {
            ObjectNode arguments = table.asked(pushed);
            arguments.set("aggregates", ExpressionNodes.of(aggregation.aggregateExpressions()));
            arguments.set("keys", ExpressionNodes.of(aggregation.groupByExpressions()));
            aggregated = table.planner().ask("push_aggregates", arguments);
            asked = aggregation;
        }
        return !aggregated.isNull();
    }

    /** Takes an aggregation that the scan answers as a whole; of any other Spark reads the rows. */
    @Override
    public boolean pushAggregation(Aggregation aggregation) {
        boolean isTaken = supportCompletePushDown(aggregation);
        if (!isTaken) {
            aggregated = null;
            asked = null;
        }
        return isTaken;
    }

    @Override
    public boolean pushLimit(int limit) {
        JsonNode limited = table.planner().ask("push_limit", table.asked(pushed).put("limit", limit));
        if (limited.isNull()) {
            return false;
        }
        table = table.with(limited);
        return true;
    }

    @Override
    public boolean isPartiallyPushed() {
        return true;
    }

    @Override
    public Scan build() {
        if (aggregated != null && aggregated.has("rows")) {
            return new AnsweredScan((StructType) DataType.fromJson(aggregated.get("schema").asText()), aggregated.get("rows"));
        } else if (aggregated != null && aggregated.has("handle")) {
            LanceFlightTable answer = table.with(aggregated);
            return new LanceFlightScan(streamed, answer, answer.schema(), new Predicate[0]);
        }
        return new LanceFlightScan(streamed, table, columns, pushed);
    }
}
