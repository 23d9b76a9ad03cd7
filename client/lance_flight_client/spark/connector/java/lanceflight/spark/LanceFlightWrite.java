package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.function.Supplier;
import org.apache.spark.sql.connector.expressions.filter.Predicate;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsOverwriteV2;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWriterCommitMessage;

/** A write of one statement: tasks write files in Spark's Python workers, and Python commits all of them at once. */
final class LanceFlightWrite implements SupportsOverwriteV2, SupportsDynamicOverwrite, Write, BatchWrite {
    private final LanceFlightTable table;
    private final LogicalWriteInfo info;
    private final Supplier<JsonNode> scanned;
    private String replaces;
    private Predicate[] overwritten = new Predicate[0];
    private JsonNode begun;

    /** `scanned` are the partitions that a change of rows has read, of which the new rows take the place. */
    LanceFlightWrite(LanceFlightTable table, LogicalWriteInfo info, Supplier<JsonNode> scanned) {
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
        DataWriterFactory writers = Tasks.writers(table.planner(), begun(), info.schema());
        return scanned == null ? writers : new RowByRow.Factory(writers, info.schema());
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
