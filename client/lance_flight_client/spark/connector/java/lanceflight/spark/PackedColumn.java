package lanceflight.spark;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BaseVariableWidthVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.arrow.ArrowFieldWriter;
import org.apache.spark.sql.execution.arrow.ArrowWriter$;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;

/**
 * A column of rows that are packed, as an Arrow vector that grows with them.
 *
 * <p>Values of fixed width, texts and bytes are copied from where they lie in the row: Spark's own writers make an object of
 * each text and each decimal, and check bounds for each value.
 */
abstract class PackedColumn {
    private static final int FIRST_ROWS = 1024;

    /** Returns the column of a new vector, which Spark's own writer fills where its type has none here. */
    static PackedColumn of(FieldVector vector) {
        vector.setInitialCapacity(FIRST_ROWS);
        vector.allocateNew();
        return switch (vector.getMinorType()) {
            case TINYINT, SMALLINT, INT, DATEDAY, FLOAT4, BIGINT, FLOAT8, TIMESTAMPMICRO, TIMESTAMPMICROTZ ->
                new Fixed((BaseFixedWidthVector) vector);
            case DECIMAL -> ((DecimalVector) vector).getPrecision() <= Decimal.MAX_LONG_DIGITS()
                ? new Fixed((BaseFixedWidthVector) vector) : new Other(vector);
            case VARCHAR, VARBINARY -> new Variable((BaseVariableWidthVector) vector);
            default -> new Other(vector);
        };
    }

    /** Writes a value of a row, which is the one at this place of the column: each place has one, in their order. */
    abstract void write(UnsafeRow row, int ordinal, int at);

    abstract void finish(int rows);

    abstract void reset();

    private static void setValid(long validity, int at) {
        long address = validity + (at >> 3);
        Platform.putByte(null, address, (byte) (Platform.getByte(null, address) | 1 << (at & 7)));
    }

    private static final class Fixed extends PackedColumn {
        private final BaseFixedWidthVector vector;
        private final int width;
        private long validity;
        private long values;
        private int capacity;

        Fixed(BaseFixedWidthVector vector) {
            this.vector = vector;
            this.width = vector.getTypeWidth();
            placed();
        }

        private void placed() {
            validity = vector.getValidityBufferAddress();
            values = vector.getDataBufferAddress();
            capacity = vector.getValueCapacity();
        }

        @Override
        void write(UnsafeRow row, int ordinal, int at) {
            if (at >= capacity) {
                vector.reAlloc();
                placed();
            }
            if (row.isNullAt(ordinal)) {
                return;
            }
            setValid(validity, at);
            long address = values + (long) at * width;
            switch (width) {
                case Byte.BYTES -> Platform.putByte(null, address, row.getByte(ordinal));
                case Short.BYTES -> Platform.putShort(null, address, row.getShort(ordinal));
                case Integer.BYTES -> Platform.putInt(null, address, row.getInt(ordinal));
                case Long.BYTES -> Platform.putLong(null, address, row.getLong(ordinal));
                default -> {
                    // A decimal of up to 18 digits: its sign fills the upper half.
                    long value = row.getLong(ordinal);
                    Platform.putLong(null, address, value);
                    Platform.putLong(null, address + Long.BYTES, value >> (Long.SIZE - 1));
                }
            }
        }

        @Override
        void finish(int rows) {
            vector.setValueCount(rows);
        }

        @Override
        void reset() {
            vector.reset();
        }
    }

    private static final class Variable extends PackedColumn {
        private final BaseVariableWidthVector vector;
        private long validity;
        private long offsets;
        private long bytes;
        private int capacity;
        private long room;
        private int end;

        Variable(BaseVariableWidthVector vector) {
            this.vector = vector;
            placed();
        }

        private void placed() {
            validity = vector.getValidityBufferAddress();
            offsets = vector.getOffsetBufferAddress();
            bytes = vector.getDataBufferAddress();
            capacity = vector.getValueCapacity();
            room = vector.getByteCapacity();
        }

        @Override
        void write(UnsafeRow row, int ordinal, int at) {
            while (at >= capacity) {
                vector.reallocValidityAndOffsetBuffers();
                placed();
            }
            if (!row.isNullAt(ordinal)) {
                long place = row.getLong(ordinal);
                int size = (int) place;
                if (end + (long) size > room) {
                    vector.reallocDataBuffer(end + (long) size);
                    placed();
                }
                setValid(validity, at);
                Platform.copyMemory(row.getBaseObject(), row.getBaseOffset() + (place >>> Integer.SIZE), null, bytes + end, size);
                end += size;
            }
            Platform.putInt(null, offsets + (at + 1L) * Integer.BYTES, end);
        }

        @Override
        void finish(int rows) {
            vector.setLastSet(rows - 1);
            vector.setValueCount(rows);
        }

        @Override
        void reset() {
            vector.reset();
            end = 0;
        }
    }

    private static final class Other extends PackedColumn {
        private final ArrowFieldWriter writer;

        Other(FieldVector vector) {
            this.writer = ArrowWriter$.MODULE$.createFieldWriter(vector);
        }

        @Override
        void write(UnsafeRow row, int ordinal, int at) {
            writer.write(row, ordinal);
        }

        @Override
        void finish(int rows) {
            writer.finish();
        }

        @Override
        void reset() {
            writer.reset();
        }
    }
}
