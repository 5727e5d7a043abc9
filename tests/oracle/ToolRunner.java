import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main classes of Kafka's command-line tools one after another in a single warm JVM,
 * because a JVM start costs more than most tools' work.
 *
 * <p>A request is one line: what the tool finds on stdin, the class and its arguments, each in base64,
 * separated by spaces, the first behind a letter so that an empty text is still a word. The answer is one
 * line: the exit status, then what the tool wrote to stdout and to stderr, in base64 behind a letter.
 */
public final class ToolRunner {
    /** Stands in for the end of the process, so that the JVM outlives the tool. */
    private static final class Ended extends Error {
        final int status;

        Ended(int status) {
            super(null, null, false, false);
            this.status = status;
        }
    }

    /** A stream whose target changes: Scala's Console keeps the first System.out it saw. */
    private static final class Switch extends OutputStream {
        volatile OutputStream target;

        Switch(OutputStream target) {
            this.target = target;
        }

        @Override
        public void write(int one) throws java.io.IOException {
            target.write(one);
        }

        @Override
        public void write(byte[] many, int from, int count) throws java.io.IOException {
            target.write(many, from, count);
        }
    }

    /** The first exit status a tool asked for: one that catches everything may ask twice. */
    private static volatile Integer asked;

    /** What the tool wants done when its process ends: here, when the tool does. */
    private static final List<Runnable> LAST_DEEDS = Collections.synchronizedList(new ArrayList<>());

    public static void main(String[] unused) throws Exception {
        PrintStream answers = System.out;
        Switch out = new Switch(OutputStream.nullOutputStream());
        Switch err = new Switch(OutputStream.nullOutputStream());
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((status, message) -> end(status));
        Exit.setHaltProcedure((status, message) -> end(status));
        Exit.setShutdownHookAdder((name, deed) -> LAST_DEEDS.add(deed));

        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            ByteArrayOutputStream written = new ByteArrayOutputStream();
            ByteArrayOutputStream complained = new ByteArrayOutputStream();
            out.target = written;
            err.target = complained;
            String[] request = line.split(" ", 2);
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(request[0].substring(1))));
            int status = run(words(request[1]));
            finish();
            System.out.flush();
            System.err.flush();
            answers.println(status + " o" + encode(written) + " e" + encode(complained));
            answers.flush();
        }
    }

    private static void end(int status) {
        if (asked == null) {
            asked = status;
        }
        throw new Ended(asked);
    }

    private static int run(List<String> words) {
        asked = null;
        String[] arguments = words.subList(1, words.size()).toArray(new String[0]);
        try {
            Class.forName(words.get(0)).getMethod("main", String[].class).invoke(null, (Object) arguments);
        } catch (InvocationTargetException thrown) {
            if (!(thrown.getCause() instanceof Ended)) {
                thrown.getCause().printStackTrace();
                return 1;
            }
        } catch (ReflectiveOperationException noSuchTool) {
            noSuchTool.printStackTrace();
            return 127;
        }
        return asked == null ? 0 : asked;
    }

    private static void finish() {
        for (Runnable deed : LAST_DEEDS) {
            try {
                deed.run();
            } catch (RuntimeException failure) {
                failure.printStackTrace();
            }
        }
        LAST_DEEDS.clear();
    }

    private static List<String> words(String line) {
        List<String> words = new ArrayList<>();
        for (String word : line.split(" ")) {
            words.add(new String(Base64.getDecoder().decode(word), StandardCharsets.UTF_8));
        }
        return words;
    }

    private static String encode(ByteArrayOutputStream bytes) {
        return Base64.getEncoder().encodeToString(bytes.toByteArray());
    }
}
