// Writes corpus.txt: every message that Apache Kafka's own classes can write, in every version.
//
//   javac -cp 'LIBS/*' -d /tmp/corpus Corpus.java && java -cp 'LIBS/*:/tmp/corpus' Corpus LIBS > corpus.txt
//
// A line is: name, version, fill, bytes in hex. Fills follow a fixed rule (see `Fill`), which
// tests/unit/protocol/filling.py repeats in Python, so that values are compared and not bytes alone:
//   full   every field is set to something that is not its default, and arrays have two elements
//   nulls  as full, but whatever may be null is null
//   bare   a new object, as it is
// Lines that start with `frame`, `key` and `value` hold records in the frames of their logs, `error`
// a code and whether to retry, `header` the header versions of a request and its response.

import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.TreeMap;
import java.util.jar.JarFile;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.record.internal.BaseRecords;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public class Corpus {
    static final List<String> JARS = List.of(
        "kafka-clients", "kafka-metadata", "kafka-raft", "kafka-storage",
        "kafka-group-coordinator", "kafka-share-coordinator", "kafka-transaction-coordinator");

    public static void main(String[] args) throws Exception {
        TreeMap<String, Class<?>> classes = new TreeMap<>();
        for (File file : new File(args[0]).listFiles()) {
            if (JARS.stream().noneMatch(jar -> file.getName().matches(jar + "-[\\d.]+\\.jar"))) {
                continue;
            }
            try (JarFile jar = new JarFile(file)) {
                for (var entry : Collections.list(jar.entries())) {
                    String name = entry.getName();
                    if (name.endsWith(".class") && !name.contains("$")
                            && name.matches(".*/(message|metadata|generated)/[^/]+")) {
                        Class<?> cls = Class.forName(name.replace('/', '.').replace(".class", ""));
                        if (isMessage(cls)) {
                            classes.put(nameOf(cls), cls);
                        }
                    }
                }
            }
        }
        for (var it : classes.entrySet()) {
            writeMessage(it.getKey(), it.getValue());
        }
        writeErrors();
        writeHeaderVersions();
    }

    static void writeErrors() {
        for (Errors it : Errors.values()) {
            boolean retriable = it.exception() instanceof RetriableException;
            System.out.println("error " + it.name() + " " + it.code() + " " + (retriable ? "retriable" : "final"));
        }
    }

    static void writeHeaderVersions() {
        for (ApiKeys it : ApiKeys.values()) {
            if (!it.hasValidVersion()) {
                continue;
            }
            for (short version = it.oldestVersion(); version <= it.latestVersion(true); version++) {
                System.out.println("header " + it.name + "/" + version + " "
                    + it.requestHeaderVersion(version) + " " + it.responseHeaderVersion(version));
            }
        }
    }

    static boolean isMessage(Class<?> cls) {
        return Message.class.isAssignableFrom(cls) && !Modifier.isAbstract(cls.getModifiers())
            && Arrays.stream(cls.getFields()).anyMatch(it -> it.getName().equals("SCHEMAS"));
    }

    static String nameOf(Class<?> cls) {
        return cls.getSimpleName().replaceFirst("(Request|Response|Header)Data$", "$1");
    }

    static void writeMessage(String name, Class<?> cls) throws Exception {
        Message probe = (Message) cls.getDeclaredConstructor().newInstance();
        for (short version = probe.lowestSupportedVersion();
                version <= probe.highestSupportedVersion(); version++) {
            for (String fill : List.of("full", "nulls", "bare")) {
                Object message = fill.equals("bare")
                    ? cls.getDeclaredConstructor().newInstance()
                    : new Fill(version, fill.equals("nulls")).struct(cls);
                if (fill.equals("bare") && !encodable((Message) message, version)) {
                    continue;  // its defaults have no form on the wire
                }
                System.out.println(name + " " + version + " " + fill + " " + hex(encode((Message) message, version)));
                if (fill.equals("full")) {
                    writeFramed(name, cls, (ApiMessage) message, version);
                }
            }
        }
    }

    static void writeFramed(String name, Class<?> cls, ApiMessage message, short version) {
        String home = cls.getPackageName();
        if (home.equals("org.apache.kafka.common.metadata")) {
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ApiMessageAndVersion record = new ApiMessageAndVersion(message, version);
            ByteBuffer buffer = ByteBuffer.allocate(MetadataRecordSerde.INSTANCE.recordSize(record, cache));
            MetadataRecordSerde.INSTANCE.write(record, cache, new ByteBufferAccessor(buffer));
            System.out.println("frame " + name + " " + version + " " + hex(buffer.array()));
        } else if (home.startsWith("org.apache.kafka.coordinator") && name.endsWith("Key")) {
            System.out.println("key " + name + " " + version + " " + hex(MessageUtil.toCoordinatorTypePrefixedBytes(message)));
        } else if (home.startsWith("org.apache.kafka.coordinator")) {
            System.out.println("value " + name + " " + version + " " + hex(MessageUtil.toVersionPrefixedBytes(version, message)));
        }
    }

    static boolean encodable(Message message, short version) {
        try {
            encode(message, version);
            return true;
        } catch (NullPointerException missing) {
            return false;
        }
    }

    static byte[] encode(Message message, short version) {
        ByteBuffer buffer = MessageUtil.toByteBufferAccessor(message, version).buffer();
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte it : bytes) {
            text.append(String.format("%02x", it));
        }
        return text.toString();
    }

    /** The rule: a counter rises with every value, in the order of the wire, and decides it. */
    static class Fill {
        final short version;
        final boolean nulls;
        int count = 0;

        Fill(short version, boolean nulls) {
            this.version = version;
            this.nulls = nulls;
        }

        Object struct(Class<?> cls) throws Exception {
            Object it = cls.getDeclaredConstructor().newInstance();
            Schema schema = ((Schema[]) cls.getField("SCHEMAS").get(null))[version];
            for (var bound : schema.fields()) {
                if (bound.def.type instanceof TaggedFields tagged) {
                    for (var tag : tagged.fields().values()) {
                        set(it, tag.name, tag.type.isNullable());
                    }
                } else {
                    set(it, bound.def.name, bound.def.type.isNullable());
                }
            }
            return it;
        }

        void set(Object it, String name, boolean nullable) throws Exception {
            String plain = name.replace("_", "");
            for (Field field : it.getClass().getDeclaredFields()) {
                if (field.getName().equalsIgnoreCase(plain) && !Modifier.isStatic(field.getModifiers())) {
                    field.setAccessible(true);
                    field.set(it, nulls && nullable ? null : value(field, field.get(it)));
                    return;
                }
            }
            throw new IllegalStateException(it.getClass() + " has no " + name);
        }

        Object value(Field field, Object now) throws Exception {
            Class<?> type = field.getType();
            if (Collection.class.isAssignableFrom(type)) {
                return collection(field, type);
            }
            if (Message.class.isAssignableFrom(type)) {
                return struct(type);
            }
            return scalar(type, now);
        }

        @SuppressWarnings({"unchecked", "rawtypes"})
        Object collection(Field field, Class<?> type) throws Exception {
            Class<?> element;
            Collection all;
            if (type == List.class) {
                element = (Class<?>) ((ParameterizedType) field.getGenericType()).getActualTypeArguments()[0];
                all = new ArrayList();
            } else {
                element = Class.forName(type.getName().replaceFirst("Collection$", ""));
                all = (Collection) type.getDeclaredConstructor().newInstance();
            }
            for (int i = 0; i < 2; i++) {
                all.add(Message.class.isAssignableFrom(element) ? struct(element) : scalar(element, null));
            }
            return all;
        }

        Object scalar(Class<?> type, Object now) {
            int k = ++count;
            if (type == boolean.class) {
                return !(Boolean) now;
            } else if (type == byte.class || type == Byte.class) {
                return (byte) (30 + k % 90);
            } else if (type == short.class || type == Short.class) {
                return (short) (-1000 - k);
            } else if (type == int.class || type == Integer.class) {
                // 16 bits without a sign are an int in Java; only some values fit both.
                return 40000 + k;
            } else if (type == long.class || type == Long.class) {
                return 3000000000L + k;
            } else if (type == double.class) {
                return k + 0.5;
            } else if (type == String.class) {
                return text(k);
            } else if (type == Uuid.class) {
                return new Uuid(0x1000000000000000L + k, 0x2000000000000000L + k);
            } else if (type == byte[].class) {
                return text(k).getBytes(StandardCharsets.UTF_8);
            } else if (type == ByteBuffer.class) {
                return ByteBuffer.wrap(text(k).getBytes(StandardCharsets.UTF_8));
            } else if (BaseRecords.class.isAssignableFrom(type)) {
                return MemoryRecords.readableRecords(ByteBuffer.wrap(text(k).getBytes(StandardCharsets.UTF_8)));
            }
            throw new IllegalStateException("no rule for " + type);
        }

        /** Short, outside ASCII, or too long for a length of one byte. */
        static String text(int k) {
            if (k % 7 == 3) {
                return "\u00e9\u6f22" + k;
            }
            return k % 13 == 5 ? "x".repeat(150) + k : "s" + k;
        }
    }
}
