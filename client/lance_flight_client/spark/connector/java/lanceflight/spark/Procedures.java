package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** The procedures of `CALL catalog.system.name(…)`: their parameters are texts, and what Python reports is texts, too. */
final class Procedures {
    private static final String NAMESPACE = "system";

    private Procedures() {}

    static Identifier[] all(Planner planner) {
        List<Identifier> found = new ArrayList<>();
        planner.ask("procedures", Planner.arguments())
            .forEach(name -> found.add(Identifier.of(new String[] {NAMESPACE}, name.asText())));
        return found.toArray(new Identifier[0]);
    }

    static UnboundProcedure named(Planner planner, Identifier name) {
        try {
            JsonNode known = planner.ask("load_procedure", Planner.arguments(name.namespace()).put("procedure", name.name()));
            return new Procedure(planner, known.get("name").asText(), known);
        } catch (LanceFlightException exc) {
            // Spark would say that there is none, and not which there are.
            throw exc.unsupported();
        }
    }

    private record Procedure(Planner planner, String name, JsonNode known) implements UnboundProcedure, BoundProcedure {
        @Override
        public String description() {
            return known.get("description").asText();
        }

        @Override
        public BoundProcedure bind(StructType given) {
            return this;
        }

        @Override
        public ProcedureParameter[] parameters() {
            JsonNode given = known.get("parameters");
            ProcedureParameter[] parameters = new ProcedureParameter[given.size()];
            for (int i = 0; i < parameters.length; i++) {
                ProcedureParameter.Builder parameter = ProcedureParameter.in(given.get(i).get("name").asText(),
                    DataType.fromDDL(given.get(i).get("type").asText()));
                parameters[i] = given.get(i).get("required").asBoolean() ? parameter.build() : parameter.defaultValue("NULL").build();
            }
            return parameters;
        }

        @Override
        public boolean isDeterministic() {
            return false;
        }

        @Override
        public Iterator<Scan> call(InternalRow input) {
            ObjectNode arguments = Planner.arguments().put("procedure", name).put("catalog", planner.catalog());
            ArrayNode values = arguments.putArray("values");
            for (int i = 0; i < known.get("parameters").size(); i++) {
                Object value = input.isNullAt(i) ? null : input.get(i, parameters()[i].dataType());
                values.add(value == null ? null : value instanceof MapData map ? texts(map) : value.toString());
            }
            JsonNode answer = planner.ask("call", arguments);
            if (answer.has("view")) {
                StringBuilder of = new StringBuilder(quoted(planner.catalog()));
                answer.get("of").forEach(part -> of.append('.').append(quoted(part.asText())));
                SparkSession.active().sql(
                    "CREATE OR REPLACE TEMPORARY VIEW " + quoted(answer.get("view").asText()) + " AS SELECT * FROM " + of);
            }
            if (answer.has("run")) {
                SparkSession.active().sql(answer.get("run").asText());
            }
            return List.<Scan>of(new Report(answer)).iterator();
        }

        private static String quoted(String name) {
            return '`' + name.replace("`", "``") + '`';
        }

        private static String texts(MapData map) {
            ObjectNode texts = Planner.arguments();
            for (int i = 0; i < map.numElements(); i++) {
                texts.put(map.keyArray().getUTF8String(i).toString(), String.valueOf(map.valueArray().getUTF8String(i)));
            }
            return texts.toString();
        }
    }

    /** What a procedure has done, as rows. */
    private record Report(JsonNode answer) implements LocalScan {
        @Override
        public StructType readSchema() {
            StructType schema = new StructType();
            for (String column : Planner.strings(answer.get("columns"))) {
                schema = schema.add(column, DataTypes.StringType);
            }
            return schema;
        }

        @Override
        public InternalRow[] rows() {
            InternalRow[] rows = new InternalRow[answer.get("rows").size()];
            for (int i = 0; i < rows.length; i++) {
                JsonNode row = answer.get("rows").get(i);
                Object[] values = new Object[row.size()];
                for (int j = 0; j < values.length; j++) {
                    values[j] = row.get(j).isNull() ? null : UTF8String.fromString(row.get(j).asText());
                }
                rows[i] = new GenericInternalRow(values);
            }
            return rows;
        }
    }
}
