package lanceflight.spark;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.apache.arrow.memory.BufferAllocator;
import org.apache.arrow.vector.VectorSchemaRoot;
import org.apache.arrow.vector.ipc.ArrowStreamWriter;
import org.apache.arrow.vector.types.pojo.Schema;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.BoundReference;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.ArrowUtils;
import scala.jdk.javaapi.CollectionConverters;

/** Packs rows as Arrow streams of one batch, each the only value of a row (`writes.unpacked` reads them). */
final class RowPacker implements AutoCloseable {
    /** The columns of a packed row. */
    static final StructType PACKED = new StructType().add("batch", DataTypes.BinaryType, false);
    private static final int ROWS = 1 << 16;
    private static final long BYTES = 8 << 20;

    private final StructType columns;
    private final BufferAllocator allocator;
    private final VectorSchemaRoot root;
    private final PackedColumn[] packed;
    private UnsafeProjection projection;
    private int rows;
    private long bytes;

    /** Packs rows with these columns as those of a schema of Arrow's, in its own bytes. */
    RowPacker(StructType columns, byte[] schema) {
        this.columns = columns;
        this.allocator = ArrowUtils.rootAllocator().newChildAllocator("lance-flight rows", 0, Long.MAX_VALUE);
        this.root = VectorSchemaRoot.create(Schema.deserializeMessage(ByteBuffer.wrap(schema)), allocator);
        this.packed = root.getFieldVectors().stream().map(PackedColumn::of).toArray(PackedColumn[]::new);
    }

    boolean isEmpty() {
        return rows == 0;
    }

    boolean isFull() {
        return rows >= ROWS || bytes >= BYTES;
    }

    void add(InternalRow row) {
        boolean isCompact = row instanceof UnsafeRow && row.numFields() == columns.size();
        UnsafeRow compact = isCompact ? (UnsafeRow) row : projected(row);
        for (int i = 0; i < packed.length; i++) {
            packed[i].write(compact, i, rows);
        }
        rows += 1;
        bytes += compact.getSizeInBytes();
    }

    /** Returns a row's values of the columns: Spark 4.1 gives what is done with a row before them. */
    private UnsafeRow projected(InternalRow row) {
        if (projection == null) {
            int operations = row.numFields() - columns.size();
            if (operations != 0 && operations != 1) {
                throw new IllegalStateException("rows of " + row.numFields() + " fields are written to " + columns.size() + " columns");
            }
            List<Expression> values = new ArrayList<>();
            for (StructField field : columns.fields()) {
                values.add(new BoundReference(values.size() + operations, field.dataType(), field.nullable()));
            }
            projection = UnsafeProjection.create(CollectionConverters.asScala(values).toSeq());
        }
        return projection.apply(row);
    }

    /** Returns the rows since the last call as one, of the one value. */
    InternalRow pack() {
        for (PackedColumn column : packed) {
            column.finish(rows);
        }
        root.setRowCount(rows);
        ByteArrayOutputStream stream = new ByteArrayOutputStream((int) Math.min(bytes, 2 * BYTES));
        try (ArrowStreamWriter writer = new ArrowStreamWriter(root, null, stream)) {
            writer.writeBatch();
        } catch (IOException exc) {
            throw new UncheckedIOException(exc);
        }
        for (PackedColumn column : packed) {
            column.reset();
        }
        rows = 0;
        bytes = 0;
        return new GenericInternalRow(new Object[] {stream.toByteArray()});
    }

    @Override
    public void close() {
        root.close();
        allocator.close();
    }
}
