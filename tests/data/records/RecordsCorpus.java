import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Writes corpus.json beside this file: batches as Apache Kafka's own builder makes them.
 * Run with kafka-clients on the class path: java -cp 'LIBS/*' RecordsCorpus.java > corpus.json
 */
public class RecordsCorpus {
    record Case(String codec, long baseOffset, int epoch, long appendTime, long producerId, int producerEpoch,
                int sequence, boolean transactional, long deleteHorizon, long lastOffset) {}

    record Row(long offset, long timestamp, byte[] key, byte[] value, Header[] headers) {}

    static final List<String> lines = new ArrayList<>();

    public static void main(String[] args) {
        Header[] none = new Header[0];
        Header[] some = {new RecordHeader("trace", bytes("abc")), new RecordHeader("empty", new byte[0]),
            new RecordHeader("null", null), new RecordHeader("grüße", bytes("x"))};
        Row plain = new Row(7, 1_700_000_000_000L, bytes("k"), bytes("v"), none);
        Row nulls = new Row(8, 1_700_000_000_005L, null, null, none);
        Row headers = new Row(9, 1_699_999_999_000L, bytes(""), bytes("value"), some);
        Row large = new Row(300, 1_700_000_123_456L, bytes("long"), new byte[5000], none);
        Row[] all = {plain, nulls, headers, large};
        for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
            batch(codec + " plain", new Case(codec, 7, -1, -1, -1, -1, -1, false, -1, -1), plain);
            batch(codec + " mixed", new Case(codec, 7, 3, -1, -1, -1, -1, false, -1, -1), all);
        }
        batch("append time", new Case("none", 7, 3, 1_800_000_000_000L, -1, -1, -1, false, -1, -1), all);
        batch("idempotent", new Case("none", 7, 3, -1, 4_000_000_000L, 12, 2147483646, false, -1, -1), all);
        batch("transactional", new Case("none", 7, 3, -1, 5, 0, 0, true, -1, -1), all);
        batch("delete horizon", new Case("none", 7, 3, -1, 5, 0, 0, false, 1_750_000_000_000L, 400), nulls, headers);
        batch("no timestamp", new Case("none", 0, 0, -1, -1, -1, -1, false, -1, -1),
            new Row(0, -1, bytes("k"), bytes("v"), none));
        control("commit", MemoryRecords.withEndTransactionMarker(42, 1_700_000_000_000L, 3, 77, (short) 5,
            new EndTransactionMarker(ControlRecordType.COMMIT, 9)));
        control("abort", MemoryRecords.withEndTransactionMarker(42, 1_700_000_000_000L, 3, 77, (short) 5,
            new EndTransactionMarker(ControlRecordType.ABORT, 9)));
        ByteBuffer room = ByteBuffer.allocate(1000);
        control("leader change", MemoryRecords.withLeaderChangeMessage(11, 1_700_000_000_000L, 2, room,
            new LeaderChangeMessage().setLeaderId(1)
                .setVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(1)))
                .setGrantingVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(1)))));
        control("snapshot header", MemoryRecords.withSnapshotHeaderRecord(11, 1_700_000_000_000L, 2,
            ByteBuffer.allocate(1000), new SnapshotHeaderRecord().setLastContainedLogTimestamp(99)));
        control("snapshot footer", MemoryRecords.withSnapshotFooterRecord(11, 1_700_000_000_000L, 2,
            ByteBuffer.allocate(1000), new SnapshotFooterRecord()));
        control("kraft version", MemoryRecords.withKRaftVersionRecord(11, 1_700_000_000_000L, 2,
            ByteBuffer.allocate(1000), new KRaftVersionRecord().setKRaftVersion((short) 1)));
        control("voters", MemoryRecords.withVotersRecord(11, 1_700_000_000_000L, 2, ByteBuffer.allocate(1000),
            new VotersRecord().setVoters(List.of(new VotersRecord.Voter().setVoterId(1)
                .setVoterDirectoryId(new Uuid(1, 2))
                .setEndpoints(new VotersRecord.EndpointCollection(List.of(
                    new VotersRecord.Endpoint().setName("C").setHost("h").setPort(9)).iterator()))))));
        ByteBuffer empty = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(empty, (byte) 2, 77, (short) 5, 10, 100, 104, 3,
            TimestampType.CREATE_TIME, 1_700_000_000_000L, true, false);
        lines.add(entry("empty", "null", "[]", empty.array()));
        System.out.println("[\n" + String.join(",\n", lines) + "\n]");
    }

    static void batch(String name, Case c, Row... rows) {
        Compression compression = switch (c.codec) {
            case "gzip" -> Compression.gzip().build();
            case "snappy" -> Compression.snappy().build();
            case "lz4" -> Compression.lz4().build();
            case "zstd" -> Compression.zstd().build();
            default -> Compression.NONE;
        };
        TimestampType type = c.appendTime >= 0 ? TimestampType.LOG_APPEND_TIME : TimestampType.CREATE_TIME;
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
            new ByteBufferOutputStream(10_000), (byte) 2, compression, type, c.baseOffset,
            c.appendTime, c.producerId, (short) c.producerEpoch, c.sequence, c.transactional, false, c.epoch,
            1_000_000, c.deleteHorizon);
        List<String> written = new ArrayList<>();
        for (Row row : rows) {
            builder.appendWithOffset(row.offset, row.timestamp, row.key, row.value, row.headers);
            written.add(json(row));
        }
        if (c.lastOffset >= 0) builder.overrideLastOffset(c.lastOffset);
        String settings = String.format("{\"codec\":\"%s\",\"base_offset\":%d,\"leader_epoch\":%d,\"append_time\":%d,"
            + "\"producer_id\":%d,\"producer_epoch\":%d,\"base_sequence\":%d,\"transactional\":%s,"
            + "\"delete_horizon\":%d,\"last_offset\":%d}", c.codec, c.baseOffset, c.epoch, c.appendTime, c.producerId,
            c.producerEpoch, c.sequence, c.transactional, c.deleteHorizon, c.lastOffset);
        lines.add(entry(name, settings, "[" + String.join(",", written) + "]", content(builder.build())));
    }

    static void control(String name, MemoryRecords records) {
        List<String> written = new ArrayList<>();
        for (var record : records.records())
            written.add(json(new Row(record.offset(), record.timestamp(), content(record.key()), content(record.value()),
                record.headers())));
        lines.add(entry(name, "null", "[" + String.join(",", written) + "]", content(records)));
    }

    static String json(Row row) {
        List<String> headers = new ArrayList<>();
        for (Header header : row.headers)
            headers.add("[\"" + header.key() + "\"," + hex(header.value()) + "]");
        return String.format("{\"offset\":%d,\"timestamp\":%d,\"key\":%s,\"value\":%s,\"headers\":[%s]}", row.offset,
            row.timestamp, hex(row.key), hex(row.value), String.join(",", headers));
    }

    static String entry(String name, String settings, String records, byte[] batch) {
        return String.format("{\"name\":\"%s\",\"settings\":%s,\"records\":%s,\"batch\":%s}", name, settings, records,
            hex(batch));
    }

    static byte[] content(MemoryRecords records) {
        return content(records.buffer());
    }

    static byte[] content(ByteBuffer buffer) {
        byte[] out = new byte[buffer.remaining()];
        buffer.duplicate().get(out);
        return out;
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String hex(byte[] raw) {
        return raw == null ? "null" : "\"" + HexFormat.of().formatHex(raw) + "\"";
    }
}
