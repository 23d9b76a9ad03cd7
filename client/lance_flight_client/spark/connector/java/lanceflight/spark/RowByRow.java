package lanceflight.spark;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.spark.TaskContext;
import org.apache.spark.TaskContext$;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.connector.write.DataWriter;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.jdk.javaapi.CollectionConverters;

/** Gives a writer that takes all rows of a task at once the rows that Spark writes one by one, from a thread of its own. */
final class RowByRow implements DataWriter<InternalRow>, Iterator<InternalRow> {
    private static final int WAITING = 4096;
    private static final long TICK = 100;
    private static final InternalRow END = InternalRow.empty();

    private final DataWriter<InternalRow> writer;
    private final StructType schema;
    private final ArrayBlockingQueue<InternalRow> rows = new ArrayBlockingQueue<>(WAITING);
    private final Thread thread;
    private UnsafeProjection copied;
    private volatile Throwable failure;
    private InternalRow next;

    private RowByRow(DataWriter<InternalRow> writer, StructType schema) {
        this.writer = writer;
        this.schema = schema;
        TaskContext context = TaskContext.get();
        this.thread = new Thread(() -> run(context), "lance-flight-rows");
        thread.setDaemon(true);
        thread.start();
    }

    record Factory(DataWriterFactory factory, StructType schema) implements DataWriterFactory {
        @Override
        public DataWriter<InternalRow> createWriter(int partition, long task) {
            return new RowByRow(factory.createWriter(partition, task), schema);
        }
    }

    private void run(TaskContext context) {
        TaskContext$.MODULE$.setTaskContext(context);
        try {
            writer.writeAll(this);
        } catch (Throwable exc) {
            failure = exc;
        } finally {
            TaskContext$.MODULE$.unset();
        }
    }

    @Override
    public void write(InternalRow row) throws IOException {
        if (copied == null) {
            copied = columns(row.numFields());
        }
        give(copied.apply(row).copy());
    }

    /** Returns the projection of a row onto the columns: Spark 4.1 gives what is done with a row before them. */
    private UnsafeProjection columns(int given) {
        int operations = given - schema.size();
        if (operations != 0 && operations != 1) {
            throw new IllegalStateException("rows of " + given + " fields are written to " + schema.size() + " columns");
        }
        List<Expression> columns = new ArrayList<>();
        for (int i = 0; i < schema.size(); i++) {
            StructField field = schema.fields()[i];
            columns.add(new BoundReference(i + operations, field.dataType(), field.nullable()));
        }
        return UnsafeProjection.create(CollectionConverters.asScala(columns).toSeq());
    }

    private void give(InternalRow row) throws IOException {
        try {
            while (!rows.offer(row, TICK, TimeUnit.MILLISECONDS)) {
                if (!thread.isAlive()) {
                    throw new IOException("the writer of a task has ended before its rows", failure);
                }
            }
        } catch (InterruptedException exc) {
            Thread.currentThread().interrupt();
            throw new IOException("a task was interrupted while it wrote rows", exc);
        }
    }

    @Override
    public boolean hasNext() {
        try {
            next = next == null ? rows.take() : next;
        } catch (InterruptedException exc) {
            throw new IllegalStateException("a task was ended while it wrote rows", exc);
        }
        return next != END;
    }

    @Override
    public InternalRow next() {
        if (!hasNext()) {
            throw new NoSuchElementException();
        }
        InternalRow row = next;
        next = null;
        return row;
    }

    @Override
    public WriterCommitMessage commit() throws IOException {
        give(END);
        try {
            thread.join();
        } catch (InterruptedException exc) {
            Thread.currentThread().interrupt();
            throw new IOException("a task was interrupted while it wrote rows", exc);
        }
        if (failure != null) {
            throw new IOException("writing the rows of a task failed: " + failure.getMessage(), failure);
        }
        return writer.commit();
    }

    @Override
    public void abort() throws IOException {
        thread.interrupt();
        writer.abort();
    }

    @Override
    public void close() throws IOException {
        thread.interrupt();
        writer.close();
    }
}
