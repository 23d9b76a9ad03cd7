import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.sql.Types;

/**
 * Runs the statements of a file by the Flight SQL JDBC driver, and prints `name = answer`, or `name ! error`, for each: its rows as
 * `[a][b]`, or the number of rows that it changed. Arguments: the URL, and a file with lines `name TAB SQL TAB setter=text|…`.
 */
public final class Parameters {
  private Parameters() {}

  static void main(String[] arguments) throws Exception {
    // It is not closed: the driver leaks the vectors of a value that it refuses to bind, and its close fails for them.
    Connection connection = DriverManager.getConnection(arguments[0]);
    for (String line : Files.readAllLines(Path.of(arguments[1]))) {
      String[] parts = line.split("\t", -1);
      String[] bound = parts[2].isEmpty() ? new String[0] : parts[2].split("\\|");
      System.out.println(parts[0] + outcome(connection, parts[1], bound));
    }
  }

  private static String outcome(Connection connection, String sql, String[] bound) {
    try (PreparedStatement statement = connection.prepareStatement(sql)) {
      for (int place = 0; place < bound.length; place++) {
        String[] value = bound[place].split("=", 2);
        set(statement, place + 1, value[0], value[1]);
      }
      boolean isQuery = sql.startsWith("SELECT") || sql.startsWith("WITH");
      return " = " + (isQuery ? rows(statement.executeQuery()) : String.valueOf(statement.executeUpdate()));
    } catch (Exception error) {
      return " ! " + error.toString().replace('\n', ' ');
    }
  }

  private static void set(PreparedStatement statement, int place, String setter, String text) throws SQLException {
    switch (setter) {
      case "int" -> statement.setInt(place, Integer.parseInt(text));
      case "long" -> statement.setLong(place, Long.parseLong(text));
      case "double" -> statement.setDouble(place, Double.parseDouble(text));
      case "string" -> statement.setString(place, text);
      case "decimal" -> statement.setBigDecimal(place, new BigDecimal(text));
      case "date" -> statement.setDate(place, Date.valueOf(text));
      case "timestamp" -> statement.setTimestamp(place, Timestamp.valueOf(text));
      case "boolean" -> statement.setBoolean(place, Boolean.parseBoolean(text));
      case "null" -> statement.setNull(place, Types.NULL);
      case "object:int" -> statement.setObject(place, Integer.valueOf(text));
      case "object:long" -> statement.setObject(place, Long.valueOf(text));
      case "object:double" -> statement.setObject(place, Double.valueOf(text));
      case "object:string" -> statement.setObject(place, text);
      case "object:decimal" -> statement.setObject(place, new BigDecimal(text));
      case "object:date" -> statement.setObject(place, Date.valueOf(text));
      case "object:timestamp" -> statement.setObject(place, Timestamp.valueOf(text));
      case "object:boolean" -> statement.setObject(place, Boolean.valueOf(text));
      default -> throw new SQLException("no setter " + setter);
    }
  }

  private static String rows(ResultSet rows) throws SQLException {
    StringBuilder text = new StringBuilder();
    while (rows.next()) {
      text.append('[').append(rows.getString(1)).append(']');
    }
    return text.toString();
  }
}
