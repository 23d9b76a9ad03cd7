import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.ParameterMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Time;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Calls the Flight SQL JDBC driver in every way that the tests want to know of, and prints one line `name = value`, or
 * `name ! error`, for each call. Arguments: the URL, and a file with lines `table TAB literal`, one for each type.
 */
public final class Conformance {
  /** What differs from run to run. */
  private static final Set<String> VARYING =
      Set.of("getURL", "getConnection", "getDatabaseProductVersion", "getDriverVersion", "toString", "hashCode");

  /** What grows with the SQL that is offered. */
  private static final Set<String> LISTS =
      Set.of("getSQLKeywords", "getNumericFunctions", "getStringFunctions", "getSystemFunctions", "getTimeDateFunctions");

  private interface Call {
    Object run() throws Exception;
  }

  private interface Compaction {
    Object of(String sql) throws Exception;
  }

  private final Connection connection;

  private Conformance(Connection connection) {
    this.connection = connection;
  }

  static void main(String[] arguments) throws Exception {
    try (Connection connection = DriverManager.getConnection(arguments[0])) {
      Conformance conformance = new Conformance(connection);
      conformance.metadata();
      conformance.session();
      conformance.statements();
      conformance.prepared();
      conformance.transactions();
      say("a catalog in the URL", () -> flights(arguments[0] + "&catalog=lance"));
      say("a catalog that is not there", () -> flights(arguments[0] + "&catalog=nowhere"));
      for (String line : Files.readAllLines(Path.of(arguments[1]))) {
        String[] parts = line.split("\t");
        conformance.type(parts[0], parts[1]);
      }
    }
  }

  private static String flights(String url) throws SQLException {
    Connection other = DriverManager.getConnection(url);
    try (Statement statement = other.createStatement()) {
      return rows(statement.executeQuery("SELECT id FROM flights ORDER BY id"));
    } finally {
      try {
        other.close();
      } catch (SQLException closedTwice) {
        // the driver closes a session with a catalog once more after its channel
      }
    }
  }

  private void metadata() throws SQLException {
    DatabaseMetaData metadata = connection.getMetaData();
    Stream.of(DatabaseMetaData.class.getDeclaredMethods())
        .filter(method -> method.getParameterCount() == 0 && !VARYING.contains(method.getName()))
        .sorted(Comparator.comparing(Method::getName))
        .forEach(method -> say(method.getName(), () -> {
          Object value = method.invoke(metadata);
          return LISTS.contains(method.getName()) ? ((String) value).split(", ").length > 5 : value;
        }));
    say("getTables", () -> metadata.getTables(null, null, "flights", null));
    say("getTables of a type", () -> metadata.getTables("lance", "public", "flight%", new String[] {"VIEW"}));
    say("getColumns", () -> metadata.getColumns("lance", "pub%", "flights", "%"));
    say("getColumns of a name", () -> metadata.getColumns(null, null, "flights", "p%"));
    say("getSchemas of a pattern", () -> metadata.getSchemas("lance", "o%"));
    say("getPrimaryKeys", () -> metadata.getPrimaryKeys("lance", "public", "flights"));
    say("getImportedKeys", () -> metadata.getImportedKeys("lance", "public", "flights"));
    say("getExportedKeys", () -> metadata.getExportedKeys("lance", "public", "flights"));
    say("getCrossReference", () -> metadata.getCrossReference(null, null, "flights", null, null, "planes"));
    say("getIndexInfo", () -> metadata.getIndexInfo("lance", "public", "flights", false, false));
    say("getBestRowIdentifier", () -> metadata.getBestRowIdentifier("lance", "public", "flights", 0, true));
    say("getVersionColumns", () -> metadata.getVersionColumns("lance", "public", "flights"));
    say("getTablePrivileges", () -> metadata.getTablePrivileges("lance", "public", "flights"));
    say("getColumnPrivileges", () -> metadata.getColumnPrivileges("lance", "public", "flights", "%"));
    say("getProcedures", () -> metadata.getProcedures(null, null, "%"));
    say("getProcedureColumns", () -> metadata.getProcedureColumns(null, null, "%", "%"));
    say("getFunctions", () -> metadata.getFunctions(null, null, "%"));
    say("getFunctionColumns", () -> metadata.getFunctionColumns(null, null, "%", "%"));
    say("getUDTs", () -> metadata.getUDTs(null, null, "%", null));
    say("getSuperTables", () -> metadata.getSuperTables(null, null, "%"));
    say("getSuperTypes", () -> metadata.getSuperTypes(null, null, "%"));
    say("getAttributes", () -> metadata.getAttributes(null, null, "%", "%"));
    say("getPseudoColumns", () -> metadata.getPseudoColumns(null, null, "%", "%"));
    say("supportsConvert of types", () -> metadata.supportsConvert(Types.INTEGER, Types.VARCHAR));
    int serializable = Connection.TRANSACTION_SERIALIZABLE;
    say("supportsTransactionIsolationLevel", () -> metadata.supportsTransactionIsolationLevel(serializable));
    int forward = ResultSet.TYPE_FORWARD_ONLY;
    say("supportsResultSetType", () -> metadata.supportsResultSetType(forward));
    int readOnly = ResultSet.CONCUR_READ_ONLY;
    say("supportsResultSetConcurrency", () -> metadata.supportsResultSetConcurrency(forward, readOnly));
    say("supportsResultSetHoldability", () -> metadata.supportsResultSetHoldability(1));
    say("ownInsertsAreVisible", () -> metadata.ownInsertsAreVisible(forward));
  }

  private void session() {
    say("isValid", () -> connection.isValid(5));
    say("autocommit", connection::getAutoCommit);
    say("isolation", connection::getTransactionIsolation);
    say("nativeSQL", () -> connection.nativeSQL("SELECT 1"));
  }

  private void statements() {
    say("query", () -> query("SELECT id, price, carrier, at FROM flights ORDER BY id"));
    say("columns of a query", () -> columns("SELECT id, price, carrier, at FROM flights"));
    say("another schema", () -> query("SELECT id FROM other.planes"));
    say("create", () -> update("CREATE TABLE made (a bigint, b varchar)"));
    say("insert", () -> update("INSERT INTO made VALUES (1, 'x'), (2, 'y')"));
    say("delete", () -> update("DELETE FROM made WHERE a = 1"));
    say("explain is a query", () -> query("EXPLAIN SELECT 1").startsWith("[logical_plan"));
    say("describe is a query", () -> query("DESCRIBE made"));
    say("execute of an update", () -> execute("INSERT INTO made VALUES (3, NULL)"));
    say("execute of a query", () -> execute("SELECT count(*) FROM made"));
    say("an empty result", () -> query("SELECT a FROM made WHERE a > 100"));
    say("wrong SQL", () -> query("SELECT nope FROM made"));
    say("cancel", this::cancel);
    say("maintenance by executeUpdate", () -> maintained(sql -> update(sql)));
    say("maintenance by execute", () -> maintained(sql -> execute(sql).isEmpty()));
    say("maintenance by executeQuery", () -> maintained(sql -> query(sql).isEmpty()));
    say("prepared maintenance", () -> maintained(sql -> {
      try (PreparedStatement statement = connection.prepareStatement(sql)) {
        return statement.execute();
      }
    }));
  }

  /** What a statement returns that compacts a table, and how often it has run. */
  private String maintained(Compaction run) throws Exception {
    update("CREATE TABLE kept (a BIGINT, p VARCHAR) PARTITIONED BY (p)");
    try {
      update("INSERT INTO kept VALUES (1, 'x')");
      update("INSERT INTO kept VALUES (2, 'x')");
      Object said = run.of("ALTER TABLE kept COMPACT");
      return said + " " + query("SELECT count(*) FROM kept$snapshots WHERE operation LIKE 'compact%'");
    } finally {
      update("DROP TABLE kept");
    }
  }

  private void prepared() {
    say("prepared insert", () -> {
      try (PreparedStatement statement = connection.prepareStatement("INSERT INTO made VALUES (?, ?)")) {
        statement.setLong(1, 5);
        statement.setString(2, "five");
        int first = statement.executeUpdate();
        statement.setLong(1, 6);
        statement.setNull(2, Types.VARCHAR);
        return first + statement.executeUpdate();
      }
    });
    say("prepared select, twice", () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT b FROM made WHERE a = ?")) {
        statement.setLong(1, 5);
        String first = rows(statement.executeQuery());
        statement.setLong(1, 6);
        return first + rows(statement.executeQuery());
      }
    });
    say("parameters", () -> {
      String sql = "SELECT a FROM made WHERE a = ? AND b = $2";
      try (PreparedStatement statement = connection.prepareStatement(sql)) {
        ParameterMetaData parameters = statement.getParameterMetaData();
        return parameters.getParameterCount() + ": " + parameters.getParameterType(1) + ", "
            + parameters.getParameterType(2);
      }
    });
    say("columns before running", () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT a, b FROM made")) {
        return columns(statement.getMetaData());
      }
    });
    say("batch", () -> {
      try (PreparedStatement statement = connection.prepareStatement("INSERT INTO made VALUES (?, ?)")) {
        for (int number = 10; number < 13; number++) {
          statement.setLong(1, number);
          statement.setString(2, "batch " + number);
          statement.addBatch();
        }
        return Arrays.stream(statement.executeBatch()).sum();
      }
    });
    say("rows of the batch", () -> query("SELECT a, b FROM made WHERE a >= 10 ORDER BY a"));
  }

  /** The driver sends nothing for its own transactions; those of SQL are sent as statements. */
  private void transactions() {
    say("create of a partitioned table", () -> update("CREATE TABLE parted (a BIGINT, b VARCHAR) PARTITIONED BY (b)"));
    say("rollback of the driver keeps the rows", () -> {
      connection.setAutoCommit(false);
      update("INSERT INTO parted VALUES (100, 'kept')");
      connection.rollback();
      connection.setAutoCommit(true);
      return query("SELECT b FROM parted WHERE a = 100");
    });
    say("ROLLBACK without BEGIN", () -> execute("ROLLBACK"));
    say("BEGIN and ROLLBACK", () -> {
      execute("BEGIN");
      update("INSERT INTO parted VALUES (101, 'gone')");
      String inside = query("SELECT b FROM parted WHERE a = 101");
      execute("ROLLBACK");
      return inside + " " + query("SELECT count(*) FROM parted WHERE a = 101");
    });
    say("BEGIN and COMMIT", () -> {
      execute("START TRANSACTION ISOLATION LEVEL SERIALIZABLE");
      try (PreparedStatement statement = connection.prepareStatement("INSERT INTO parted VALUES (?, ?)")) {
        statement.setLong(1, 102);
        statement.setString(2, "there");
        statement.executeUpdate();
      }
      execute("COMMIT");
      return query("SELECT b FROM parted WHERE a = 102");
    });
    say("COMMIT without BEGIN", () -> execute("COMMIT"));
    say("a version by a clause", () -> {
      update("ALTER TABLE parted CREATE TAG before");
      update("INSERT INTO parted VALUES (103, 'later')");
      return query("SELECT t.a FROM parted FOR TAG before AS t ORDER BY t.a");
    });
    say("a row by its _rowid", () -> {
      String select = "SELECT _rowid, _partition IS NULL, * FROM parted WHERE a = 103";
      try (Statement read = connection.createStatement();
          ResultSet rows = read.executeQuery(select);
          PreparedStatement write = connection.prepareStatement("UPDATE parted SET b = ? WHERE _rowid = ?")) {
        rows.next();
        write.setString(1, "by its id");
        write.setString(2, rows.getString("_rowid"));
        String columns = rows.getMetaData().getColumnCount() + " " + rows.getBoolean(2) + " " + rows.getString("b");
        return columns + ": " + write.executeUpdate() + " " + query("SELECT a, b FROM parted WHERE a > 101 ORDER BY a");
      }
    });
  }

  private void type(String table, String literal) {
    say(table + " select", () -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("SELECT v FROM " + table + " WHERE v IS NOT NULL")) {
        rows.next();
        return shown(rows.getObject(1));
      }
    });
    say(table + " text", () -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("SELECT v FROM " + table + " WHERE v IS NOT NULL")) {
        rows.next();
        return rows.getString(1);
      }
    });
    String compared = "SELECT count(*) FROM " + table + " WHERE v = ";
    String insert = "INSERT INTO " + table;
    say(table + " literal, compared", () -> query(compared + literal));
    say(table + " literal, stored", () -> update(insert + "_stored VALUES (" + literal + ")"));
    say(table + " bind, compared", () -> {
      try (PreparedStatement statement = connection.prepareStatement(compared + "?")) {
        bind(statement, value(table));
        return rows(statement.executeQuery());
      }
    });
    say(table + " bind, stored", () -> {
      try (PreparedStatement statement = connection.prepareStatement(insert + "_bound VALUES (?)")) {
        bind(statement, value(table));
        return statement.executeUpdate();
      }
    });
  }

  /** The driver takes times by their own setters only. */
  private static void bind(PreparedStatement statement, Object value) throws SQLException {
    if (value instanceof Timestamp timestamp) {
      statement.setTimestamp(1, timestamp);
    } else if (value instanceof Time time) {
      statement.setTime(1, time);
    } else if (value instanceof Date date) {
      statement.setDate(1, date);
    } else {
      statement.setObject(1, value);
    }
  }

  private Object value(String table) throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet rows = statement.executeQuery("SELECT v FROM " + table + " WHERE v IS NOT NULL")) {
      rows.next();
      boolean hasZone = rows.getMetaData().getColumnType(1) == Types.TIMESTAMP_WITH_TIMEZONE;
      return hasZone ? rows.getTimestamp(1) : rows.getObject(1);
    }
  }

  private Object cancel() throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet rows = statement.executeQuery("SELECT value FROM generate_series(1, 1000000000)")) {
      rows.next();
      statement.cancel();
      while (rows.next()) {
        continue;
      }
      return "read to the end";
    }
  }

  private String query(String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      return rows(statement.executeQuery(sql));
    }
  }

  private int update(String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      return statement.executeUpdate(sql);
    }
  }

  private String execute(String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      return statement.execute(sql) ? rows(statement.getResultSet()) : "updated " + statement.getUpdateCount();
    }
  }

  private String columns(String sql) throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet rows = statement.executeQuery(sql)) {
      return columns(rows.getMetaData());
    }
  }

  private static String columns(ResultSetMetaData metadata) throws SQLException {
    StringBuilder text = new StringBuilder();
    for (int column = 1; column <= metadata.getColumnCount(); column++) {
      text.append('[').append(metadata.getColumnLabel(column)).append(' ')
          .append(metadata.getColumnTypeName(column)).append(']');
    }
    return text.toString();
  }

  private static String rows(ResultSet rows) throws SQLException {
    StringBuilder text = new StringBuilder();
    int columns = rows.getMetaData().getColumnCount();
    while (rows.next()) {
      text.append('[');
      for (int column = 1; column <= columns; column++) {
        text.append(column == 1 ? "" : ", ").append(rows.getObject(column));
      }
      text.append(']');
    }
    rows.close();
    return text.toString();
  }

  private static String shown(Object value) {
    String text = value instanceof byte[] bytes ? Arrays.toString(bytes) : String.valueOf(value);
    return (value == null ? "null" : value.getClass().getSimpleName()) + " " + text;
  }

  private static void say(String name, Call call) {
    String said;
    try {
      Object value = call.run();
      said = " = " + (value instanceof ResultSet rows ? rows(rows) : value);
    } catch (InvocationTargetException error) {
      said = " ! " + error.getCause();
    } catch (Exception error) {
      said = " ! " + error;
    }
    System.out.println(name + said.replace('\n', ' '));
  }
}
