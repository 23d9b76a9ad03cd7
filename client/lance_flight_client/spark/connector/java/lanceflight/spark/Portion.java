package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.read.InputPartition;

/** What a task of a scan reads, as Python has pickled it. */
class Portion implements InputPartition {
    private final byte[] pickled;

    Portion(byte[] pickled) {
        this.pickled = pickled;
    }

    /** Returns the portions of a planned scan. */
    static InputPartition[] of(JsonNode planned) {
        JsonNode portions = planned.get("portions");
        JsonNode keys = planned.get("keys");
        InputPartition[] found = new InputPartition[portions.size()];
        for (int i = 0; i < found.length; i++) {
            byte[] portion = Tasks.bytes(portions.get(i));
            found[i] = keys.isEmpty() ? new Portion(portion) : new KeyedPortion(portion, keys, planned.get("values").get(i));
        }
        return found;
    }

    byte[] pickled() {
        return pickled;
    }
}
