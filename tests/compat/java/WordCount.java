import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words: lines of the first topic go in, a count per word comes out in the second.
 *
 * <p>Arguments: the two topics, then settings as key=value. Ends when its stdin does, in peace. Each
 * change of the application's state is printed as a JSON line.
 */
public final class WordCount {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class.getName());
        Arrays.stream(arguments).skip(2).map(each -> each.split("=", 2))
                .forEach(pair -> settings.put(pair[0], pair[1]));

        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> lines = builder.stream(arguments[0]);
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
                .groupBy((key, word) -> word)
                .count()
                .toStream()
                .mapValues(String::valueOf)
                .to(arguments[1], Produced.with(Serdes.String(), Serdes.String()));

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
