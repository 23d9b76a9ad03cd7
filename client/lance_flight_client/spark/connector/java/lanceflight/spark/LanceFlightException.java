package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;

/** An error of the Python side: its code and its message. PySpark shows it as an IllegalArgumentException with that message. */
public final class LanceFlightException extends IllegalArgumentException {
    private final String code;

    LanceFlightException(String message, Throwable cause) {
        this("error", message, cause);
    }

    private LanceFlightException(String code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
    }

    /** Returns whether the error is one of a code of `lance_flight.errors`. */
    boolean is(String expected) {
        return code.equals(expected);
    }

    /** Returns the result of an answer, or throws its error. */
    static JsonNode checked(JsonNode answer) {
        JsonNode error = answer.get("error");
        if (error != null) {
            throw new LanceFlightException(error.get("code").asText(), error.get("message").asText(), null);
        }
        return answer.get("result");
    }
}
