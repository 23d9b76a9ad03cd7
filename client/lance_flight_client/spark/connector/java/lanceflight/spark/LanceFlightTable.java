package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table at the version that it was loaded at; `handle` is what Python knows it by. */
class LanceFlightTable implements Table, SupportsRead {
    private final Planner planner;
    private final JsonNode loaded;
    private final StructType schema;

    LanceFlightTable(Planner planner, JsonNode loaded) {
        this.planner = planner;
        this.loaded = loaded;
        this.schema = (StructType) DataType.fromJson(loaded.get("schema").asText());
    }

    final Planner planner() {
        return planner;
    }

    final String handle() {
        return loaded.get("handle").asText();
    }

    @Override
    public String name() {
        return planner.catalog() + "." + loaded.get("name").asText();
    }

    @Override
    public StructType schema() {
        return schema;
    }

    @Override
    public Transform[] partitioning() {
        return Transforms.of(loaded.get("partitioning"));
    }

    @Override
    public Map<String, String> properties() {
        return Planner.texts(loaded.get("properties"));
    }

    @Override
    public Set<TableCapability> capabilities() {
        return EnumSet.of(TableCapability.BATCH_READ);
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        return new LanceFlightScanBuilder(this);
    }
}
