import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.io.Reader;
import java.io.StringReader;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Array;
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
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Arrays;
import java.util.Calendar;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TimeZone;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Sets and gets values of every type by every method of JDBC, and walks through the getters of its other interfaces.
 * It prints a line `name = value`, or `name ! error`, for each call. Its argument is the URL of a server.
 */
public final class Values {
  private interface Call {
    Object run() throws Exception;
  }

  private interface Setter {
    void on(PreparedStatement statement) throws Exception;
  }

  /** A type of SQL, and a literal of it. */
  private static final Map<String, String> LITERALS = new LinkedHashMap<>();

  static {
    LITERALS.put("BOOLEAN", "true");
    LITERALS.put("TINYINT", "7");
    LITERALS.put("SMALLINT", "7");
    LITERALS.put("INTEGER", "7");
    LITERALS.put("BIGINT", "7");
    LITERALS.put("REAL", "1.5");
    LITERALS.put("DOUBLE", "1.5");
    LITERALS.put("DECIMAL(9, 2)", "12.34");
    LITERALS.put("VARCHAR", "'7'");
    LITERALS.put("BYTEA", "X'3738'");
    LITERALS.put("DATE", "DATE '2024-02-29'");
    LITERALS.put("TIME", "TIME '01:02:03'");
    LITERALS.put("TIMESTAMP", "TIMESTAMP '2024-02-29T01:02:03'");
    LITERALS.put("BIGINT[]", "[7, 8]");
  }

  private static final Calendar UTC = Calendar.getInstance(TimeZone.getTimeZone("UTC"));
  private final Connection connection;

  private Values(Connection connection) {
    this.connection = connection;
  }

  static void main(String[] arguments) throws Exception {
    Values values = new Values(DriverManager.getConnection(arguments[0]));
    values.setters();
    LITERALS.forEach(values::getters);
    values.walks();
    values.batches();
    values.statements();
    values.streams();
  }

  /** Each setter with a parameter of each type: what the server was sent, as text; what the driver does not take is left out. */
  private void setters() {
    Map<String, Setter> setters = new LinkedHashMap<>();
    setters.put("setBoolean", s -> s.setBoolean(1, true));
    setters.put("setByte", s -> s.setByte(1, (byte) 7));
    setters.put("setShort", s -> s.setShort(1, (short) 7));
    setters.put("setInt", s -> s.setInt(1, 7));
    setters.put("setLong", s -> s.setLong(1, 7));
    setters.put("setFloat", s -> s.setFloat(1, 1.5f));
    setters.put("setDouble", s -> s.setDouble(1, 1.5));
    setters.put("setBigDecimal", s -> s.setBigDecimal(1, new BigDecimal("12.34")));
    setters.put("setString", s -> s.setString(1, "7"));
    setters.put("setNString", s -> s.setNString(1, "7"));
    setters.put("setBytes", s -> s.setBytes(1, new byte[] {'7', '8'}));
    setters.put("setDate", s -> s.setDate(1, Date.valueOf("2024-02-29")));
    setters.put("setDate with a calendar", s -> s.setDate(1, Date.valueOf("2024-02-29"), UTC));
    setters.put("setTime", s -> s.setTime(1, Time.valueOf("01:02:03")));
    setters.put("setTime with a calendar", s -> s.setTime(1, Time.valueOf("01:02:03"), UTC));
    setters.put("setTimestamp", s -> s.setTimestamp(1, Timestamp.valueOf("2024-02-29 01:02:03")));
    setters.put("setTimestamp with a calendar", s -> s.setTimestamp(1, Timestamp.valueOf("2024-02-29 01:02:03"), UTC));
    setters.put("setNull", s -> s.setNull(1, Types.NULL));
    setters.put("setNull of a type", s -> s.setNull(1, Types.BIGINT, "BIGINT"));
    setters.put("setObject of Boolean", s -> s.setObject(1, true));
    setters.put("setObject of Integer", s -> s.setObject(1, 7));
    setters.put("setObject of Long", s -> s.setObject(1, 7L));
    setters.put("setObject of Double", s -> s.setObject(1, 1.5));
    setters.put("setObject of BigDecimal", s -> s.setObject(1, new BigDecimal("12.34")));
    setters.put("setObject of String", s -> s.setObject(1, "7"));
    setters.put("setObject of byte[]", s -> s.setObject(1, new byte[] {'7', '8'}));
    setters.put("setObject of LocalDate", s -> s.setObject(1, LocalDate.of(2024, 2, 29)));
    setters.put("setObject of LocalTime", s -> s.setObject(1, LocalTime.of(1, 2, 3)));
    setters.put("setObject of LocalDateTime", s -> s.setObject(1, LocalDateTime.of(2024, 2, 29, 1, 2, 3)));
    setters.put("setObject as BIGINT", s -> s.setObject(1, 7, Types.BIGINT));
    setters.put("setObject as VARCHAR", s -> s.setObject(1, "7", Types.VARCHAR));
    setters.put("setArray", s -> s.setArray(1, connection.createArrayOf("BIGINT", new Object[] {7L, 8L})));
    setters.put("setAsciiStream", s -> s.setAsciiStream(1, bytes()));
    setters.put("setBinaryStream", s -> s.setBinaryStream(1, bytes()));
    setters.put("setCharacterStream", s -> s.setCharacterStream(1, new StringReader("7")));
    setters.put("setNCharacterStream", s -> s.setNCharacterStream(1, new StringReader("7")));
    setters.put("setBlob", s -> s.setBlob(1, bytes()));
    setters.put("setClob", s -> s.setClob(1, new StringReader("7")));
    setters.put("setNClob", s -> s.setNClob(1, new StringReader("7")));
    setters.put("setURL", s -> s.setURL(1, new java.net.URI("file:///7").toURL()));
    setters.put("setRef", s -> s.setRef(1, null));
    setters.put("setRowId", s -> s.setRowId(1, null));
    setters.put("setSQLXML", s -> s.setSQLXML(1, null));
    setters.forEach((name, setter) -> say(name, () -> LITERALS.keySet().stream()
        .map(type -> type + " " + outcome(() -> sent(type, setter)))
        .filter(shown -> !shown.endsWith(" !"))
        .collect(Collectors.joining("; "))));
  }

  private String sent(String type, Setter setter) throws Exception {
    try (PreparedStatement statement = connection.prepareStatement("SELECT CAST(? AS " + type + ") AS v")) {
      setter.on(statement);
      try (ResultSet rows = statement.executeQuery()) {
        rows.next();
        return rows.getString(1);
      }
    }
  }

  /** Each getter with a column of a type: what it returns; what the driver does not give is left out. */
  private void getters(String type, String literal) {
    say("getters of " + type, () -> {
      String sql = "SELECT CAST(" + literal + " AS " + type + ") AS v";
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
        rows.next();
        Stream<String> plain = Stream.of(ResultSet.class.getMethods())
            .filter(method -> method.getName().startsWith("get") && isByNumber(method))
            .sorted(Comparator.comparing(Method::getName))
            .map(method -> method.getName() + " " + outcome(() -> method.invoke(rows, 1)));
        Stream<String> typed = Stream.of(LocalDate.class, LocalTime.class, LocalDateTime.class, Long.class, String.class)
            .map(kind -> "getObject of " + kind.getSimpleName() + " " + outcome(() -> rows.getObject(1, kind)));
        return Stream.concat(plain, typed).filter(shown -> !shown.endsWith(" !")).collect(Collectors.joining("; "));
      }
    });
  }

  private static boolean isByNumber(Method method) {
    return Arrays.equals(method.getParameterTypes(), new Class<?>[] {int.class});
  }

  /** The getters of the interfaces that no other part walks through. */
  private void walks() throws Exception {
    String columns = LITERALS.entrySet().stream()
        .map(entry -> "CAST(" + entry.getValue() + " AS " + entry.getKey() + ") AS \"" + entry.getKey() + "\"")
        .collect(Collectors.joining(", "));
    try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT " + columns)) {
      ResultSetMetaData metadata = rows.getMetaData();
      Stream.of(ResultSetMetaData.class.getDeclaredMethods())
          .filter(Values::isByNumber)
          .sorted(Comparator.comparing(Method::getName))
          .forEach(method -> say("column's " + method.getName(), () -> IntStream.rangeClosed(1, LITERALS.size())
              .mapToObj(column -> outcome(() -> method.invoke(metadata, column))).collect(Collectors.joining(" "))));
    }
    String parameters = LITERALS.keySet().stream().map(type -> "CAST(? AS " + type + ")").collect(Collectors.joining(", "));
    try (PreparedStatement statement = connection.prepareStatement("SELECT " + parameters)) {
      ParameterMetaData metadata = statement.getParameterMetaData();
      Stream.of(ParameterMetaData.class.getDeclaredMethods())
          .filter(Values::isByNumber)
          .sorted(Comparator.comparing(Method::getName))
          .forEach(method -> say("parameter's " + method.getName(), () -> IntStream.rangeClosed(1, LITERALS.size())
              .mapToObj(number -> outcome(() -> method.invoke(metadata, number))).collect(Collectors.joining(" "))));
    }
    DatabaseMetaData database = connection.getMetaData();
    Stream.of(DatabaseMetaData.class.getDeclaredMethods())
        .filter(Values::isByNumber)
        .sorted(Comparator.comparing(Method::getName))
        .forEach(method -> say("database's " + method.getName(), () -> method.invoke(database, ResultSet.TYPE_FORWARD_ONLY)));
    walk("connection's", Connection.class, connection, "getMetaData", "getClientInfo");
    try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery("SELECT 1 AS a")) {
      walk("statement's", Statement.class, statement, "getResultSet", "getConnection", "getMoreResults");
      walk("result's", ResultSet.class, rows, "getStatement", "getMetaData");
    }
  }

  /** Every getter without parameters of an interface, but some that give objects. */
  private static void walk(String whose, Class<?> type, Object of, String... others) {
    Stream.of(type.getDeclaredMethods())
        .filter(method -> method.getParameterCount() == 0 && method.getName().matches("(get|is).*"))
        .filter(method -> !Arrays.asList(others).contains(method.getName()))
        .sorted(Comparator.comparing(Method::getName))
        .forEach(method -> say(whose + " " + method.getName(), () -> method.invoke(of)));
  }

  private void batches() throws SQLException {
    update("CREATE TABLE batched (a BIGINT NOT NULL, b VARCHAR)");
    say("executeBatch", () -> batch(3, false));
    say("executeBatch of 10,000", () -> Arrays.stream(batch(10_000, false)).sum());
    say("executeBatch after clearBatch", () -> batch(3, true));
    say("executeLargeBatch", () -> {
      try (PreparedStatement statement = connection.prepareStatement("INSERT INTO batched VALUES (?, ?)")) {
        add(statement, 1);
        return statement.executeLargeBatch();
      }
    });
    say("executeBatch of updates", () -> {
      try (PreparedStatement statement = connection.prepareStatement("UPDATE batched SET b = ? WHERE a = ?")) {
        for (int number = 0; number < 2; number++) {
          statement.setString(1, "changed");
          statement.setLong(2, number);
          statement.addBatch();
        }
        return statement.executeBatch();
      }
    });
    say("rows that changed", () -> one("SELECT count(*) FROM batched WHERE b = 'changed'"));
    say("executeBatch with a row that is refused", () -> {
      try (PreparedStatement statement = connection.prepareStatement("INSERT INTO batched VALUES (?, ?)")) {
        add(statement, 20_000);
        statement.setNull(1, Types.BIGINT);
        statement.setNull(2, Types.VARCHAR);
        statement.addBatch();
        return statement.executeBatch();
      }
    });
    say("rows of that batch", () -> one("SELECT count(*) FROM batched WHERE a = 20000"));
    say("batch of texts", () -> {
      try (Statement statement = connection.createStatement()) {
        statement.addBatch("INSERT INTO batched VALUES (30000, 'x')");
        return statement.executeBatch();
      }
    });
    say("rows after the batches", () -> one("SELECT count(*) FROM batched"));
  }

  private int[] batch(int size, boolean isCleared) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement("INSERT INTO batched VALUES (?, ?)")) {
      for (int number = 0; number < size; number++) {
        add(statement, number);
      }
      if (isCleared) {
        statement.clearBatch();
      }
      return statement.executeBatch();
    }
  }

  private static void add(PreparedStatement statement, long number) throws SQLException {
    statement.setLong(1, number);
    statement.setString(2, "row " + number);
    statement.addBatch();
  }

  private void statements() {
    say("executeLargeUpdate", () -> {
      try (Statement statement = connection.createStatement()) {
        return statement.executeLargeUpdate("DELETE FROM batched WHERE a < 10");
      }
    });
    say("setMaxRows", () -> set(statement -> statement.setMaxRows(2)));
    say("setLargeMaxRows", () -> set(statement -> statement.setLargeMaxRows(2)));
    say("setFetchSize", () -> set(statement -> statement.setFetchSize(2)));
    say("setQueryTimeout", () -> set(statement -> statement.setQueryTimeout(10)));
    say("setEscapeProcessing", () -> set(statement -> statement.setEscapeProcessing(false)));
    say("setMaxFieldSize", () -> set(statement -> statement.setMaxFieldSize(10)));
    say("setPoolable", () -> set(statement -> statement.setPoolable(true)));
    say("setCursorName", () -> set(statement -> statement.setCursorName("c")));
    say("closeOnCompletion", () -> set(Statement::closeOnCompletion));
    say("getMoreResults", () -> {
      try (Statement statement = connection.createStatement()) {
        return statement.execute("SELECT 1") + " " + statement.getMoreResults() + " " + statement.getUpdateCount();
      }
    });
    say("generated keys", () -> {
      try (Statement statement = connection.createStatement()) {
        return statement.executeUpdate("INSERT INTO batched VALUES (1, 'x')", Statement.RETURN_GENERATED_KEYS);
      }
    });
    say("clearParameters", () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT CAST(? AS BIGINT)")) {
        statement.setLong(1, 7);
        statement.clearParameters();
        return statement.executeQuery();
      }
    });
    say("too few parameters", () -> {
      try (PreparedStatement statement = connection.prepareStatement("SELECT CAST(? AS BIGINT), CAST(? AS BIGINT)")) {
        statement.setLong(1, 7);
        return statement.executeQuery();
      }
    });
    say("setCatalog", () -> {
      connection.setCatalog("lance");
      return connection.getCatalog();
    });
    say("setSchema", () -> {
      connection.setSchema("public");
      return connection.getSchema();
    });
    say("setReadOnly", () -> {
      connection.setReadOnly(true);
      connection.setReadOnly(false);
      return connection.isReadOnly();
    });
    say("setSavepoint", connection::setSavepoint);
    say("prepareCall", () -> connection.prepareCall("{call x()}"));
    say("scrollable", () -> {
      int scrollable = ResultSet.TYPE_SCROLL_INSENSITIVE;
      try (Statement statement = connection.createStatement(scrollable, ResultSet.CONCUR_READ_ONLY);
          ResultSet rows = statement.executeQuery("SELECT 1")) {
        return rows.last();
      }
    });
    say("unwrap", () -> connection.unwrap(Connection.class) == connection);
  }

  private interface Change {
    void to(Statement statement) throws SQLException;
  }

  private int set(Change change) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      change.to(statement);
      try (ResultSet rows = statement.executeQuery("SELECT value FROM generate_series(1, 5)")) {
        int count = 0;
        while (rows.next()) {
          count++;
        }
        return count;
      }
    }
  }

  private void streams() {
    say("3,000,000 rows", () -> {
      String sql = "SELECT value, CAST(value AS VARCHAR) AS text FROM generate_series(1, 3000000)";
      long count = 0;
      long sum = 0;
      long letters = 0;
      try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
        while (rows.next()) {
          count++;
          sum += rows.getLong(1);
          letters += rows.getString(2).length();
        }
      }
      return count + " " + sum + " " + letters;
    });
    say("two results at once", () -> {
      try (Statement one = connection.createStatement(); Statement other = connection.createStatement();
          ResultSet first = one.executeQuery("SELECT value FROM generate_series(1, 100000) ORDER BY value");
          ResultSet second = other.executeQuery("SELECT value FROM generate_series(1, 100000) ORDER BY value")) {
        long different = 0;
        while (first.next() & second.next()) {
          different += first.getLong(1) == second.getLong(1) ? 0 : 1;
        }
        return different;
      }
    });
    say("a result that is closed early", () -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("SELECT value FROM generate_series(1, 1000000000)")) {
        rows.next();
      }
      return one("SELECT 1");
    });
    say("cancel by another thread", () -> {
      try (Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("SELECT value FROM generate_series(1, 1000000000)")) {
        rows.next();
        Thread canceller = new Thread(() -> outcome(() -> {
          statement.cancel();
          return null;
        }));
        canceller.start();
        while (rows.next()) {
          continue;
        }
        return "read to the end";
      } catch (SQLException | RuntimeException exc) {
        // The driver looks whether it was canceled, or its stream ends first.
        if (exc.getMessage().toLowerCase().contains("cancel")) {
          return "canceled";
        }
        throw exc;
      }
    });
  }

  private String one(String sql) throws SQLException {
    try (Statement statement = connection.createStatement(); ResultSet rows = statement.executeQuery(sql)) {
      rows.next();
      return rows.getString(1);
    }
  }

  private int update(String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      return statement.executeUpdate(sql);
    }
  }

  private static InputStream bytes() {
    return new ByteArrayInputStream("7".getBytes(StandardCharsets.US_ASCII));
  }

  /** What a call returns, or an exclamation mark. */
  private static String outcome(Call call) {
    try {
      return shown(call.run());
    } catch (Exception | LinkageError error) {
      return "!";
    }
  }

  private static String shown(Object value) throws Exception {
    if (value instanceof byte[] bytes) {
      return Arrays.toString(bytes);
    } else if (value instanceof int[] counts) {
      return Arrays.toString(counts);
    } else if (value instanceof long[] counts) {
      return Arrays.toString(counts);
    } else if (value instanceof Array array) {
      return Arrays.toString((Object[]) array.getArray());
    } else if (value instanceof InputStream stream) {
      return Arrays.toString(stream.readAllBytes());
    } else if (value instanceof Reader reader) {
      return "a reader of " + (char) reader.read();
    }
    return String.valueOf(value);
  }

  private static void say(String name, Call call) {
    String said;
    try {
      said = " = " + shown(call.run());
    } catch (InvocationTargetException error) {
      said = " ! " + error.getCause();
    } catch (Exception error) {
      said = " ! " + error;
    }
    System.out.println(name + said.replace('\n', ' '));
  }
}
