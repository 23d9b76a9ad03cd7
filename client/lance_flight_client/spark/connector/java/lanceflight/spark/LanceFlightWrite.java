package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Arrays;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.distributions.Distribution;
import org.apache.spark.sql.connector.distributions.Distributions;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NullOrdering;
import org.apache.spark.sql.connector.expressions.SortDirection;
import org.apache.spark.sql.connector.expressions.SortOrder;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.RequiresDistributionAndOrdering;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;

/** A write of one statement: tasks write files in Spark's Python workers, and Python commits all of them at once. */
final class LanceFlightWrite implements SupportsOverwriteV2, SupportsDynamicOverwrite, RequiresDistributionAndOrdering,
        BatchWrite {
    private static final String STREAM = "sql.streaming.queryId";

    private final LanceFlightTable table;
    private final LogicalWriteInfo info;
    private final Supplier<JsonNode> scanned;
    private final String command;
    private String replaces;
    private Predicate[] overwritten = new Predicate[0];
    private JsonNode begun;
    private JsonNode distributed;

    /** A write that only adds rows, or those that replace others of the table. */
    LanceFlightWrite(LanceFlightTable table, LogicalWriteInfo info) {
        this(table, info, null, "INSERT");
    }

    /** `scanned` are the partitions that a change of rows by a command has read, of which the new rows take the place. */
    LanceFlightWrite(LanceFlightTable table, LogicalWriteInfo info, Supplier<JsonNode> scanned, String command) {
        this.command = command;
        this.table = table;
        this.info = info;
        this.scanned = scanned;
        this.replaces = scanned == null ? "nothing" : "read";
    }

    @Override
    public WriteBuilder truncate() {
        replaces = "table";
        return this;
    }

    @Override
    public boolean canOverwrite(Predicate[] predicates) {
        return table.planner().ask("can_delete", table.asked(predicates)).asBoolean();
    }

    @Override
    public WriteBuilder overwrite(Predicate[] predicates) {
        replaces = "read";
        overwritten = predicates;
        return this;
    }

    @Override
    public WriteBuilder overwriteDynamicPartitions() {
        replaces = "partitions";
        return this;
    }

    @Override
    public Write build() {
        return this;
    }

    @Override
    public String description() {
        return table.name() + " (lance_flight)";
    }

    @Override
    public BatchWrite toBatch() {
        return this;
    }

    @Override
    public StreamingWrite toStreaming() {
        return new StreamedWrite(table, info, replaces);
    }

    /** Returns how rows come to the tasks: by which keys, in which order, and up to how many bytes of one key to a task. */
    private synchronized JsonNode distributed() {
        if (distributed == null) {
            ObjectNode arguments = Planner.arguments().put("handle", table.handle()).put("command", command);
            distributed = isStreamed() ? Planner.arguments() : table.planner().ask("distribute_rows",
                Planner.with(arguments, "write_options", info.options().asCaseSensitiveMap()));
        }
        return distributed;
    }

    /** Returns whether this is a batch of a stream, whose rows stay where they are: Spark names the stream in its thread. */
    private boolean isStreamed() {
        return info.queryId().equals(SparkContext.getOrCreate().getLocalProperty(STREAM));
    }

    @Override
    public Distribution requiredDistribution() {
        Expression[] keys = WrittenKeys.of(distributed().path("keys"));
        if (distributed().path("is_range").asBoolean()) {
            Stream<SortOrder> byKey = Arrays.stream(keys).map(key -> Expressions.sort(key, SortDirection.ASCENDING));
            SortOrder[] orders = Stream.concat(byKey, Arrays.stream(requiredOrdering())).toArray(SortOrder[]::new);
            return orders.length == 0 ? Distributions.unspecified() : Distributions.ordered(orders);
        }
        return keys.length == 0 ? Distributions.unspecified() : Distributions.clustered(keys);
    }

    /** Lets Spark join small tasks and split those that most rows come to. */
    @Override
    public boolean distributionStrictlyRequired() {
        return false;
    }

    @Override
    public long advisoryPartitionSizeInBytes() {
        return distributed().path("bytes").asLong();
    }

    @Override
    public SortOrder[] requiredOrdering() {
        JsonNode sorted = distributed().path("sorted");
        SortOrder[] orders = new SortOrder[sorted.size()];
        for (int i = 0; i < orders.length; i++) {
            JsonNode key = sorted.get(i);
            orders[i] = Expressions.sort(Transforms.column(key.get("column")),
                key.get("is_descending").asBoolean() ? SortDirection.DESCENDING : SortDirection.ASCENDING,
                key.get("nulls_first").asBoolean() ? NullOrdering.NULLS_FIRST : NullOrdering.NULLS_LAST);
        }
        return orders;
    }

    private synchronized JsonNode begun() {
        if (begun == null) {
            ObjectNode arguments = table.asked(overwritten).put("schema", info.schema().json()).put("replaces", replaces);
            arguments.set("compared", replaces.equals("nothing") ? Comparisons.of(table) : PlannerProcess.JSON.createArrayNode());
            begun = table.planner().ask("begin_write",
                Planner.with(arguments, "write_options", info.options().asCaseSensitiveMap()));
        }
        return begun;
    }

    @Override
    public DataWriterFactory createBatchWriterFactory(PhysicalWriteInfo physical) {
        return Tasks.writers(table.planner(), begun(), info.schema());
    }

    @Override
    public void commit(WriterCommitMessage[] messages) {
        ObjectNode arguments = ended(begun(), messages);
        if (scanned != null) {
            arguments.set("read", scanned.get());
        }
        table.planner().ask("commit_write", arguments);
    }

    @Override
    public void abort(WriterCommitMessage[] messages) {
        table.planner().ask("abort_write", ended(begun(), messages));
    }

    /** Returns the arguments of a request that ends a write: what was begun, and what its tasks have said. */
    static ObjectNode ended(JsonNode begun, WriterCommitMessage[] messages) {
        ObjectNode arguments = Planner.arguments().put("write", begun.get("write").asText());
        ArrayNode written = arguments.putArray("messages");
        for (WriterCommitMessage each : messages) {
            if (each instanceof PythonWriterCommitMessage message) {
                written.add(message.pickledMessage());
            } else {
                written.addNull();
            }
        }
        return arguments;
    }
}
