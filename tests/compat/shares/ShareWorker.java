import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.errors.InvalidRecordStateException;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group, with Apache's own client: until SIGTERM, or a kill.
 *
 * <pre>ShareWorker BOOTSTRAP TOPIC GROUP SEED ID NAME HISTORY</pre>
 *
 * <p>SEED and NAME decide which records it accepts, gives back, rejects or keeps for longer, and
 * HISTORY is the file for its notes. One that cannot go on ends with status 3, and whoever started
 * it starts the next.
 */
public final class ShareWorker {
    private static final int BATCH = 40;
    private static final int CANNOT_GO_ON = 3;
    private static final int DELIVERIES_BEFORE_ACCEPTED = 2;
    private static final Duration WAIT = Duration.ofMillis(200);
    private static final Duration COMMIT_MAX = Duration.ofSeconds(5);
    /** How long an answer of the broker may be under way, at the very most. */
    private static final long UNDER_WAY_NANOS = 1_000_000_000L;
    /** What the broker itself says, and not the client for want of an answer. */
    private static final String REFUSED = Errors.INVALID_RECORD_STATE.message();

    private record Spot(int partition, long offset) {}

    private final String topic;
    private final String group;
    private final Random chance;
    /** Whether there is a word for each record, or the client accepts what it handed out before. */
    private final boolean explicit;
    private final Notes notes;
    private final KafkaShareConsumer<String, String> consumer;
    /** What was said of each record, until it is known what became of it. */
    private final Map<Spot, List<Long>> open = new HashMap<>();
    /**
     * Those that the client hands out once more, although nobody delivered them again.
     *
     * <p>While there are any, commitSync is not for us. If it asks several nodes, client 4.3.0 takes
     * what it knows of renewals from the node that answers last; where that one was told of none, it
     * waits for the others for ever, asks for more and more records, and hands out nothing.
     */
    private final Set<Spot> kept = new HashSet<>();
    private volatile boolean stopping;

    private ShareWorker(String[] words) throws IOException {
        topic = words[1];
        group = words[2];
        chance = new Random(Long.parseLong(words[3]) * 31 + words[5].hashCode());
        explicit = words[5].endsWith(".1") || chance.nextBoolean();
        notes = new Notes(words[5], words[6]);
        Properties settings = new Properties();
        settings.put("bootstrap.servers", words[0]);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", explicit ? "explicit" : "implicit");
        settings.put("share.acquire.mode", chance.nextBoolean() ? "record_limit" : "batch_optimized");
        settings.put("max.poll.records", Integer.toString(BATCH));
        settings.put("fetch.max.wait.ms", Long.toString(WAIT.toMillis()));
        settings.put("reconnect.backoff.max.ms", "200");
        consumer = new KafkaShareConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
        consumer.setAcknowledgementCommitCallback(this::heard);
    }

    private void run(Thread main) {
        Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(main)));
        consumer.subscribe(List.of(topic));
        // The client may have asked during the poll before this one.
        long before = Notes.now();
        while (!stopping) {
            long now = Notes.now();
            ConsumerRecords<String, String> batch = consumer.poll(WAIT);
            for (ConsumerRecord<String, String> record : batch) {
                delivered(record, before - UNDER_WAY_NANOS);
            }
            for (ConsumerRecord<String, String> record : batch) {
                settle(record);
            }
            if (chance.nextBoolean() && kept.isEmpty()) {
                consumer.commitSync(COMMIT_MAX); // or else what was said goes with the next poll
            }
            if (batch.count() < BATCH) {
                before = now; // and nothing was left behind for the next poll
            }
        }
        consumer.close();
    }

    private void stop(Thread main) {
        stopping = true;
        try {
            main.join(10_000);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private void delivered(ConsumerRecord<String, String> record, long began) {
        if (!kept.remove(new Spot(record.partition(), record.offset()))) {
            notes.seen(began, "\"do\":\"deliver\",\"value\":\"%s\",%s".formatted(record.value(), place(record)));
        }
    }

    private void settle(ConsumerRecord<String, String> record) {
        AcknowledgeType word = word(record);
        Spot spot = new Spot(record.partition(), record.offset());
        long op = notes.begin("\"do\":\"settle\",\"word\":\"%s\",%s".formatted(word, place(record)));
        open.computeIfAbsent(spot, nothing -> new ArrayList<>()).add(op);
        if (word == AcknowledgeType.RENEW) {
            kept.add(spot);
        }
        if (explicit) {
            consumer.acknowledge(record, word);
        }
    }

    private AcknowledgeType word(ConsumerRecord<String, String> record) {
        double lot = chance.nextDouble();
        if (!explicit || lot < 0.8 || record.deliveryCount().orElse((short) 1) > DELIVERIES_BEFORE_ACCEPTED) {
            return AcknowledgeType.ACCEPT;
        }
        return lot < 0.92 ? AcknowledgeType.RELEASE : lot < 0.98 ? AcknowledgeType.RENEW : AcknowledgeType.REJECT;
    }

    private String place(ConsumerRecord<String, String> record) {
        return "\"topic\":\"%s\",\"partition\":%d,\"group\":\"%s\",\"offset\":%d,\"deliveries\":%d"
            .formatted(topic, record.partition(), group, record.offset(), record.deliveryCount().orElse((short) -1));
    }

    /** What became of what was said: told while this thread polls, commits or closes. */
    private void heard(Map<TopicIdPartition, Set<Long>> spoken, Exception problem) {
        spoken.forEach((place, offsets) -> offsets.forEach(offset -> {
            List<Long> ops = open.remove(new Spot(place.partition(), offset));
            if (ops != null) {
                // Of two words about one record, nobody says which one is meant.
                String outcome = ops.size() == 1 ? outcome(problem) : Notes.UNKNOWN;
                ops.forEach(op -> notes.end(op, outcome));
            }
            if (problem != null) {
                kept.remove(new Spot(place.partition(), offset));
            }
        }));
    }

    private static String outcome(Exception problem) {
        if (problem == null) {
            return Notes.OK;
        }
        boolean refused = problem instanceof InvalidRecordStateException && REFUSED.equals(problem.getMessage());
        String error = ",\"error\":\"%s\"".formatted(problem.getClass().getSimpleName());
        return (refused ? Notes.FAILED : Notes.UNKNOWN) + error;
    }

    public static void main(String[] words) throws Exception {
        ShareWorker worker = new ShareWorker(words);
        try {
            worker.run(Thread.currentThread());
        } catch (KafkaException problem) {
            System.err.println(words[5] + " cannot go on: " + problem);
            Runtime.getRuntime().halt(CANNOT_GO_ON);
        }
    }
}
