package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.read.HasPartitionKey;
import org.apache.spark.unsafe.types.UTF8String;

/** A portion whose rows have one partition key. */
final class KeyedPortion extends Portion implements HasPartitionKey {
    private final Object[] key;

    KeyedPortion(byte[] pickled, JsonNode keys, JsonNode values) {
        super(pickled);
        key = new Object[keys.size()];
        for (int i = 0; i < key.length; i++) {
            key[i] = value(keys.get(i).get("type").asText(), values.get(i));
        }
    }

    @Override
    public InternalRow partitionKey() {
        return new GenericInternalRow(key);
    }

    private static Object value(String type, JsonNode value) {
        if (value.isNull()) {
            return null;
        }
        return switch (type) {
            case "byte" -> (byte) value.asInt();
            case "short" -> (short) value.asInt();
            case "integer", "date" -> value.asInt();
            case "long" -> value.asLong();
            case "boolean" -> value.asBoolean();
            default -> UTF8String.fromString(value.asText());
        };
    }
}
