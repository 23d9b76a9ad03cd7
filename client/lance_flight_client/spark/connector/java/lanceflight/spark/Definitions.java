package lanceflight.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;

/** Columns, transforms and changes of tables as JSON. */
final class Definitions {
    private Definitions() {}

    static ObjectNode table(ObjectNode arguments, Column[] columns, Transform[] partitioning, Map<String, String> properties) {
        ArrayNode fields = arguments.putArray("columns");
        for (Column column : columns) {
            ObjectNode field = fields.addObject().put("name", column.name()).put("type", column.dataType().json())
                .put("nullable", column.nullable()).put("comment", column.comment());
            putDefault(field, column.defaultValue());
        }
        ArrayNode transforms = arguments.putArray("partitioning");
        for (Transform transform : partitioning) {
            transforms.addObject().put("transform", transform.name()).set("arguments", ExpressionNodes.of(transform.arguments()));
        }
        return Planner.with(arguments, "properties", properties);
    }

    static ObjectNode changes(ObjectNode arguments, TableChange... changes) {
        ArrayNode nodes = arguments.putArray("changes");
        for (TableChange change : changes) {
            put(nodes.addObject(), change);
        }
        return arguments;
    }

    private static void put(ObjectNode node, TableChange change) {
        if (change instanceof TableChange.ColumnChange column) {
            node.set("column", Planner.names(column.fieldNames()));
        }
        if (change instanceof TableChange.AddColumn add) {
            node.put("change", "add").put("type", add.dataType().json()).put("nullable", add.isNullable())
                .put("comment", add.comment()).put("position", add.position() == null ? null : add.position().toString());
            putDefault(node, add.defaultValue());
        } else if (change instanceof TableChange.RenameColumn rename) {
            node.put("change", "rename").put("to", rename.newName());
        } else if (change instanceof TableChange.DeleteColumn) {
            node.put("change", "drop");
        } else if (change instanceof TableChange.UpdateColumnType type) {
            node.put("change", "type").put("type", type.newDataType().json());
        } else if (change instanceof TableChange.UpdateColumnNullability nullability) {
            node.put("change", "nullable").put("nullable", nullability.nullable());
        } else if (change instanceof TableChange.UpdateColumnComment comment) {
            node.put("change", "comment").put("comment", comment.newComment());
        } else if (change instanceof TableChange.SetProperty property) {
            node.put("change", "property").put("name", property.property()).put("value", property.value());
        } else if (change instanceof TableChange.RemoveProperty property) {
            node.put("change", "property").put("name", property.property());
        } else {
            node.put("change", "other").put("name", change.getClass().getSimpleName());
        }
    }

    private static void putDefault(ObjectNode node, ColumnDefaultValue value) {
        if (value != null) {
            node.set("default", value.getValue() == null ? PlannerProcess.JSON.createObjectNode()
                : ExpressionNodes.of(value.getValue()));
        }
    }
}
