package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.UUID;
import org.apache.spark.sql.connector.read.InputPartition;
import org.apache.spark.sql.connector.read.PartitionReaderFactory;
import org.apache.spark.sql.connector.read.streaming.MicroBatchStream;
import org.apache.spark.sql.connector.read.streaming.Offset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.ReadMaxFiles;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;

/** A stream of the rows that are added to a table; Python knows what its offsets mean, and keeps a lease on what a batch reads. */
final class TableStream implements MicroBatchStream, SupportsTriggerAvailableNow {
    private final Planner planner;
    private final JsonNode opened;
    private final String number = UUID.randomUUID().toString();
    private JsonNode until;

    TableStream(LanceFlightTable table) {
        planner = table.planner();
        ObjectNode arguments = Planner.arguments().put("handle", table.handle());
        opened = planner.ask("open_stream", Planner.with(arguments, "stream_options", table.options().asCaseSensitiveMap()));
    }

    /** A place in the history of a table, as the checkpoint keeps it. */
    private static final class Place extends Offset {
        private final JsonNode place;

        Place(JsonNode place) {
            this.place = place;
        }

        @Override
        public String json() {
            return place.toString();
        }
    }

    private ObjectNode arguments() {
        return Planner.arguments().put("stream", number).put("plan", opened.get("plan").asText());
    }

    @Override
    public Offset initialOffset() {
        return new Place(opened.get("initial"));
    }

    @Override
    public Offset deserializeOffset(String json) {
        return new Place(parsed(json));
    }

    private static JsonNode parsed(String json) {
        try {
            return PlannerProcess.JSON.readTree(json);
        } catch (IOException exc) {
            throw new LanceFlightException("the checkpoint holds an offset that is no JSON: " + json, exc);
        }
    }

    @Override
    public ReadLimit getDefaultReadLimit() {
        // Spark has no limit of snapshots; that of files is what it hands back as it was given.
        return ReadLimit.maxFiles(opened.get("versions_per_trigger").asInt());
    }

    @Override
    public void prepareForTriggerAvailableNow() {
        until = planner.ask("newest_offset", arguments());
    }

    @Override
    public Offset latestOffset() {
        throw new UnsupportedOperationException("an offset follows another one, within a limit");
    }

    @Override
    public Offset latestOffset(Offset start, ReadLimit limit) {
        ObjectNode arguments = arguments();
        arguments.set("start", parsed(start.json()));
        arguments.set("until", until);
        if (limit instanceof ReadMaxFiles most) {
            arguments.put("most", most.maxFiles());
        }
        return new Place(planner.ask("next_offset", arguments));
    }

    @Override
    public Offset reportLatestOffset() {
        return new Place(planner.ask("newest_offset", arguments()));
    }

    @Override
    public InputPartition[] planInputPartitions(Offset start, Offset end) {
        ObjectNode arguments = arguments();
        arguments.set("start", parsed(start.json()));
        arguments.set("end", parsed(end.json()));
        return Portion.of(planner.ask("plan_batch", arguments));
    }

    @Override
    public PartitionReaderFactory createReaderFactory() {
        return new PortionReader.Factory(planner.workerPython());
    }

    @Override
    public void commit(Offset end) {
        planner.ask("release_stream", arguments());
    }

    @Override
    public void stop() {
        planner.ask("close_stream", arguments());
    }
}
