package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.net.UnixDomainSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.Channels;
import java.nio.channels.SocketChannel;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.ipc.ArrowStreamReader;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.util.ArrowUtils;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads the rows of a portion as Arrow columns, from the executor's Python process (`portions.py` has the protocol). */
final class PortionReader implements PartitionReader<ColumnarBatch> {
    private final SocketChannel channel;
    private final BufferAllocator allocator;
    private final ArrowStreamReader stream;
    private PortionColumn[] columns;
    private ColumnarBatch batch;

    private PortionReader(PlannerProcess process, Portion portion) throws IOException {
        channel = SocketChannel.open(UnixDomainSocketAddress.of(process.portions()));
        allocator = ArrowUtils.rootAllocator().newChildAllocator("lance-flight", 0, Long.MAX_VALUE);
        stream = new ArrowStreamReader(channel, allocator);
        send(portion.pickled());
    }

    /** Makes readers that ask the process of a Python executable. */
    record Factory(String python) implements PartitionReaderFactory {
        @Override
        public boolean supportColumnarReads(InputPartition partition) {
            return true;
        }

        @Override
        public PartitionReader<ColumnarBatch> createColumnarReader(InputPartition partition) {
            try {
                return new PortionReader(PlannerProcess.of(python), (Portion) partition);
            } catch (IOException exc) {
                throw new LanceFlightException("the connector's Python process cannot be read from: " + exc.getMessage(), exc);
            }
        }

        @Override
        public PartitionReader<InternalRow> createReader(InputPartition partition) {
            throw new UnsupportedOperationException("portions are read by columns");
        }
    }

    private void send(byte[] portion) throws IOException {
        ByteBuffer bytes = ByteBuffer.allocate(Integer.BYTES + portion.length).putInt(portion.length).put(portion).flip();
        while (bytes.hasRemaining()) {
            channel.write(bytes);
        }
    }

    @Override
    public boolean next() throws IOException {
        if (stream.loadNextBatch()) {
            if (batch == null) {
                columns = columns();
                batch = new ColumnarBatch(columns);
            }
            for (PortionColumn column : columns) {
                column.loaded();
            }
            batch.setNumRows(stream.getVectorSchemaRoot().getRowCount());
            return true;
        }
        checkEnd();
        return false;
    }

    private PortionColumn[] columns() throws IOException {
        return stream.getVectorSchemaRoot().getFieldVectors().stream().map(PortionColumn::new).toArray(PortionColumn[]::new);
    }

    /** Throws the error that has ended the rows, where they are not all. */
    private void checkEnd() throws IOException {
        JsonNode ended = PlannerProcess.JSON.readTree(Channels.newInputStream(channel));
        if (ended == null || ended.isMissingNode()) {
            throw new IOException("the connector's Python process has ended before the rows of a task; its standard error says why");
        }
        LanceFlightException.checked(ended);
    }

    @Override
    public ColumnarBatch get() {
        return batch;
    }

    @Override
    public void close() throws IOException {
        stream.close();
        allocator.close();
        channel.close();
    }
}
