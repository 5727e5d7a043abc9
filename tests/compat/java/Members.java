import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Many members of one group in one JVM, each with a thread of its own.
 *
 * <p>Arguments: the topic, then settings of every consumer as key=value. Commands arrive on stdin:
 * {@code start NAME [key=value ...]} and {@code stop NAME}. What happens to the members is printed as
 * JSON lines, with the time of the machine's monotonic clock, which other processes share.
 */
public final class Members {
    private static final Map<String, Member> MEMBERS = new ConcurrentHashMap<>();

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[0];
        Properties common = new Properties();
        set(common, arguments, 1);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("start")) {
                Properties own = new Properties();
                own.putAll(common);
                set(own, words, 2);
                Member member = new Member(words[1], topic, own);
                MEMBERS.put(words[1], member);
                member.start();
            } else if (words[0].equals("stop")) {
                MEMBERS.remove(words[1]).consumer.wakeup();
            } else {
                throw new IllegalArgumentException("unknown command: " + line);
            }
        }
        MEMBERS.values().forEach(member -> member.consumer.wakeup());
    }

    private static void set(Properties target, String[] words, int from) {
        for (int at = from; at < words.length; at++) {
            String[] pair = words[at].split("=", 2);
            target.put(pair[0], pair[1]);
        }
    }

    /** A consumer that reports each record before it commits it. */
    private static final class Member extends Thread implements ConsumerRebalanceListener {
        final KafkaConsumer<String, String> consumer;
        private final String topic;

        Member(String name, String topic, Properties settings) {
            super(name);
            this.topic = topic;
            settings.putIfAbsent("client.id", name);
            consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        }

        @Override
        public void run() {
            try (consumer) {
                consumer.subscribe(List.of(topic), this);
                while (true) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(100));
                    if (!records.isEmpty()) {
                        report(records);
                        commit();
                    }
                }
            } catch (WakeupException asked) {
                // Closing leaves the group, and revokes what the member owns before it does.
            } catch (RuntimeException failure) {
                print("failed", "\"why\": \"" + failure.toString().replace("\"", "'") + "\"");
            }
            print("closed", null);
        }

        private void commit() {
            try {
                consumer.commitSync();
            } catch (RebalanceInProgressException | CommitFailedException | TimeoutException moved) {
                // The next poll takes part in the rebalance, or finds the broker that was away; what
                // was not committed is committed with the next records, or read again.
                print("not_committed", null);
            }
        }

        private void report(ConsumerRecords<String, String> records) {
            for (TopicPartition partition : records.partitions()) {
                String values = StreamSupport.stream(records.records(partition).spliterator(), false)
                        .map(ConsumerRecord::value).collect(Collectors.joining(", "));
                print("consumed", "\"partition\": " + partition.partition() + ", \"values\": [" + values + "]");
            }
        }

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            print("assigned", list(partitions));
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            print("revoked", list(partitions));
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            print("lost", list(partitions));
        }

        private static String list(Collection<TopicPartition> partitions) {
            return "\"partitions\": [" + partitions.stream().map(each -> String.valueOf(each.partition()))
                    .collect(Collectors.joining(", ")) + "]";
        }

        private void print(String event, String more) {
            String line = "{\"event\": \"" + event + "\", \"member\": \"" + getName() + "\", \"at\": "
                    + System.nanoTime() / 1e9 + (more == null ? "" : ", " + more) + "}";
            synchronized (System.out) {
                System.out.println(line);
            }
        }
    }
}
