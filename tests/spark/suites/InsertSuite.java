package lanceflight.suites;

import org.apache.spark.SparkConf;
import org.apache.spark.sql.connector.DataSourceV2DataFrameSuite;

/** {@code DataSourceV2DataFrameSuite} on a catalog of ours. */
public final class InsertSuite extends DataSourceV2DataFrameSuite {
    public InsertSuite() {
        LanceFlightSuites.prepare(this, () -> spark(), "testcat", "ns,ns1,ns1.ns2");
    }

    @Override
    public SparkConf sparkConf() {
        return LanceFlightSuites.configured(super.sparkConf()).remove("spark.sql.catalog.testcat.copyOnLoad");
    }

    @Override
    public String catalogAndNamespace() {
        return "testcat.ns.";
    }

    @Override
    public String v2Format() {
        return "lance_flight";
    }
}
