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
 * What Spark's generated code calls is public.
 */
public final class WrittenKeys {
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
            DataType[] types = Arrays.stream(arguments.fields()).map(StructField::dataType).toArray(DataType[]::new);
            return switch (transform) {
                case "bucket", "multi_bucket" -> new Bucket(name(), types);
                case "truncate" -> new Truncation(name(), types);
                default -> new Moment(name(), transform, types);
            };
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

    /** `bucket(n, column)` and `multi_bucket(n, column, …)`: the hash of the columns' bytes, NULL where all of them are. */
    public record Bucket(String name, DataType[] inputTypes) implements ScalarFunction<Long> {
        @Override
        public DataType resultType() {
            return DataTypes.LongType;
        }

        /** Spark calls `invoke` where the arguments have its types, and not for NULL; `produceResult` for all others. */
        public long invoke(int count, long value) {
            return among(count, Murmur3_x86_32.hashLong(value, 0));
        }

        public long invoke(int count, int value) {
            return invoke(count, (long) value);
        }

        @Override
        public Long produceResult(InternalRow row) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            boolean isNull = true;
            for (int i = 1; i < inputTypes.length; i++) {
                if (!row.isNullAt(i)) {
                    isNull = false;
                    bytes.writeBytes(encoded(row.get(i, inputTypes[i])));
                }
            }
            byte[] hashed = bytes.toByteArray();
            int hash = Murmur3_x86_32.hashUnsafeBytes2(hashed, Platform.BYTE_ARRAY_OFFSET, hashed.length, 0);
            return isNull ? null : among(row.getInt(0), hash);
        }

        private static long among(int count, int hash) {
            return Math.abs((long) hash) % count;
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
    }

    /** `truncate(width, column)`: the beginning of a text, or the number of the step that a number lies in. */
    private record Truncation(String name, DataType[] inputTypes) implements ScalarFunction<Object> {
        @Override
        public DataType resultType() {
            return inputTypes[1] instanceof StringType ? DataTypes.StringType : DataTypes.LongType;
        }

        @Override
        public Object produceResult(InternalRow row) {
            Object value = row.get(1, inputTypes[1]);
            if (value == null) {
                return null;
            } else if (value instanceof UTF8String text) {
                return text.substring(0, row.getInt(0));
            }
            long number = value instanceof Decimal decimal ? unscaled(decimal.toJavaBigDecimal()) : ((Number) value).longValue();
            return Math.floorDiv(number, (long) row.getInt(0));
        }

        private static long unscaled(BigDecimal value) {
            return value.unscaledValue().longValue();
        }
    }

    /** `year(column)` … `hour(column)` of a date in days, or of a timestamp in microseconds. */
    public record Moment(String name, String part, DataType[] inputTypes) implements ScalarFunction<Long> {
        @Override
        public DataType resultType() {
            return DataTypes.LongType;
        }

        public long invoke(int day) {
            return part(day, 0);
        }

        public long invoke(long micros) {
            return part(Math.floorDiv(micros, DAY), Math.floorMod(micros, DAY));
        }

        @Override
        public Long produceResult(InternalRow row) {
            if (row.isNullAt(0)) {
                return null;
            }
            return inputTypes[0] instanceof DateType ? invoke(row.getInt(0)) : invoke(row.getLong(0));
        }

        private long part(long day, long microsOfDay) {
            return switch (part) {
                case "year" -> LocalDate.ofEpochDay(day).getYear();
                case "month" -> LocalDate.ofEpochDay(day).getMonthValue();
                case "day" -> LocalDate.ofEpochDay(day).getDayOfMonth();
                default -> microsOfDay / HOUR;
            };
        }
    }
}
