package lanceflight.spark;

import java.io.IOException;
import java.util.Collections;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.TaskCompletionListener;
import scala.Function0;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Gives the rows of a task to a writer in packed batches (`RowPacker`).
 *
 * <p>Spark's own way to Python asks all columns for their bytes at each row, a third of the time of a load. The rows that Spark
 * writes one by one go to the writer from a thread of its own: it takes all batches of a task at once.
 */
final class PackedWriter implements DataWriter<InternalRow> {
    private static final String BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch";
    private static final int WAITING = 2;
    private static final long TICK = 100;
    private static final InternalRow END = InternalRow.empty();

    private final DataWriter<InternalRow> writer;
    private final Supplier<RowPacker> packers;
    private volatile RowPacker packer;
    private Feed feed;

    private PackedWriter(DataWriter<InternalRow> writer, Supplier<RowPacker> packers) {
        this.writer = writer;
        this.packers = packers;
        // Not before: Spark 4.3 may take rows in a thread that outlives `close`.
        TaskContext.get().addTaskCompletionListener((TaskCompletionListener) context -> {
            if (packer != null) {
                packer.close();
            }
        });
    }

    /** Makes writers of rows with these columns, which are those of an Arrow schema, on top of writers of packed batches. */
    record Factory(DataWriterFactory writers, StructType columns, byte[] schema) implements DataWriterFactory {
        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task) {
            return new PackedWriter(writers.createWriter(partition, task), () -> new RowPacker(columns, schema));
        }
    }

    @Override
    public void writeAll(Iterator<InternalRow> rows) throws IOException {
        packer = packers.get();
        SQLConf given = settings();
        writeBatches(new Batches() {
            @Override
            InternalRow read() {
                // Whatever computes the rows has the settings that it would have without us.
                return SQLConf.withExistingConf(given, (Function0<InternalRow>) () -> packed(rows));
            }
        });
    }

    private InternalRow packed(Iterator<InternalRow> rows) {
        while (!packer.isFull() && rows.hasNext()) {
            packer.add(rows.next());
        }
        return packer.isEmpty() ? END : packer.pack();
    }

    /** Writes batches, of which each is a message to Python. */
    private void writeBatches(Iterator<InternalRow> batches) throws IOException {
        SQLConf single = settings();
        single.setConfString(BATCH_ROWS, "1");
        IOException failure = SQLConf.withExistingConf(single, (Function0<IOException>) () -> {
            try {
                writer.writeAll(batches);
                return null;
            } catch (IOException exc) {
                return exc;
            }
        });
        if (failure != null) {
            throw failure;
        }
    }

    /** Returns the settings of the task, to be changed for a call. */
    private static SQLConf settings() {
        SQLConf copy = new SQLConf();
        CollectionConverters.asJava(SQLConf.get().getAllConfs()).forEach((name, value) -> {
            if (name.startsWith("spark.")) {
                copy.settings().put(name, value);
            }
        });
        return copy;
    }

    @Override
    public void write(InternalRow row) throws IOException {
        if (feed == null) {
            packer = packers.get();
            feed = new Feed();
            feed.start();
        }
        if (packer.isFull()) {
            feed.give(packer.pack());
        }
        packer.add(row);
    }

    @Override
    public WriterCommitMessage commit() throws IOException {
        if (feed != null) {
            if (!packer.isEmpty()) {
                feed.give(packer.pack());
            }
            feed.end();
        } else if (packer == null) {
            // A task without rows.
            writeBatches(Collections.emptyIterator());
        }
        return writer.commit();
    }

    @Override
    public void abort() throws IOException {
        interrupt();
        writer.abort();
    }

    @Override
    public void close() throws IOException {
        interrupt();
        writer.close();
    }

    private void interrupt() {
        if (feed != null) {
            feed.thread.interrupt();
        }
    }

    /** Batches that end with `END`. */
    private abstract static class Batches implements Iterator<InternalRow> {
        private InternalRow next;

        abstract InternalRow read();

        @Override
        public boolean hasNext() {
            next = next == null ? read() : next;
            return next != END;
        }

        @Override
        public InternalRow next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            InternalRow batch = next;
            next = null;
            return batch;
        }
    }

    /** The thread that writes the batches which it is given. */
    private final class Feed extends Batches {
        private final ArrayBlockingQueue<InternalRow> batches = new ArrayBlockingQueue<>(WAITING);
        private final TaskContext context = TaskContext.get();
        private final Thread thread = new Thread(this::run, "lance-flight-rows");
        private volatile Throwable failure;

        void start() {
            thread.setDaemon(true);
            thread.start();
        }

        private void run() {
            TaskContext$.MODULE$.setTaskContext(context);
            try {
                writeBatches(this);
            } catch (Throwable exc) {
                failure = exc;
            } finally {
                TaskContext$.MODULE$.unset();
            }
        }

        @Override
        InternalRow read() {
            try {
                return batches.take();
            } catch (InterruptedException exc) {
                throw new IllegalStateException("a task was ended while it wrote rows", exc);
            }
        }

        void give(InternalRow batch) throws IOException {
            try {
                while (!batches.offer(batch, TICK, TimeUnit.MILLISECONDS)) {
                    if (!thread.isAlive()) {
                        throw new IOException("the writer of a task has ended before its rows", failure);
                    }
                }
            } catch (InterruptedException exc) {
                throw interrupted(exc);
            }
        }

        void end() throws IOException {
            give(END);
            try {
                thread.join();
            } catch (InterruptedException exc) {
                throw interrupted(exc);
            }
            if (failure != null) {
                throw new IOException("writing the rows of a task failed: " + failure.getMessage(), failure);
            }
        }

        private static IOException interrupted(InterruptedException exc) {
            Thread.currentThread().interrupt();
            return new IOException("a task was interrupted while it wrote rows", exc);
        }
    }
}
