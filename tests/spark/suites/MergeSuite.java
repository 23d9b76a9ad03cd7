package lanceflight.suites;

import org.apache.spark.SparkConf;
import org.apache.spark.sql.connector.GroupBasedMergeIntoTableSuite;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

/** {@code GroupBasedMergeIntoTableSuite} on a catalog of ours. */
public final class MergeSuite extends GroupBasedMergeIntoTableSuite {
    public MergeSuite() {
        LanceFlightSuites.prepare(this, () -> spark(), "cat", "ns1");
    }

    @Override
    public SparkConf sparkConf() {
        return LanceFlightSuites.configured(super.sparkConf());
    }

    @Override
    public void createTable(Column[] columns) {
        LanceFlightSuites.create(this, columns);
    }

    @Override
    public void checkReplacedPartitions(Seq<Object> partitions) {}

    @Override
    public void checkLastWriteInfo(StructType rows, Option<StructType> ids, Option<StructType> metadata) {}

    @Override
    public void checkLastWriteLog(Seq<WriteLogEntry> entries) {}
}
