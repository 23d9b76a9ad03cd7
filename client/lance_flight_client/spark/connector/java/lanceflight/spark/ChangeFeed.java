package lanceflight.spark;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractPartialFunction;

/**
 * Delta's option `readChangeFeed` of a read of a table of ours: the table's metadata table of changes takes its place.
 *
 * <p>A batch begins at `startingVersion` or `startingTimestamp`, and ends with the newest version or at `endingVersion` or
 * `endingTimestamp`. A stream begins with all rows, or at `startingVersion`.
 */
final class ChangeFeed extends Rule<LogicalPlan> {
    private static final Set<String> SWITCHES = Set.of("readchangefeed", "readchangedata");
    private static final String BEGIN = "starting";
    private static final String END = "ending";
    private static final Set<String> BOUNDS =
        Set.of(BEGIN + "version", BEGIN + "timestamp", END + "version", END + "timestamp");

    private final SparkSession session;

    ChangeFeed(SparkSession session) {
        this.session = session;
    }

    @Override
    public LogicalPlan apply(LogicalPlan plan) {
        return plan.resolveOperatorsDown(new Reads());
    }

    private final class Reads extends AbstractPartialFunction<LogicalPlan, LogicalPlan> {
        @Override
        public boolean isDefinedAt(LogicalPlan plan) {
            return plan instanceof UnresolvedRelation read && isAsked(read) && Extensions.isOurs(session, read);
        }

        @Override
        @SuppressWarnings("unchecked")
        public <A extends LogicalPlan, B> B applyOrElse(A plan, Function1<A, B> other) {
            return isDefinedAt(plan) ? (B) changes((UnresolvedRelation) plan) : other.apply(plan);
        }
    }

    private static boolean isAsked(UnresolvedRelation read) {
        return SWITCHES.stream().anyMatch(name -> read.options().getBoolean(name, false));
    }

    private static UnresolvedRelation changes(UnresolvedRelation read) {
        Map<String, String> bounds = new HashMap<>();
        Map<String, String> options = new LinkedHashMap<>();
        read.options().asCaseSensitiveMap().forEach((name, value) -> {
            String lower = name.toLowerCase(Locale.ROOT);
            if (BOUNDS.contains(lower)) {
                bounds.put(lower, value);
            } else if (!SWITCHES.contains(lower)) {
                options.put(name, value);
            }
        });
        List<String> name = new ArrayList<>(CollectionConverters.asJava(read.multipartIdentifier()));
        if (read.isStreaming()) {
            String start = bounds.remove(BEGIN + "version");
            if (!bounds.isEmpty()) {
                throw refused(bounds, "a stream begins at a 'startingVersion', or with all rows, and does not end");
            }
            if (start != null) {
                options.put(BEGIN, before(start));
            }
            name.add("changes");
        } else {
            String start = point(bounds, BEGIN);
            String end = point(bounds, END);
            if (start == null) {
                throw refused(bounds, "expected 'startingVersion' or 'startingTimestamp'");
            }
            name.add("changes_at_" + start + (end == null ? "" : "_" + end));
        }
        return UnresolvedRelation$.MODULE$.apply(
            CollectionConverters.asScala(name).toSeq(), new CaseInsensitiveStringMap(options), read.isStreaming());
    }

    /** Returns where a stream starts whose first changes are those of a version. */
    private static String before(String version) {
        if (version.equalsIgnoreCase("latest")) {
            return "latest";
        }
        if (!version.matches("\\d{1,18}")) {
            throw refused(Map.of(BEGIN + "version", version), "expected a version, or latest");
        }
        long first = Long.parseLong(version);
        return first == 0 ? "earliest" : String.valueOf(first - 1);
    }

    /** Returns a version, or a moment as a name of a metadata table has it; null where neither is given. */
    private static String point(Map<String, String> bounds, String side) {
        String version = bounds.get(side + "version");
        String moment = bounds.get(side + "timestamp");
        if (version != null && moment != null) {
            throw refused(bounds, "expected a version or a timestamp, not both");
        }
        String found = version == null ? moment == null ? null : TableChanges.moment(moment)
            : version.matches("\\d{1,18}") ? version : null;
        if (found == null && (version != null || moment != null)) {
            throw refused(bounds, "expected versions, or timestamps such as '2026-01-31 12:00:00'");
        }
        return found;
    }

    private static UnsupportedOperationException refused(Map<String, String> bounds, String expected) {
        return new UnsupportedOperationException("readChangeFeed with " + (bounds.isEmpty() ? "no bounds" : bounds) + ": " + expected);
    }
}
