package lanceflight.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation$;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Tuple3;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Delta's function `table_changes('t', first, last)`: the metadata table of a table that has the changes of these versions. */
final class TableChanges extends AbstractFunction1<Seq<Expression>, LogicalPlan> {
    private static final String NAME = "table_changes";

    private TableChanges() {}

    /** Makes the function known, unless Delta's own extension is there, which has it too. */
    static void inject(SparkSessionExtensions extensions) {
        if (!SparkEnv.get().conf().get("spark.sql.extensions", "").toLowerCase(Locale.ROOT).contains("delta")) {
            extensions.injectTableFunction(new Tuple3<>(FunctionIdentifier.apply(NAME),
                new ExpressionInfo(TableChanges.class.getName(), NAME), new TableChanges()));
        }
    }

    @Override
    public LogicalPlan apply(Seq<Expression> given) {
        List<String> values = new ArrayList<>();
        for (Expression argument : CollectionConverters.asJava(given)) {
            values.add(argument.foldable() ? String.valueOf(argument.eval(null)) : "");
        }
        boolean isKnown = values.size() == 2 || values.size() == 3;
        for (String version : values.subList(Math.min(1, values.size()), values.size())) {
            isKnown &= version.matches("\\d+");
        }
        if (!isKnown) {
            throw new UnsupportedOperationException(
                "table_changes(" + String.join(", ", values) + "): expected the name of a table, its first version, and its last one or none");
        }
        List<String> name = new ArrayList<>(CollectionConverters.asJava(CatalystSqlParser$.MODULE$.parseMultipartIdentifier(values.get(0))));
        name.add("changes_at_" + String.join("_", values.subList(1, values.size())));
        UnresolvedRelation found = UnresolvedRelation$.MODULE$.apply(
            CollectionConverters.asScala(name).toSeq(), CaseInsensitiveStringMap.empty(), false);
        return found;
    }
}
