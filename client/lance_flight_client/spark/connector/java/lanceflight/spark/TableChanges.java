package lanceflight.spark;

import java.time.ZoneId;
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
import org.apache.spark.sql.catalyst.util.DateTimeUtils;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
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
        StringBuilder versions = new StringBuilder("changes_at");
        boolean isKnown = values.size() == 2 || values.size() == 3;
        for (String version : values.subList(Math.min(1, values.size()), values.size())) {
            String point = version.matches("\\d+") ? version : moment(version);
            isKnown &= point != null;
            versions.append('_').append(point);
        }
        if (!isKnown) {
            throw new UnsupportedOperationException("table_changes(" + String.join(", ", values)
                + "): expected the name of a table, its first version or a moment, and its last one or none");
        }
        List<String> name = new ArrayList<>(CollectionConverters.asJava(CatalystSqlParser$.MODULE$.parseMultipartIdentifier(values.get(0))));
        name.add(versions.toString());
        UnresolvedRelation found = UnresolvedRelation$.MODULE$.apply(
            CollectionConverters.asScala(name).toSeq(), CaseInsensitiveStringMap.empty(), false);
        return found;
    }

    /** Returns `t` and the microseconds of a moment; null for what is none. */
    static String moment(String text) {
        Option<Object> found = DateTimeUtils.stringToTimestamp(
            UTF8String.fromString(text), ZoneId.of(SQLConf.get().sessionLocalTimeZone()));
        return found.isEmpty() || text.isEmpty() ? null : "t" + found.get();
    }
}
