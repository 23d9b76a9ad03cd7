package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.metric.CustomTaskMetric;

/** A table that is being made: its rows are written before it has its name. */
final class NewTable extends LanceFlightTable implements StagedTable {
    private final String staged;

    NewTable(Planner planner, JsonNode made) {
        super(planner, made);
        this.staged = made.get("staged").asText();
    }

    @Override
    public void commitStagedChanges() {
        end(true);
    }

    @Override
    public void abortStagedChanges() {
        end(false);
    }

    @Override
    public CustomTaskMetric[] reportDriverMetrics() {
        return StagedTable.super.reportDriverMetrics();
    }

    private void end(boolean commit) {
        planner().ask("end_table", Planner.arguments().put("staged", staged).put("commit", commit));
    }
}
