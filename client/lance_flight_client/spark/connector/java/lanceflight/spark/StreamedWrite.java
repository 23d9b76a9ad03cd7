package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.connector.write.streaming.StreamingDataWriterFactory;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;

/** A write of a stream: each batch is one commit, which the table remembers by the stream's name and the batch's number. */
final class StreamedWrite implements StreamingWrite {
    private final LanceFlightTable table;
    private final LogicalWriteInfo info;
    private final String replaces;
    private JsonNode begun;

    StreamedWrite(LanceFlightTable table, LogicalWriteInfo info, String replaces) {
        this.table = table;
        this.info = info;
        this.replaces = replaces;
    }

    @Override
    public StreamingDataWriterFactory createStreamingWriterFactory(PhysicalWriteInfo physical) {
        ObjectNode arguments = Planner.arguments().put("handle", table.handle()).put("schema", info.schema().json())
            .put("replaces", replaces).put("query", info.queryId());
        Planner.with(arguments, "stream_options", info.options().asCaseSensitiveMap());
        begun = table.planner().ask("begin_batch", arguments);
        return new Writers(Tasks.writers(table.planner(), begun, info.schema()));
    }

    private record Writers(DataWriterFactory writers) implements StreamingDataWriterFactory {
        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task, long batch) {
            return writers.createWriter(partition, task);
        }
    }

    @Override
    public void commit(long batch, WriterCommitMessage[] messages) {
        table.planner().ask("commit_batch", ended(batch, messages));
    }

    @Override
    public void abort(long batch, WriterCommitMessage[] messages) {
        if (begun != null) {
            table.planner().ask("abort_batch", ended(batch, messages));
        }
    }

    private ObjectNode ended(long batch, WriterCommitMessage[] messages) {
        return LanceFlightWrite.ended(begun, messages).put("batch", batch);
    }
}
