package lanceflight.spark;

import java.util.Map;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.NamedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.jdk.javaapi.CollectionConverters;

/**
 * The option `mergeSchema` of a DataFrame's write to a table of ours, which is what `INSERT WITH SCHEMA EVOLUTION` says in SQL.
 *
 * <p>Spark 4.1 has none of it, and refuses rows with other columns than those of the table.
 */
final class SchemaEvolution extends Rule<LogicalPlan> {
    private static final String OPTION = "mergeSchema";
    private static final String FLAG = "withSchemaEvolution";

    private final SparkSession session;

    SchemaEvolution(SparkSession session) {
        this.session = session;
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        if (!(plan instanceof V2WriteCommand write) || !isOurs(write.table())) {
            return plan;
        }
        Object[] arguments = new Object[plan.productArity()];
        int flag = -1;
        int options = -1;
        for (int i = 0; i < arguments.length; i++) {
            arguments[i] = plan.productElement(i);
            flag = plan.productElementName(i).equals(FLAG) ? i : flag;
            options = plan.productElementName(i).equals("writeOptions") ? i : options;
        }
        if (flag < 0 || options < 0) {
            return plan;
        }
        var given = (scala.collection.immutable.Map<String, String>) arguments[options];
        for (Map.Entry<String, String> option : CollectionConverters.asJava(given).entrySet()) {
            if (option.getKey().equalsIgnoreCase(OPTION) && option.getValue().equalsIgnoreCase("true")) {
                arguments[flag] = true;
                return (LogicalPlan) plan.makeCopy(arguments);
            }
        }
        return plan;
    }

    private boolean isOurs(NamedRelation table) {
        if (table instanceof UnresolvedRelation named) {
            return Extensions.isOurs(session, named);
        }
        return table instanceof DataSourceV2Relation known && known.table() instanceof LanceFlightTable;
    }
}
