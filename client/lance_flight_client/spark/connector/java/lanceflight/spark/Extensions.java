package lanceflight.spark;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
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
    private static final String NAME = "((?:`(?:[^`]|``)+`|[\\w$-]+)(?:\\.(?:`(?:[^`]|``)+`|[\\w$-]+))*)";
    private static final Pattern STATEMENT = Pattern.compile("\\s*(?:"
        + "(ALTER\\s+TABLE)\\s+" + NAME + "\\s+((?:(?:ADD|DROP|REPLACE)\\s+PARTITION\\s+FIELD"
        + "|(?:CREATE|CREATE\\s+OR\\s+REPLACE|REPLACE|DROP)\\s+(?:BRANCH|TAG)|WRITE\\s|(?:SET|DROP)\\s+IDENTIFIER\\s).*?)"
        + "|(OPTIMIZE|VACUUM|(?:DESCRIBE|DESC)\\s+(?:HISTORY|DETAIL)|RESTORE(?:\\s+TABLE)?)\\s+" + NAME + "((?:\\s.*?)?)"
        + ")\\s*;?\\s*", FLAGS);
    private static final String CATALOG = "spark.sql.catalog.";

    @Override
    public BoxedUnit apply(SparkSessionExtensions extensions) {
        extensions.injectParser((session, parser) -> parser(session, parser));
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
        Matcher match = STATEMENT.matcher(statement);
        if (!match.matches()) {
            return statement;
        }
        boolean isAlter = match.group(1) != null;
        String[] names = scala.jdk.javaapi.CollectionConverters
            .asJava(parser.parseMultipartIdentifier(match.group(isAlter ? 2 : 5))).toArray(String[]::new);
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
        String verb = (isAlter ? "ALTER TABLE" : match.group(4)).replaceFirst("(?i)\\s+TABLE$", isAlter ? " TABLE" : "");
        String words = verb + (isAlter ? " " + match.group(3) : match.group(6));
        return "CALL `" + catalog.replace("`", "``") + "`.system.statement(" + literal(table.toString()) + ", " + literal(words) + ")";
    }

    private static boolean isOurs(SparkSession session, String catalog) {
        return LanceFlightCatalog.class.getName().equals(session.sessionState().conf().getConfString(CATALOG + catalog, ""));
    }

    private static String quoted(String name) {
        return '"' + name.replace("\"", "\"\"") + '"';
    }

    private static String literal(String text) {
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'";
    }
}
