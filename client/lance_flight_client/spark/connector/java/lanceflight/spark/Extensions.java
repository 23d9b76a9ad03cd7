package lanceflight.spark;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Statements of Iceberg's and Delta's about tables of our catalogs, which Spark's parser does not know.
 *
 * <p>Each becomes a call of one procedure, whose Python says what it means. Everything else goes on to Spark's parser as it is.
 */
public final class Extensions extends AbstractFunction1<SparkSessionExtensions, BoxedUnit> {
    private static final int FLAGS = Pattern.CASE_INSENSITIVE | Pattern.DOTALL;
    private static final String NAME = "(?:`(?:[^`]|``)+`|[\\w$-]+)(?:\\.(?:`(?:[^`]|``)+`|[\\w$-]+))*";
    private static final Pattern STATEMENT = Pattern.compile("\\s*(?<verb>ALTER\\s+TABLE|CREATE(?:\\s+OR\\s+REPLACE)?\\s+TABLE(?:\\s+IF\\s+NOT"
        + "\\s+EXISTS)?|OPTIMIZE|VACUUM|(?:DESCRIBE|DESC)\\s+(?:HISTORY|DETAIL)|RESTORE(?:\\s+TABLE)?|REORG\\s+TABLE|FSCK\\s+REPAIR\\s+TABLE"
        + "|GENERATE\\s+\\w+\\s+FOR\\s+TABLE|SHOW\\s+PARTITIONS|ANALYZE\\s+TABLE|(?:MSCK\\s+)?REPAIR\\s+TABLE|COPY\\s+INTO"
        + "|(?:CREATE|DROP)\\s+INDEX\\s+(?:IF\\s+(?:NOT\\s+)?EXISTS\\s+)?[\\w`]+\\s+ON(?:\\s+TABLE)?)\\s+(?<name>" + NAME + ")(?<rest>(?:\\s.*?)?)\\s*;?\\s*", FLAGS);
    /** What follows a name in those statements of ours that begin as one of Spark's. */
    private static final Map<String, Pattern> OF_OURS = Map.of(
        "ALTER TABLE", Pattern.compile("\\s+(?:(?:ADD|DROP|REPLACE)\\s+PARTITION\\s+FIELD|(?:CREATE|CREATE\\s+OR\\s+REPLACE|REPLACE|DROP)\\s+(?:BRANCH|TAG)"
            + "|WRITE\\s|(?:SET|DROP)\\s+IDENTIFIER\\s|(?:ADD|DROP)\\s+FEATURE\\s|(?:ADD|DROP)\\s+(?:IF\\s+(?:NOT\\s+)?EXISTS\\s+)?PARTITION\\s*\\("
            + "|(?:ALTER|CHANGE)\\s+(?:COLUMN\\s+)?" + NAME + "\\s+SET\\s+NOT\\s+NULL\\s*$).*", FLAGS),
        "CREATE TABLE", Pattern.compile("\\s+(?:SHALLOW\\s+|DEEP\\s+)?CLONE\\s.*", FLAGS));
    private static final String CATALOG = "spark.sql.catalog.";

    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        extensions.injectParser((session, parser) -> parser(session, parser));
        // Before names are looked up.
        extensions.injectHintResolutionRule(session -> new SchemaEvolution(session));
        extensions.injectHintResolutionRule(session -> new ChangeFeed(session));
        TableChanges.inject(extensions);
        return BoxedUnit.UNIT;
    }

    /** Returns a parser with the methods that a version of Spark has, which reads statements of ours first. */
    private static ParserInterface parser(SparkSession session, ParserInterface parser) {
        return (ParserInterface) Proxy.newProxyInstance(Extensions.class.getClassLoader(), new Class<?>[] {ParserInterface.class},
            (proxy, method, arguments) -> {
                if (method.getName().startsWith("parsePlan")) {
                    arguments[0] = translated(session, parser, (String) arguments[0]);
                }
                try {
                    return method.invoke(parser, arguments);
                } catch (InvocationTargetException exc) {
                    throw exc.getCause();
                }
            });
    }

    private static String translated(SparkSession session, ParserInterface parser, String statement) throws Exception {
        Matcher match = STATEMENT.matcher(withoutComments(statement));
        if (!match.matches()) {
            return statement;
        }
        String rest = match.group("rest");
        Pattern ours = OF_OURS.get(match.group("verb").toUpperCase(Locale.ROOT).replaceFirst("\\s+(?:OR\\s+REPLACE\\s+)?TABLE\\b.*", " TABLE"));
        if (ours != null && !ours.matcher(rest).matches()) {
            return statement;
        }
        String[] names = scala.jdk.javaapi.CollectionConverters
            .asJava(parser.parseMultipartIdentifier(match.group("name"))).toArray(String[]::new);
        var current = session.sessionState().catalogManager();
        boolean isNamed = names.length > 1 && isOurs(session, names[0]);
        String catalog = isNamed ? names[0] : current.currentCatalog().name();
        if (!isNamed && !isOurs(session, catalog)) {
            return statement;
        }
        StringBuilder table = new StringBuilder();
        String[] before = isNamed || names.length > 1 ? new String[0] : current.currentNamespace();
        for (String part : before) {
            table.append(quoted(part)).append('.');
        }
        for (int i = isNamed ? 1 : 0; i < names.length; i++) {
            table.append(quoted(names[i])).append(i + 1 < names.length ? "." : "");
        }
        String words = match.group("verb").replaceFirst("(?i)^RESTORE\\s+TABLE$", "RESTORE") + rest;
        return "CALL `" + catalog.replace("`", "``") + "`.system.statement(" + literal(table.toString()) + ", " + literal(words) + ")";
    }

    /** Returns a statement with a blank in the place of each comment; one that does not end stays. */
    private static String withoutComments(String statement) {
        StringBuilder kept = new StringBuilder();
        int length = statement.length();
        for (int i = 0; i < length; i++) {
            char first = statement.charAt(i);
            if (statement.startsWith("--", i)) {
                while (i < length && statement.charAt(i) != '\n') {
                    i++;
                }
                kept.append(' ');
            } else if (statement.startsWith("/*", i)) {
                int depth = 0;
                do {
                    int step = statement.startsWith("/*", i) ? 1 : statement.startsWith("*/", i) ? -1 : 0;
                    depth += step;
                    i += step == 0 ? 1 : 2;
                } while (depth > 0 && i < length);
                if (depth > 0) {
                    return statement;
                }
                i--;
                kept.append(' ');
            } else if (first == '\'' || first == '"' || first == '`') {
                int start = i++;
                while (i < length && statement.charAt(i) != first) {
                    i += first != '`' && statement.charAt(i) == '\\' ? 2 : 1;
                }
                kept.append(statement, start, Math.min(i + 1, length));
            } else {
                kept.append(first);
            }
        }
        return kept.toString();
    }

    static boolean isOurs(SparkSession session, String catalog) {
        return LanceFlightCatalog.class.getName().equals(session.sessionState().conf().getConfString(CATALOG + catalog, ""));
    }

    /** Returns whether a name that is not looked up yet is one of a table in a catalog of ours. */
    static boolean isOurs(SparkSession session, UnresolvedRelation named) {
        boolean isAlone = named.multipartIdentifier().size() == 1;
        return !isAlone && isOurs(session, named.multipartIdentifier().head())
            || isOurs(session, session.sessionState().catalogManager().currentCatalog().name());
    }

    private static String quoted(String name) {
        return '"' + name.replace("\"", "\"\"") + '"';
    }

    private static String literal(String text) {
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'";
    }
}
