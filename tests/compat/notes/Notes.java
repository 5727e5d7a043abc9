import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;

/**
 * Notes of a client's operations, in the lines that penstock.testing.history reads.
 *
 * <p>Each line is with the operating system before the operation goes on.
 */
final class Notes {
    static final String OK = "\"is\":\"ok\"";
    static final String FAILED = "\"is\":\"failed\"";
    static final String UNKNOWN = "\"is\":\"unknown\"";

    private final String client;
    private final OutputStream file;
    private long count;

    Notes(String client, String path) throws IOException {
        this.client = client;
        this.file = new FileOutputStream(path, true);
    }

    /** An operation begins; `what` has its kind and fields. */
    synchronized long begin(String what) {
        write(now(), count, what);
        return count++;
    }

    /** How it ended, and what is known only now. */
    synchronized void end(long op, String outcome) {
        // The clock counts microseconds: round up, so that the end is not before the answer.
        write(now() + 1_000, op, outcome);
    }

    /** Something that was asked for at `began`, and is seen now. */
    synchronized void seen(long began, String what) {
        write(now() + 1_000, count++, "\"began\":%d,%s,%s".formatted(began, OK, what));
    }

    /** Nanoseconds since 1970. */
    static long now() {
        Instant now = Instant.now();
        return now.getEpochSecond() * 1_000_000_000L + now.getNano();
    }

    private void write(long at, long op, String rest) {
        String line = "{\"at\":%d,\"client\":\"%s\",\"op\":%d,%s}\n".formatted(at, client, op, rest);
        try {
            file.write(line.getBytes(StandardCharsets.UTF_8));
        } catch (IOException problem) {
            throw new UncheckedIOException(problem);
        }
    }
}
