package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.spark.JobArtifactSet;
import org.apache.spark.api.python.SimplePythonFunction;
import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.PythonBatchWriterFactory;
import org.apache.spark.sql.execution.datasources.v2.python.UserDefinedPythonDataSource;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/** The tasks of a write in Spark's Python workers, run by the machinery of its Python data sources. */
final class Tasks {
    private Tasks() {}

    static DataWriterFactory writers(Planner planner, JsonNode begun, StructType columns) {
        return new PackedWriter.Factory(new PythonBatchWriterFactory(worker(planner, begun), bytes(begun.get("function")),
            RowPacker.PACKED, artifacts(), Option.empty()), columns, bytes(begun.get("columns")));
    }

    private static UserDefinedPythonDataSource worker(Planner planner, JsonNode planned) {
        return new UserDefinedPythonDataSource(new SimplePythonFunction(new byte[0], Map.of(), List.of(),
            planner.workerPython(), planned.get("python").asText(), List.of(), null));
    }

    private static Option<String> artifacts() {
        var state = JobArtifactSet.getCurrentJobArtifactState();
        return state.isDefined() ? Option.apply(state.get().uuid()) : Option.empty();
    }

    static byte[] bytes(JsonNode node) {
        try {
            return node.binaryValue();
        } catch (IOException exc) {
            throw new LanceFlightException("Python sent no base64: " + exc.getMessage(), exc);
        }
    }
}
