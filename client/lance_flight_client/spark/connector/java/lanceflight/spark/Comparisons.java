package lanceflight.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import java.util.ArrayList;
import java.util.List;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.plans.LeftAnti$;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * What the rows of a statement are compared with before they are added.
 *
 * <p>Spark makes a MERGE that only inserts an append of those rows that have none like them in the table, and does not say so.
 */
final class Comparisons {
    private Comparisons() {}

    /** Returns the scans of a table whose rows are left out of those that the running statement adds to it. */
    static ArrayNode of(LanceFlightTable table) {
        ArrayNode compared = PlannerProcess.JSON.createArrayNode();
        String execution = SparkContext.getOrCreate().getLocalProperty(SQLExecution.EXECUTION_ID_KEY());
        QueryExecution running = execution == null ? null : SQLExecution.getQueryExecution(Long.parseLong(execution));
        if (running != null) {
            for (LanceFlightScan scan : compared(running.optimizedPlan(), table.name())) {
                compared.add(scan.asked().put("is_pinned", scan.isPinned()));
            }
        }
        return compared;
    }

    private static List<LanceFlightScan> compared(LogicalPlan plan, String table) {
        List<LanceFlightScan> scans = new ArrayList<>();
        if (plan instanceof Join join && join.joinType().equals(LeftAnti$.MODULE$)) {
            collect((LogicalPlan) join.right(), table, scans);
        }
        children(plan).forEach(child -> scans.addAll(compared(child, table)));
        return scans;
    }

    private static void collect(LogicalPlan plan, String table, List<LanceFlightScan> scans) {
        if (plan instanceof DataSourceV2ScanRelation relation && relation.scan() instanceof LanceFlightScan scan
                && relation.relation().table().name().equals(table)) {
            scans.add(scan);
        }
        children(plan).forEach(child -> collect(child, table, scans));
    }

    private static List<LogicalPlan> children(LogicalPlan plan) {
        return CollectionConverters.asJava(plan.children());
    }
}
