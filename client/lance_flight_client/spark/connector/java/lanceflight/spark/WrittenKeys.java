package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.ScalarFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DateType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.hash.Murmur3_x86_32;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Partition fields as functions that Spark computes to bring the rows of one partition into one task.
 *
 * <p>They decide how many files a write makes, and never where a row lies: Python computes that again. So no scan reports them.
 */
final class WrittenKeys {
    private static final String PREFIX = "written_";
    private static final List<String> TRANSFORMS = List.of("bucket", "multi_bucket", "truncate", "year", "month", "day", "hour");
    private static final long HOUR = 3_600_000_000L;
    private static final long DAY = 24 * HOUR;

    private WrittenKeys() {}

    /** Returns partition fields, as `Transforms` reads them, as what rows are brought together by. */
    static Expression[] of(JsonNode fields) {
        return Arrays.stream(Transforms.of(fields, PREFIX)).toArray(Expression[]::new);
    }

    static Optional<UnboundFunction> named(String name) {
        String lower = name.toLowerCase(Locale.ROOT);
        boolean isKnown = lower.startsWith(PREFIX) && TRANSFORMS.contains(lower.substring(PREFIX.length()));
        return isKnown ? Optional.of(new Unbound(lower.substring(PREFIX.length()))) : Optional.empty();
    }

    private record Unbound(String transform) implements UnboundFunction {
        @Override
        public BoundFunction bind(StructType arguments) {
            return new Key(transform, Arrays.stream(arguments.fields()).map(StructField::dataType).toArray(DataType[]::new));
        }

        @Override
        public String name() {
            return PREFIX + transform;
        }

        @Override
        public String description() {
            return name() + ": a partition field of lance-flight, by which a write brings rows together";
        }
    }

    private record Key(String transform, DataType[] types) implements ScalarFunction<Object> {
        @Override
        public DataType[] inputTypes() {
            return types;
        }

        @Override
        public DataType resultType() {
            return types[types.length - 1] instanceof StringType && transform.equals("truncate") ? DataTypes.StringType : DataTypes.LongType;
        }

        @Override
        public String name() {
            return PREFIX + transform;
        }

        @Override
        public Object produceResult(InternalRow row) {
            int last = types.length - 1;
            if (transform.endsWith("bucket")) {
                return bucket(row);
            } else if (row.isNullAt(last)) {
                return null;
            }
            Object value = row.get(last, types[last]);
            return transform.equals("truncate") ? truncated(row.getInt(0), value) : (Object) part(value);
        }

        private Long bucket(InternalRow row) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            boolean isNull = true;
            for (int i = 1; i < types.length; i++) {
                if (!row.isNullAt(i)) {
                    isNull = false;
                    bytes.writeBytes(encoded(row.get(i, types[i])));
                }
            }
            byte[] hashed = bytes.toByteArray();
            int hash = Murmur3_x86_32.hashUnsafeBytes2(hashed, Platform.BYTE_ARRAY_OFFSET, hashed.length, 0);
            return isNull ? null : Math.abs((long) hash) % row.getInt(0);
        }

        private static byte[] encoded(Object value) {
            if (value instanceof UTF8String text) {
                return text.getBytes();
            } else if (value instanceof byte[] bytes) {
                return bytes;
            } else if (value instanceof Decimal decimal) {
                return decimal.toJavaBigDecimal().unscaledValue().toByteArray();
            } else if (value instanceof Boolean flag) {
                return words(flag ? 1 : 0);
            } else if (value instanceof Double || value instanceof Float) {
                double number = ((Number) value).doubleValue();
                return words(Double.doubleToLongBits(number == 0 ? 0 : number));
            }
            return words(((Number) value).longValue());
        }

        private static byte[] words(long value) {
            return ByteBuffer.allocate(Long.BYTES).order(ByteOrder.LITTLE_ENDIAN).putLong(value).array();
        }

        private static Object truncated(int width, Object value) {
            if (value instanceof UTF8String text) {
                return text.substring(0, width);
            }
            long number = value instanceof Decimal decimal ? unscaled(decimal.toJavaBigDecimal()) : ((Number) value).longValue();
            return Math.floorDiv(number, (long) width);
        }

        private static long unscaled(BigDecimal value) {
            return value.unscaledValue().longValue();
        }

        private long part(Object value) {
            boolean isDate = types[types.length - 1] instanceof DateType;
            long micros = isDate ? 0 : ((Number) value).longValue();
            LocalDate day = LocalDate.ofEpochDay(isDate ? ((Number) value).longValue() : Math.floorDiv(micros, DAY));
            return switch (transform) {
                case "year" -> day.getYear();
                case "month" -> day.getMonthValue();
                case "day" -> day.getDayOfMonth();
                default -> Math.floorMod(micros, DAY) / HOUR;
            };
        }
    }
}
