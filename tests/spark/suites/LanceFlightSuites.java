package lanceflight.suites;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.GroupBasedDeleteFromTableSuite;
import org.apache.spark.sql.connector.GroupBasedMergeIntoTableSuite;
import org.apache.spark.sql.connector.GroupBasedUpdateTableSuite;
import org.apache.spark.sql.connector.MergeIntoDataFrameSuite;
import org.apache.spark.sql.connector.RowLevelOperationSuiteBase;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.Transform;
import org.scalatest.BeforeAndAfter;
import scala.Option;
import scala.runtime.AbstractFunction0;

/**
 * Spark's own suites of row changes, on a catalog of ours in the place of the one in memory that they are written for.
 *
 * <p>What that one remembers of a write (partitions, columns, log) is not asked for: rows and errors are.
 */
final class LanceFlightSuites {
    private LanceFlightSuites() {}

    static SparkConf configured(SparkConf conf) {
        return conf.set("spark.sql.extensions", "lanceflight.spark.Extensions");
    }

    /** Before each test: the catalog of the suite is one of ours, over a root of its own. */
    static void prepare(BeforeAndAfter suite, Supplier<SparkSession> session, String catalog, String namespace) {
        suite.org$scalatest$BeforeAndAfter$$beforeFunctionAtomic().set(Option.apply(new AbstractFunction0<Object>() {
            @Override
            public Object apply() {
                try {
                    Path root = Files.createTempDirectory(Path.of(System.getProperty("lanceflight.roots")), "root");
                    SparkSession spark = session.get();
                    String setting = "spark.sql.catalog." + catalog;
                    spark.conf().set(setting + ".root", root.toString());
                    spark.conf().set(setting + ".python", System.getProperty("lanceflight.python"));
                    spark.conf().set(setting, "lanceflight.suites.SuiteCatalog");
                    for (String name : namespace.split(",")) { spark.sql("CREATE NAMESPACE IF NOT EXISTS " + catalog + "." + name); }
                    return null;
                } catch (IOException exc) {
                    throw new IllegalStateException(exc);
                }
            }
        }));
        suite.org$scalatest$BeforeAndAfter$$afterFunctionAtomic().set(Option.apply(new AbstractFunction0<Object>() {
            @Override
            public Object apply() {
                session.get().sessionState().catalogManager().reset();
                session.get().conf().unset("spark.sql.catalog." + catalog);
                return null;
            }
        }));
    }

    static void create(RowLevelOperationSuiteBase suite, Column[] columns) {
        TableInfo.Builder table = new TableInfo.Builder();
        table.withColumns(columns);
        table.withPartitions(new Transform[] {Expressions.identity("dep")});
        table.withProperties(Map.of());
        try {
            ((TableCatalog) suite.spark().sessionState().catalogManager().catalog("cat")).createTable(suite.ident(), table.build());
        } catch (Exception exc) {
            throw new IllegalStateException(exc);
        }
    }
}
