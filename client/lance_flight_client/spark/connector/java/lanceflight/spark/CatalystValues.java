package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.math.BigDecimal;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.BooleanType;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.IntegerType;
import org.apache.spark.sql.types.LongType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.types.TimestampNTZType;
import org.apache.spark.sql.types.TimestampType;
import org.apache.spark.unsafe.types.UTF8String;

/** Values that Python sends, as Spark holds them. */
final class CatalystValues {
    private CatalystValues() {}

    static InternalRow[] rows(StructType schema, JsonNode rows) {
        InternalRow[] found = new InternalRow[rows.size()];
        for (int i = 0; i < found.length; i++) {
            found[i] = row(schema.fields(), rows.get(i));
        }
        return found;
    }

    private static InternalRow row(StructField[] fields, JsonNode row) {
        Object[] values = new Object[fields.length];
        for (int i = 0; i < values.length; i++) {
            values[i] = value(fields[i].dataType(), row.get(i));
        }
        return new GenericInternalRow(values);
    }

    private static Object value(DataType type, JsonNode value) {
        if (value.isNull()) {
            return null;
        } else if (type instanceof ByteType) {
            return (byte) value.asInt();
        } else if (type instanceof ShortType) {
            return (short) value.asInt();
        } else if (type instanceof IntegerType || type instanceof DateType) {
            return value.asInt();
        } else if (type instanceof LongType || type instanceof TimestampType || type instanceof TimestampNTZType) {
            return value.asLong();
        } else if (type instanceof BooleanType) {
            return value.asBoolean();
        } else if (type instanceof DecimalType decimal) {
            return Decimal.apply(new BigDecimal(value.asText()), decimal.precision(), decimal.scale());
        } else if (type instanceof BinaryType) {
            return Tasks.bytes(value);
        }
        return UTF8String.fromString(value.asText());
    }
}
