package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.Locale;
import org.apache.spark.SparkThrowable;

/**
 * An error of the Python side: its code in front of its message, and its SQLSTATE. PySpark shows it as an IllegalArgumentException with that
 * message.
 */
public final class LanceFlightException extends IllegalArgumentException implements SparkThrowable {
    private static final String UNKNOWN = "error";

    private final String code;
    private final String state;

    LanceFlightException(String message, Throwable cause) {
        super(message, cause);
        this.code = UNKNOWN;
        this.state = "HY000";
    }

    private LanceFlightException(String code, String state, String message) {
        super(code.equals(UNKNOWN) ? message : "[" + code + "] " + message);
        this.code = code;
        this.state = state;
    }

    /** Returns whether the error is one of a code of `lance_flight.errors`. */
    boolean is(String expected) {
        return code.equals(expected);
    }

    /** Returns an error as Python tells it. */
    static LanceFlightException of(JsonNode error) {
        return new LanceFlightException(error.get("code").asText(), error.get("sqlstate").asText(),
            error.get("message").asText());
    }

    @Override
    public String getCondition() {
        return "LANCE_FLIGHT_" + code.toUpperCase(Locale.ROOT);
    }

    @Override
    public String getSqlState() {
        return state;
    }

    @Override
    public boolean isInternalError() {
        return false;
    }

    @Override
    public String getDefaultMessageTemplate() {
        return getMessage();
    }

    /** Returns the result of an answer, or throws its error. */
    static JsonNode checked(JsonNode answer) {
        JsonNode error = answer.get("error");
        if (error != null) {
            throw of(error);
        }
        return answer.get("result");
    }

    /** This error where Spark hides what an IllegalArgumentException says. */
    UnsupportedOperationException unsupported() {
        return new Unsupported(this);
    }

    private static final class Unsupported extends UnsupportedOperationException implements SparkThrowable {
        private final LanceFlightException error;

        Unsupported(LanceFlightException error) {
            super(error.getMessage(), error);
            this.error = error;
        }

        @Override
        public String getCondition() {
            return error.getCondition();
        }

        @Override
        public String getSqlState() {
            return error.getSqlState();
        }

        @Override
        public boolean isInternalError() {
            return false;
        }

        @Override
        public String getDefaultMessageTemplate() {
            return getMessage();
        }
    }
}
