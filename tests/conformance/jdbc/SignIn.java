import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** Connects to each URL with the properties after it (name=value …), and says who it is taken for; "--" ends each. */
final class SignIn {
  static void main(String[] arguments) {
    int at = 0;
    while (at < arguments.length) {
      String name = arguments[at++];
      String url = arguments[at++];
      Properties properties = new Properties();
      for (; !arguments[at].equals("--"); at++) {
        String[] pair = arguments[at].split("=", 2);
        properties.setProperty(pair[0], pair[1]);
      }
      at++;
      System.out.println(name + "\t" + taken(url, properties));
    }
  }

  private static String taken(String url, Properties properties) {
    try (Connection connection = DriverManager.getConnection(url, properties);
        Statement statement = connection.createStatement();
        ResultSet rows = statement.executeQuery("SELECT CURRENT_USER")) {
      rows.next();
      return "= " + rows.getString(1);
    } catch (SQLException error) {
      String said = String.valueOf(error.getMessage());
      return "! " + (said.contains("[unauthenticated]") ? "unauthenticated" : said.replace('\n', ' '));
    }
  }
}
