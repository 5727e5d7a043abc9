import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApplicationRecoverableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Read, process, write, exactly once, with Apache's own client: until SIGTERM, or a kill.
 *
 * <p>Its words, and what they mean, are those of worker.py beside it; so are its notes.
 */
public final class Worker {
    private static final int BATCH = 50;
    private static final int CANNOT_GO_ON = 3;

    private final String source;
    private final String sink;
    private final String identity;
    private final String name;
    private final Notes notes;
    private final KafkaConsumer<String, String> consumer;
    private final KafkaProducer<String, String> producer;
    private int begun;

    private Worker(String[] words) throws IOException {
        source = words[1];
        sink = words[2];
        identity = words[4];
        name = words[5];
        notes = new Notes(name, words[6]);
        consumer = new KafkaConsumer<>(consuming(words), new StringDeserializer(), new StringDeserializer());
        producer = new KafkaProducer<>(producing(words), new StringSerializer(), new StringSerializer());
    }

    private static Properties consuming(String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", words[3]);
        if ("consumer".equals(System.getenv("GROUP_PROTOCOL"))) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.put("group.instance.id", words[4]);
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "500");
        }
        settings.put("max.poll.interval.ms", "10000");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", Integer.toString(BATCH));
        settings.put("reconnect.backoff.max.ms", "200");
        return settings;
    }

    private static Properties producing(String[] words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("transactional.id", words[4]);
        settings.put("transaction.timeout.ms", "10000");
        settings.put("reconnect.backoff.max.ms", "200");
        settings.put("max.block.ms", "20000");
        return settings;
    }

    private void run(Thread main) throws Exception {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(main)));
        long init = notes.begin("\"do\":\"init\",\"transactional_id\":\"%s\"".formatted(identity));
        producer.initTransactions();
        notes.end(init, Notes.OK);
        consumer.subscribe(List.of(source));
        while (!stopping) {
            ConsumerRecords<String, String> batch = poll();
            if (!batch.isEmpty()) {
                process(batch);
            }
        }
        consumer.close();
    }

    /**
     * What has come; or an end of this life, where the client trips over its own feet.
     *
     * <p>The consumer of the new protocol looks at a position in one thread while another may just
     * have put it in doubt, since the leader's epoch changed. It then says IllegalStateException
     * out of poll, where nothing was asked that its state forbids. Nobody has been given anything
     * by then, so the next life begins at what was committed.
     */
    private ConsumerRecords<String, String> poll() {
        try {
            return consumer.poll(Duration.ofMillis(200));
        } catch (IllegalStateException race) {
            throw new KafkaException("poll fell over its own state", race);
        }
    }

    private volatile boolean stopping;

    private void stop(Thread main) {
        stopping = true;
        try {
            main.join(10_000);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    /** One transaction: the outputs, and how far the inputs are done. */
    private void process(ConsumerRecords<String, String> batch) {
        String transaction = name + "/" + ++begun;
        producer.beginTransaction();
        try {
            for (ConsumerRecord<String, String> record : batch) {
                send(record.partition(), "done " + record.value(), transaction);
            }
            producer.sendOffsetsToTransaction(ends(batch), consumer.groupMetadata());
            end(transaction, true);
        } catch (ApplicationRecoverableException fenced) {
            throw fenced; // only another life can go on
        } catch (KafkaException problem) {
            end(transaction, false);
            rewind();
        }
    }

    private void send(int partition, String value, String transaction) {
        long op = notes.begin(
            "\"do\":\"send\",\"topic\":\"%s\",\"partition\":%d,\"value\":\"%s\",\"transaction\":\"%s\""
                .formatted(sink, partition, value, transaction));
        producer.send(new ProducerRecord<>(sink, partition, null, value), (where, problem) ->
            notes.end(op, problem == null ? Notes.OK + ",\"offset\":" + where.offset() : Notes.UNKNOWN));
    }

    private void end(String transaction, boolean commit) {
        long op = notes.begin("\"do\":\"end\",\"transaction\":\"%s\",\"commit\":%b".formatted(transaction, commit));
        while (true) {
            try {
                if (commit) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
                notes.end(op, Notes.OK);
                return;
            } catch (TimeoutException late) {
                // Asking again is the way to find out.
            } catch (KafkaException problem) {
                notes.end(op, Notes.UNKNOWN);
                throw problem;
            }
        }
    }

    private static Map<TopicPartition, OffsetAndMetadata> ends(ConsumerRecords<String, String> batch) {
        Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
        for (ConsumerRecord<String, String> record : batch) {
            ends.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
        }
        return ends;
    }

    /** What was aborted is read once more. */
    private void rewind() {
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition each : consumer.assignment()) {
            OffsetAndMetadata position = committed.get(each);
            consumer.seek(each, position == null ? 0 : position.offset());
        }
    }

    public static void main(String[] words) throws Exception {
        Worker worker = new Worker(words);
        try {
            worker.run(Thread.currentThread());
        } catch (KafkaException problem) {
            System.err.println(words[5] + " cannot go on: " + problem);
            Runtime.getRuntime().halt(CANNOT_GO_ON);
        }
    }
}
