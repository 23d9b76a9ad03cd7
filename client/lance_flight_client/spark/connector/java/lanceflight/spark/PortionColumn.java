package lanceflight.spark;

import org.apache.arrow.vector.BaseFixedWidthVector;
import org.apache.arrow.vector.BitVector;
import org.apache.arrow.vector.DecimalVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ArrowColumnVector;
import org.apache.spark.unsafe.Platform;

/**
 * A column of an Arrow stream, which loads each batch into the same vector.
 *
 * <p>Values of fixed width are read where they lie: Arrow's own accessors check bounds for each value, and make a BigDecimal
 * of each decimal.
 */
final class PortionColumn extends ArrowColumnVector {
    private static final int DECIMAL_WIDTH = 16;

    private final FieldVector vector;
    private final boolean hasValues;
    private long validity;
    private long values;

    PortionColumn(FieldVector vector) {
        super(vector);
        this.vector = vector;
        this.hasValues = vector instanceof BaseFixedWidthVector && !(vector instanceof BitVector);
    }

    /** Takes note of where the vector has the batch that was loaded. */
    void loaded() {
        validity = vector.getNullCount() == 0 ? 0 : vector.getValidityBufferAddress();
        values = hasValues ? vector.getDataBufferAddress() : 0;
    }

    @Override
    public boolean isNullAt(int row) {
        return hasValues ? validity != 0 && (Platform.getByte(null, validity + (row >> 3)) >> (row & 7) & 1) == 0
            : super.isNullAt(row);
    }

    @Override
    public byte getByte(int row) {
        return Platform.getByte(null, values + row);
    }

    @Override
    public short getShort(int row) {
        return Platform.getShort(null, values + (long) row * Short.BYTES);
    }

    @Override
    public int getInt(int row) {
        return Platform.getInt(null, values + (long) row * Integer.BYTES);
    }

    @Override
    public long getLong(int row) {
        return Platform.getLong(null, values + (long) row * Long.BYTES);
    }

    @Override
    public float getFloat(int row) {
        return Platform.getFloat(null, values + (long) row * Float.BYTES);
    }

    @Override
    public double getDouble(int row) {
        return Platform.getDouble(null, values + (long) row * Double.BYTES);
    }

    @Override
    public Decimal getDecimal(int row, int precision, int scale) {
        if (precision > Decimal.MAX_LONG_DIGITS() || !(vector instanceof DecimalVector)) {
            return super.getDecimal(row, precision, scale);
        }
        return isNullAt(row) ? null
            : Decimal.createUnsafe(Platform.getLong(null, values + (long) row * DECIMAL_WIDTH), precision, scale);
    }

    @Override
    public void closeIfFreeable() {
        // The stream closes its vectors, which the next batch needs.
    }
}
