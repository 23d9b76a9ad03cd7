package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.Serializable;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What a catalog asks Python, with the catalog's own options beside every request. */
final class Planner implements Serializable {
    private static final String PYTHON = "python";

    private final String catalog;
    private final TreeMap<String, String> options;

    Planner(String catalog, CaseInsensitiveStringMap options) {
        this.catalog = catalog;
        this.options = new TreeMap<>(options.asCaseSensitiveMap());
    }

    String catalog() {
        return catalog;
    }

    static ObjectNode arguments() {
        return PlannerProcess.JSON.createObjectNode();
    }

    static ObjectNode arguments(String[] namespace) {
        ObjectNode arguments = arguments();
        arguments.set("namespace", names(namespace));
        return arguments;
    }

    static ObjectNode arguments(Identifier table) {
        return arguments(table.namespace()).put("name", table.name());
    }

    static ArrayNode names(String[] names) {
        ArrayNode node = PlannerProcess.JSON.createArrayNode();
        for (String name : names) {
            node.add(name);
        }
        return node;
    }

    static String[] strings(JsonNode node) {
        String[] strings = new String[node.size()];
        for (int i = 0; i < strings.length; i++) {
            strings[i] = node.get(i).asText();
        }
        return strings;
    }

    JsonNode ask(String method, ObjectNode arguments) {
        ObjectNode given = arguments.putObject("options");
        options.forEach((name, text) -> {
            if (!name.equalsIgnoreCase(PYTHON)) {
                given.put(name, text);
            }
        });
        return PlannerProcess.of(driverPython()).ask(method, arguments);
    }

    /** Returns the Python of the driver: the catalog's own option, or the one that PySpark would take. */
    private String driverPython() {
        return first(options.get(PYTHON), setting("spark.pyspark.driver.python"), setting("spark.pyspark.python"),
            System.getenv("PYSPARK_DRIVER_PYTHON"), System.getenv("PYSPARK_PYTHON"), "python3");
    }

    /** Returns the Python of the executors, as PySpark chooses it. */
    String workerPython() {
        return first(setting("spark.pyspark.python"), System.getenv("PYSPARK_PYTHON"), options.get(PYTHON), "python3");
    }

    private static String setting(String name) {
        return SparkEnv.get().conf().get(name, null);
    }

    private static String first(String... names) {
        for (String name : names) {
            if (name != null && !name.isEmpty()) {
                return name;
            }
        }
        throw new AssertionError("the last one is a constant");
    }

    /** Puts texts by their names below one name. */
    static ObjectNode with(ObjectNode arguments, String name, Map<String, String> texts) {
        ObjectNode given = arguments.putObject(name);
        texts.forEach(given::put);
        return arguments;
    }

    static TreeMap<String, String> texts(JsonNode node) {
        TreeMap<String, String> texts = new TreeMap<>();
        node.fieldNames().forEachRemaining(name -> texts.put(name, node.get(name).asText()));
        return texts;
    }
}
