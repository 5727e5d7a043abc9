import java.io.File;
import java.nio.file.Files;
import java.util.HexFormat;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.*;

/**
 * Prints a producer snapshot as Apache Kafka writes it, in hexadecimal digits.
 * Run with Kafka's jars on the class path: java -cp 'LIBS/*' SnapshotCorpus.java > producers.snapshot.hex
 */
public class SnapshotCorpus {
    public static void main(String[] args) throws Exception {
        File directory = Files.createTempDirectory("producers").toFile();
        ProducerStateManager state = new ProducerStateManager(new TopicPartition("topic", 0), directory, 60_000,
            new ProducerStateManagerConfig(86_400_000, false), Time.SYSTEM);
        data(state, 1, 3, 12, 17, 40, 45, 1_700_000_000_123L, true);
        data(state, 2, 0, 0, 0, 46, 46, 1_700_000_000_456L, false);
        ProducerAppendInfo marker = state.prepareUpdate(3, AppendOrigin.COORDINATOR);
        marker.appendEndTxnMarker(new EndTransactionMarker(ControlRecordType.COMMIT, 9), (short) 32767, 47,
            1_700_000_000_789L, (short) 1);
        state.update(marker);
        state.updateMapEndOffset(48);
        File file = state.takeSnapshot(false).get();
        System.out.println(HexFormat.of().formatHex(Files.readAllBytes(file.toPath())));
        file.delete();
        directory.delete();
    }

    static void data(ProducerStateManager state, long producer, int epoch, int firstSequence, int lastSequence,
                     long firstOffset, long lastOffset, long timestamp, boolean transactional) {
        ProducerAppendInfo info = state.prepareUpdate(producer, AppendOrigin.REPLICATION);
        info.appendDataBatch((short) epoch, firstSequence, lastSequence, timestamp, new LogOffsetMetadata(firstOffset),
            lastOffset, transactional);
        state.update(info);
    }
}
