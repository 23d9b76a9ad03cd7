package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.connector.read.SupportsPushDownV2Filters;
import org.apache.spark.sql.types.StructType;

/** What a scan is to read: the columns and the predicates that Spark offers, of which Python says which it takes. */
final class LanceFlightScanBuilder implements ScanBuilder, SupportsPushDownRequiredColumns, SupportsPushDownV2Filters {
    private final LanceFlightTable table;
    private StructType columns;
    private Predicate[] pushed = new Predicate[0];

    LanceFlightScanBuilder(LanceFlightTable table) {
        this.table = table;
        this.columns = table.schema();
    }

    @Override
    public void pruneColumns(StructType required) {
        // Rows without columns cannot be told apart from none: a scan has one at least.
        columns = required.isEmpty() ? new StructType().add(table.schema().fields()[0]) : required;
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
    public Scan build() {
        return new LanceFlightScan(table, columns, pushed);
    }
}
