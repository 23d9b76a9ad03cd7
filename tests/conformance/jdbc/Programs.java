import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** Runs the programs that the lines of standard input name, each with its arguments after tabs, and says "## ended" or "## failed". */
public final class Programs {
  private interface Program {
    void main(String[] arguments) throws Exception;
  }

  private Programs() {}

  public static void main(String[] none) throws Exception {
    var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = lines.readLine()) != null; ) {
      String[] words = line.split("\t", -1);
      try {
        program(words[0]).main(Arrays.copyOfRange(words, 1, words.length));
        System.out.println("## ended");
      } catch (Exception error) {
        error.printStackTrace(System.out);
        System.out.println("## failed");
      }
      System.out.flush();
    }
    System.exit(0); // the driver's threads are no daemons
  }

  private static Program program(String name) {
    return switch (name) {
      case "Conformance" -> Conformance::main;
      case "Parameters" -> Parameters::main;
      case "SignIn" -> SignIn::main;
      default -> Values::main;
    };
  }
}
