package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsDeleteV2;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table at the version that it was loaded at; `handle` is what Python knows it by. */
class LanceFlightTable implements SupportsRead, SupportsWrite, SupportsDeleteV2, SupportsRowLevelOperations, SupportsMetadataColumns {
    private final Planner planner;
    private final JsonNode loaded;
    private final StructType schema;
    private final CaseInsensitiveStringMap options;
    private CaseInsensitiveStringMap scannedWith = CaseInsensitiveStringMap.empty();
    private Predicate[] deleted;

    LanceFlightTable(Planner planner, JsonNode loaded) {
        this(planner, loaded, CaseInsensitiveStringMap.empty());
    }

    private LanceFlightTable(Planner planner, JsonNode loaded, CaseInsensitiveStringMap options) {
        this.planner = planner;
        this.loaded = loaded;
        this.options = options;
        this.schema = (StructType) DataType.fromJson(loaded.get("schema").asText());
    }

    final Planner planner() {
        return planner;
    }

    final String handle() {
        return loaded.get("handle").asText();
    }

    /** Returns the options of the read that the table is scanned for. */
    final CaseInsensitiveStringMap options() {
        return options;
    }

    /** Returns whether this is the table at a point of its history that the statement names. */
    final boolean isPinned() {
        return loaded.path("is_pinned").asBoolean();
    }

    /** Returns what a batch reads: this table as its options say. */
    private LanceFlightTable batch() {
        if (options.isEmpty()) {
            return this;
        }
        ObjectNode arguments = Planner.arguments().put("handle", handle()).put("is_pinned", isPinned());
        return with(planner.ask("read_with_options",
            Planner.with(arguments, "read_options", options.asCaseSensitiveMap())));
    }

    /** Throws the error of a batch with the options that this is read with; a stream has others. */
    final void checkBatch() {
        if (loaded.has("refused")) {
            throw LanceFlightException.of(loaded.get("refused"));
        }
    }

    /** Returns what Python has made of this table for one scan: what it says in place of what was loaded. */
    final LanceFlightTable with(JsonNode made) {
        return new LanceFlightTable(planner, ((ObjectNode) loaded.deepCopy()).setAll((ObjectNode) made), options);
    }

    @Override
    public String name() {
        return planner.catalog() + "." + loaded.get("name").asText();
    }

    /** Returns the version that was loaded, by which Spark loads the table again before it runs a query; null for what has none. */
    @Override
    public String version() {
        return loaded.path("version").textValue();
    }

    @Override
    public StructType schema() {
        return schema;
    }

    /** Returns columns that Spark requires as they are read: whole, where it asks for some fields inside a struct alone. */
    final StructType whole(StructType required) {
        StructType read = new StructType();
        for (StructField column : required.fields()) {
            boolean isStored = schema.getFieldIndex(column.name()).isDefined();
            read = read.add(isStored ? schema.apply(column.name()) : column);
        }
        return read;
    }

    @Override
    public Transform[] partitioning() {
        return Transforms.of(loaded.get("partitioning"));
    }

    /** Returns the hidden columns, which a query has to name. */
    @Override
    public MetadataColumn[] metadataColumns() {
        JsonNode hidden = loaded.path("hidden");
        MetadataColumn[] columns = new MetadataColumn[hidden.size()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = new HiddenColumn(hidden.get(i).asText());
        }
        return columns;
    }

    private record HiddenColumn(String name) implements MetadataColumn {
        @Override
        public DataType dataType() {
            return DataTypes.StringType;
        }
    }

    /** Returns the primary key, which nothing enforces. */
    @Override
    public Constraint[] constraints() {
        JsonNode key = loaded.path("key");
        if (!key.isObject()) {
            return new Constraint[0];
        }
        NamedReference[] columns = new NamedReference[key.get("columns").size()];
        for (int i = 0; i < columns.length; i++) {
            columns[i] = Transforms.column(key.get("columns").get(i));
        }
        return new Constraint[] {Constraint.primaryKey(key.get("name").asText(), columns).enforced(false).build()};
    }

    @Override
    public Map<String, String> properties() {
        return Planner.texts(loaded.get("properties"));
    }

    @Override
    public Set<TableCapability> capabilities() {
        EnumSet<TableCapability> offered =
            EnumSet.of(TableCapability.BATCH_READ, TableCapability.MICRO_BATCH_READ, TableCapability.STREAMING_WRITE);
        if (loaded.get("takes_rows").asBoolean()) {
            offered.addAll(EnumSet.of(TableCapability.BATCH_WRITE, TableCapability.TRUNCATE,
                TableCapability.OVERWRITE_BY_FILTER, TableCapability.OVERWRITE_DYNAMIC,
                TableCapability.AUTOMATIC_SCHEMA_EVOLUTION));
        }
        return offered;
    }

    @Override
    public ScanBuilder newScanBuilder(CaseInsensitiveStringMap options) {
        scannedWith = options;
        LanceFlightTable table = new LanceFlightTable(planner, loaded, options);
        return new LanceFlightScanBuilder(table, table.batch());
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
        return new LanceFlightWrite(this, info);
    }

    @Override
    public boolean canDeleteWhere(Predicate[] predicates) {
        deleted = predicates;
        return planner.ask("can_delete", asked(predicates)).asBoolean();
    }

    @Override
    public void deleteWhere(Predicate[] predicates) {
        // Spark has a DELETE of all rows scan its table, and gives its options to that scan alone.
        checkRowOptions("DELETE", scannedWith);
        planner.ask("delete_where", asked(predicates));
    }

    /** Returns what EXPLAIN shows of a DELETE that needs no task: the partitions that may have its rows. */
    @Override
    public String toString() {
        JsonNode partitions = deleted == null ? null : planner.ask("deleted_partitions", asked(deleted));
        return name() + (partitions == null || partitions.isNull() ? "" : " partitions: " + partitions.asText());
    }

    /** Throws what Spark would not say: that rows of this cannot be removed. */
    @Override
    public boolean truncateTable() {
        if (!SupportsDeleteV2.super.truncateTable()) {
            throw new UnsupportedOperationException("TRUNCATE of " + name()
                + ": expected a table or a branch, not a tag, an old version, a view or a metadata table");
        }
        return true;
    }

    /** Returns the arguments of a request about the rows that fulfil predicates. */
    ObjectNode asked(Predicate[] predicates) {
        ObjectNode arguments = Planner.arguments().put("handle", handle());
        arguments.set("predicates", ExpressionNodes.of(predicates));
        return arguments;
    }

    @Override
    public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
        checkRowOptions(info.command().name(), info.options());
        return new RowChanges(this, info.command());
    }

    private void checkRowOptions(String command, CaseInsensitiveStringMap given) {
        if (!given.isEmpty()) {
            ObjectNode arguments = Planner.arguments().put("command", command);
            planner.ask("check_row_options", Planner.with(arguments, "write_options", given.asCaseSensitiveMap()));
        }
    }
}
