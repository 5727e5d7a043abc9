import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;

/**
 * Joins what two topics say of the same key within ten seconds of each other, after a change of keys
 * on the left: so that side passes through a repartition topic.
 *
 * <p>Arguments: the two topics, the one for results, then settings as key=value. Ends when its stdin
 * does, in peace. Each change of the application's state is printed as a JSON line.
 */
public final class WindowedJoin {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        Arrays.stream(arguments).skip(3).map(each -> each.split("=", 2))
                .forEach(pair -> settings.put(pair[0], pair[1]));

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> left = builder.stream(arguments[0]);
        KStream<String, String> right = builder.stream(arguments[1]);
        left.selectKey((key, value) -> value.split(":")[0])
                .join(right, (one, other) -> one + "+" + other,
                        // One side may be read long before the other: nothing is late for a day.
                        JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(10), Duration.ofDays(1)))
                .to(arguments[2]);

        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setStateListener((now, before) -> print("state", now.name()));
        streams.setUncaughtExceptionHandler(failure -> {
            print("failed", failure.toString());
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
        while (System.in.read() >= 0) {
            // Nothing is said on stdin but that it ends.
        }
        print("closed", String.valueOf(streams.close(Duration.ofSeconds(30))));
    }

    private static synchronized void print(String event, String what) {
        String text = what.replace("\\", "\\\\").replace("\"", "'").replace("\n", " ");
        System.out.println("{\"event\": \"" + event + "\", \"what\": \"" + text + "\"}");
    }
}
