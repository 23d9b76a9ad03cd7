package lanceflight.spark;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Map;
import org.apache.spark.sql.connector.catalog.Column;
import org.apache.spark.sql.connector.catalog.ColumnDefaultValue;
import org.apache.spark.sql.connector.catalog.DefaultValue;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableInfo;
import org.apache.spark.sql.connector.catalog.constraints.Constraint;
import org.apache.spark.sql.connector.catalog.constraints.PrimaryKey;
import org.apache.spark.sql.connector.expressions.Expression;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.expressions.SortedBucketTransform;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.DataType;

/** Columns, transforms and changes of tables as JSON. */
final class Definitions {
    private Definitions() {}

    static ObjectNode table(ObjectNode arguments, TableInfo table) {
        ArrayNode constraints = arguments.putArray("constraints");
        for (Constraint constraint : table.constraints()) {
            put(constraints.addObject(), constraint);
        }
        return table(arguments, table.columns(), table.partitions(), table.properties());
    }

    static ObjectNode table(ObjectNode arguments, Column[] columns, Transform[] partitioning, Map<String, String> properties) {
        ArrayNode fields = arguments.putArray("columns");
        for (Column column : columns) {
            ObjectNode field = typed(fields.addObject().put("name", column.name()), column.dataType())
                .put("nullable", column.nullable()).put("comment", column.comment())
                .put("generated", column.generationExpression() != null || column.identityColumnSpec() != null);
            putDefault(field, column.defaultValue());
        }
        ArrayNode transforms = arguments.putArray("partitioning");
        for (Transform transform : partitioning) {
            ObjectNode node = transforms.addObject().put("transform", transform.name());
            if (transform instanceof SortedBucketTransform sorted) {
                // The number of buckets and their columns; what follows them is what rows are sorted by.
                node.put("columns", sorted.columns().size() + 1);
            }
            node.set("arguments", ExpressionNodes.of(transform.arguments()));
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
            typed(node.put("change", "add"), add.dataType()).put("nullable", add.isNullable()).put("comment", add.comment());
            if (add.position() != null) {
                put(node.putObject("position"), add.position());
            }
            putDefault(node, add.defaultValue());
        } else if (change instanceof TableChange.RenameColumn rename) {
            node.put("change", "rename").put("to", rename.newName());
        } else if (change instanceof TableChange.DeleteColumn) {
            node.put("change", "drop");
        } else if (change instanceof TableChange.UpdateColumnType type) {
            typed(node.put("change", "type"), type.newDataType());
        } else if (change instanceof TableChange.UpdateColumnNullability nullability) {
            node.put("change", "nullable").put("nullable", nullability.nullable());
        } else if (change instanceof TableChange.UpdateColumnComment comment) {
            node.put("change", "comment").put("comment", comment.newComment());
        } else if (change instanceof TableChange.UpdateColumnPosition moved) {
            put(node.put("change", "move").putObject("position"), moved.position());
        } else if (change instanceof TableChange.UpdateColumnDefaultValue value) {
            putDefault(node.put("change", "default"), value.newCurrentDefault());
        } else if (change instanceof TableChange.AddConstraint added) {
            put(node.put("change", "add_constraint").putObject("constraint"), added.constraint());
        } else if (change instanceof TableChange.DropConstraint dropped) {
            node.put("change", "drop_constraint").put("name", dropped.name()).put("if_exists", dropped.ifExists());
        } else if (change instanceof TableChange.ClusterBy clustered) {
            ArrayNode columns = node.put("change", "cluster_by").put("name", "CLUSTER BY").putArray("columns");
            for (NamedReference column : clustered.clusteringColumns()) {
                columns.add(Planner.names(column.fieldNames()));
            }
        } else if (change instanceof TableChange.SetProperty property) {
            node.put("change", "property").put("name", property.property()).put("value", property.value());
        } else if (change instanceof TableChange.RemoveProperty property) {
            node.put("change", "property").put("name", property.property());
        } else {
            node.put("change", "other").put("name", change.getClass().getSimpleName());
        }
    }

    /** Puts a type, whose JSON leaves out the collation of texts. */
    private static ObjectNode typed(ObjectNode node, DataType type) {
        String shown = type.catalogString().replace(" collate UTF8_BINARY", "");
        return node.put("type", type.json()).put("collated", shown.contains(" collate ") ? shown : null);
    }

    private static void put(ObjectNode node, TableChange.ColumnPosition position) {
        node.put("after", position instanceof TableChange.After after ? after.column() : null);
    }

    private static void put(ObjectNode node, Constraint constraint) {
        node.put("name", constraint.name()).put("definition", constraint.toDDL());
        if (constraint instanceof PrimaryKey key) {
            ArrayNode columns = node.putArray("columns");
            for (NamedReference column : key.columns()) {
                columns.add(Planner.names(column.fieldNames()));
            }
        }
    }

    private static void putDefault(ObjectNode node, DefaultValue value) {
        if (value != null) {
            Expression found = value instanceof ColumnDefaultValue column ? column.getValue() : value.getExpression();
            node.put("sql", value.getSql()).set("default", found == null ? PlannerProcess.JSON.createObjectNode() : ExpressionNodes.of(found));
        }
    }
}
