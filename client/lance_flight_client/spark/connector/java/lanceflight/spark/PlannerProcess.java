package lanceflight.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.BufferedWriter;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The Python process of this JVM, which plans and reads: it is asked in lines of JSON, and answers as soon as it knows, in any order.
 *
 * <p>It ends with its standard input, hence with the JVM.
 */
final class PlannerProcess {
    private static final String MODULE = "lance_flight_client.spark.connector";
    private static final Map<String, PlannerProcess> RUNNING = new ConcurrentHashMap<>();
    static final ObjectMapper JSON = new ObjectMapper();

    private final Process process;
    private final BufferedWriter requests;
    private final AtomicLong numbers = new AtomicLong();
    private final Map<Long, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
    private volatile boolean hasEnded;
    private volatile String portions;

    private PlannerProcess(String python) {
        ProcessBuilder builder = new ProcessBuilder(python, "-m", MODULE);
        builder.redirectError(ProcessBuilder.Redirect.INHERIT);
        try {
            process = builder.start();
        } catch (IOException exc) {
            throw new LanceFlightException("the connector's Python '" + python + "' does not start: " + exc.getMessage()
                + "; expected a Python with lance-flight, which spark.sql.catalog.<name>.python names", exc);
        }
        requests = new BufferedWriter(new OutputStreamWriter(process.getOutputStream(), StandardCharsets.UTF_8));
        Thread reader = new Thread(this::receive, "lance-flight-planner");
        reader.setDaemon(true);
        reader.start();
    }

    /** Returns the process of a Python executable, started where there is none that lives. */
    static PlannerProcess of(String python) {
        return RUNNING.compute(python, (name, found) ->
            found != null && !found.hasEnded ? found : new PlannerProcess(name));
    }

    /** Sends a request and returns its result; throws LanceFlightException for what Python refuses. */
    JsonNode ask(String method, ObjectNode arguments) {
        long number = numbers.incrementAndGet();
        CompletableFuture<JsonNode> answer = new CompletableFuture<>();
        waiting.put(number, answer);
        ObjectNode request = JSON.createObjectNode();
        request.put("id", number).put("method", method).set("arguments", arguments);
        try {
            send(request.toString());
            if (hasEnded) {
                // The reader has left, and nobody else answers.
                answer.completeExceptionally(ended());
            }
            return LanceFlightException.checked(answer.get());
        } catch (InterruptedException exc) {
            Thread.currentThread().interrupt();
            throw new LanceFlightException("planning was interrupted", exc);
        } catch (ExecutionException exc) {
            throw new LanceFlightException(exc.getCause().getMessage(), exc.getCause());
        } finally {
            waiting.remove(number);
        }
    }

    /** Returns the path of the socket from which tasks read portions. */
    String portions() {
        if (portions == null) {
            portions = ask("portions_address", JSON.createObjectNode()).asText();
        }
        return portions;
    }

    private void send(String line) {
        synchronized (requests) {
            try {
                requests.write(line);
                requests.write('\n');
                requests.flush();
            } catch (IOException exc) {
                hasEnded = true;
                throw ended();
            }
        }
    }

    private void receive() {
        try (BufferedReader answers =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8))) {
            for (String line = answers.readLine(); line != null; line = answers.readLine()) {
                JsonNode answer = JSON.readTree(line);
                CompletableFuture<JsonNode> asked = waiting.get(answer.get("id").asLong());
                if (asked != null) {
                    asked.complete(answer);
                }
            }
        } catch (IOException exc) {
            // Answered below.
        } finally {
            hasEnded = true;
            process.destroy();
            waiting.values().forEach(each -> each.completeExceptionally(ended()));
        }
    }

    private static LanceFlightException ended() {
        return new LanceFlightException("the connector's Python process has ended; its standard error says why", null);
    }
}
