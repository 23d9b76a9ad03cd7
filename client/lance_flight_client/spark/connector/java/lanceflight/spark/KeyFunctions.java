package lanceflight.spark;

import java.io.Serializable;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.apache.spark.sql.connector.catalog.functions.BoundFunction;
import org.apache.spark.sql.connector.catalog.functions.Reducer;
import org.apache.spark.sql.connector.catalog.functions.ReducibleFunction;
import org.apache.spark.sql.connector.catalog.functions.UnboundFunction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * The transforms by which tables are keyed, as functions that Spark compares and reduces, and never computes.
 *
 * <p>Their names are this service's own: its buckets hash otherwise than those of Spark and of other formats.
 */
final class KeyFunctions {
    private static final List<String> MOMENTS = List.of("years", "months", "days", "hours");
    private static final long RADIX = 100;

    private KeyFunctions() {}

    static String[] names() {
        return new String[] {"bucket", "years", "months", "days", "hours"};
    }

    static Optional<UnboundFunction> of(String name) {
        String lower = name.toLowerCase(Locale.ROOT);
        if (lower.equals("bucket")) {
            return Optional.of(new Unbound(lower, new Bucket()));
        }
        return MOMENTS.contains(lower) ? Optional.of(new Unbound(lower, new Moment(MOMENTS.indexOf(lower)))) : Optional.empty();
    }

    private record Unbound(String name, BoundFunction function) implements UnboundFunction {
        @Override
        public BoundFunction bind(StructType arguments) {
            StructField[] fields = arguments.fields();
            return function instanceof Bucket ? new Bucket(fields[fields.length - 1].dataType()) : function;
        }

        @Override
        public String description() {
            return name + ": a partition field of lance-flight";
        }
    }

    /** `bucket(n, column)`: of two counts with a common divisor both are brought to that. */
    private record Bucket(DataType column) implements BoundFunction, ReducibleFunction<Integer, Integer>, Serializable {
        Bucket() {
            this(DataTypes.LongType);
        }

        @Override
        public DataType[] inputTypes() {
            return new DataType[] {DataTypes.IntegerType, column};
        }

        @Override
        public DataType resultType() {
            return DataTypes.IntegerType;
        }

        @Override
        public String name() {
            return "bucket";
        }

        @Override
        public String canonicalName() {
            return "lance_flight.bucket(" + column.catalogString() + ")";
        }

        @Override
        public Reducer<Integer, Integer> reducer(int count, ReducibleFunction<?, ?> other, int otherCount) {
            if (!equals(other)) {
                return null;
            }
            int common = divisor(count, otherCount);
            return common > 1 && common != count ? new BucketReducer(common) : null;
        }

        private static int divisor(int a, int b) {
            return b == 0 ? a : divisor(b, a % b);
        }
    }

    /** Sent to the tasks by Spark 4.1. */
    private record BucketReducer(int count) implements Reducer<Integer, Integer>, Serializable {
        @Override
        public Integer reduce(Integer bucket) {
            return bucket == null ? null : Math.abs(bucket) % count;
        }

        // Spark 4.1 does not ask for it.
        public DataType resultType() {
            return DataTypes.IntegerType;
        }

        // Spark 4.1 does not ask for it.
        public String displayName() {
            return "lance_flight.bucket modulo " + count;
        }
    }

    /** `years(column)` … `hours(column)`: parts of a moment as one number, of which a coarser one is the beginning. */
    private record Moment(int depth) implements BoundFunction, ReducibleFunction<Long, Long>, Serializable {
        @Override
        public DataType[] inputTypes() {
            return new DataType[] {DataTypes.TimestampType};
        }

        @Override
        public DataType resultType() {
            return DataTypes.LongType;
        }

        @Override
        public String name() {
            return MOMENTS.get(depth);
        }

        @Override
        public String canonicalName() {
            return "lance_flight." + name();
        }

        @Override
        public Reducer<Long, Long> reducer(ReducibleFunction<?, ?> other) {
            return other instanceof Moment coarser && coarser.depth < depth ? new MomentReducer(depth - coarser.depth) : null;
        }
    }

    /** Sent to the tasks by Spark 4.1. */
    private record MomentReducer(int parts) implements Reducer<Long, Long>, Serializable {
        @Override
        public Long reduce(Long moment) {
            if (moment == null) {
                return null;
            }
            long reduced = moment;
            for (int i = 0; i < parts; i++) {
                reduced = Math.floorDiv(reduced, RADIX);
            }
            return reduced;
        }

        // Spark 4.1 does not ask for it.
        public DataType resultType() {
            return DataTypes.LongType;
        }

        // Spark 4.1 does not ask for it.
        public String displayName() {
            return "lance_flight moment without its last " + parts + " parts";
        }
    }
}
