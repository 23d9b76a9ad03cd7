package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.Transform;

/** Partition fields as Spark's transforms: `{"transform": "bucket", "arguments": [16], "columns": [["id"]]}`. */
final class Transforms {
    private Transforms() {}

    static Transform[] of(JsonNode fields) {
        return of(fields, "");
    }

    /** Returns fields by functions whose names begin with `prefix`; columns themselves have none. */
    static Transform[] of(JsonNode fields, String prefix) {
        Transform[] transforms = new Transform[fields.size()];
        for (int i = 0; i < transforms.length; i++) {
            String name = fields.get(i).get("transform").asText();
            transforms[i] = transform(fields.get(i), name.equals("identity") ? name : prefix + name);
        }
        return transforms;
    }

    private static Transform transform(JsonNode field, String name) {
        JsonNode columns = field.get("columns");
        JsonNode numbers = field.get("arguments");
        if (name.equals("identity")) {
            return Expressions.identity(quoted(columns.get(0)));
        }
        Expression[] arguments = new Expression[numbers.size() + columns.size()];
        for (int i = 0; i < numbers.size(); i++) {
            arguments[i] = Expressions.literal(numbers.get(i).isNumber() ? numbers.get(i).asInt() : numbers.get(i).asText());
        }
        for (int i = 0; i < columns.size(); i++) {
            arguments[numbers.size() + i] = Expressions.column(quoted(columns.get(i)));
        }
        if (name.equals("bucket") && columns.size() == 1) {
            return Expressions.bucket(numbers.get(0).asInt(), quoted(columns.get(0)));
        }
        return Expressions.apply(name, arguments);
    }

    static NamedReference column(JsonNode column) {
        return Expressions.column(quoted(column));
    }

    /** Returns a column, or a field inside one, as Spark parses it: no name holds a dot. */
    private static String quoted(JsonNode column) {
        return "`" + column.asText().replace("`", "``").replace(".", "`.`") + "`";
    }
}
