package lanceflight.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Base64;
import org.apache.spark.sql.connector.expressions.Cast;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.Extract;
import org.apache.spark.sql.connector.expressions.GeneralScalarExpression;
import org.apache.spark.sql.connector.expressions.Literal;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Count;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.expressions.aggregate.Max;
import org.apache.spark.sql.connector.expressions.aggregate.Min;

/** Spark's expressions as JSON: columns, literals, and functions of these by their names; anything else is `{}`. */
final class ExpressionNodes {
    private ExpressionNodes() {}

    static ArrayNode of(Expression[] expressions) {
        ArrayNode nodes = PlannerProcess.JSON.createArrayNode();
        for (Expression each : expressions) {
            nodes.add(of(each));
        }
        return nodes;
    }

    static ObjectNode of(Expression expression) {
        ObjectNode node = PlannerProcess.JSON.createObjectNode();
        if (expression instanceof NamedReference reference) {
            node.set("column", Planner.names(reference.fieldNames()));
        } else if (expression instanceof Literal<?> literal) {
            node.put("type", literal.dataType().json()).put("literal", text(literal.value()));
        } else if (expression instanceof Cast cast) {
            node.put("function", "CAST").put("type", cast.dataType().json());
            node.set("arguments", of(cast.children()));
        } else if (expression instanceof Extract part) {
            node.put("function", "EXTRACT").put("field", part.field());
            node.set("arguments", of(part.children()));
        } else if (expression instanceof GeneralScalarExpression call) {
            node.put("function", call.name());
            node.set("arguments", of(call.children()));
        } else if (expression instanceof AggregateFunc aggregate) {
            node.put("function", name(aggregate));
            node.put("distinct", aggregate instanceof Count count && count.isDistinct());
            node.set("arguments", of(aggregate.children()));
        }
        return node;
    }

    private static String name(AggregateFunc aggregate) {
        if (aggregate instanceof CountStar) {
            return "COUNT_STAR";
        } else if (aggregate instanceof Count) {
            return "COUNT";
        } else if (aggregate instanceof Min) {
            return "MIN";
        }
        return aggregate instanceof Max ? "MAX" : "";
    }

    /** Returns a value as Spark holds it: days of a date, microseconds of a moment, binary in base64. */
    private static String text(Object value) {
        if (value == null) {
            return null;
        }
        return value instanceof byte[] bytes ? Base64.getEncoder().encodeToString(bytes) : value.toString();
    }
}
