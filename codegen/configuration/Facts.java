import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.function.Function;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Prints what a Kafka release says about each of its configuration keys, one JSON object a line:
 * names, types, defaults, bounds and synonyms. The prose is left where it is.
 */
public class Facts {
    public static void main(String[] args) throws Exception {
        Class<?> dynamic = Class.forName("org.apache.kafka.server.config.DynamicBrokerConfig");
        Map<String, String> modes = cast(dynamic.getMethod("dynamicConfigUpdateModes").invoke(null));
        ConfigDef broker = cast(Class.forName("kafka.server.KafkaConfig").getMethod("configDef").invoke(null));
        ConfigDef altered = cast(constant("org.apache.kafka.server.config.DynamicConfig$Broker", "BROKER_CONFIGS"));
        for (ConfigDef.ConfigKey key : broker.configKeys().values())
            print("broker", key, modes.getOrDefault(key.name, "read-only"), "");
        for (ConfigDef.ConfigKey key : altered.configKeys().values())
            if (!broker.configKeys().containsKey(key.name)) print("throttle", key, "cluster-wide", "");

        String logConfig = "org.apache.kafka.storage.internals.log.LogConfig";
        ConfigDef topic = cast(Class.forName(logConfig).getMethod("configDefCopy").invoke(null));
        Map<String, String> topicSynonyms = topicSynonyms();
        for (ConfigDef.ConfigKey key : topic.configKeys().values())
            print("topic", key, "", topicSynonyms.getOrDefault(key.name, ""));

        String groupConfig = "org.apache.kafka.coordinator.group.GroupConfig";
        ConfigDef group = cast(constant(groupConfig, "CONFIG_DEF"));
        Map<String, Optional<String>> groupSynonyms = cast(constant(groupConfig, "ALL_GROUP_CONFIG_SYNONYMS"));
        for (ConfigDef.ConfigKey key : group.configKeys().values())
            print("group", key, "", groupSynonyms.get(key.name).map(name -> name + "*1").orElse(""));

        String metricsConfig = "org.apache.kafka.server.metrics.ClientMetricsConfigs";
        ConfigDef metrics = cast(Class.forName(metricsConfig).getMethod("configDef").invoke(null));
        for (ConfigDef.ConfigKey key : metrics.configKeys().values())
            print("client-metrics", key, "", "");
    }

    /** Topic key to "broker.key*factor,...", most specific first. */
    private static Map<String, String> topicSynonyms() throws Exception {
        Map<String, List<?>> all =
            cast(constant("org.apache.kafka.server.config.ServerTopicConfigSynonyms", "ALL_TOPIC_CONFIG_SYNONYMS"));
        Map<String, String> texts = new TreeMap<>();
        for (Map.Entry<String, List<?>> entry : all.entrySet()) {
            StringBuilder text = new StringBuilder();
            for (Object synonym : entry.getValue()) {
                Function<String, String> convert = cast(synonym.getClass().getMethod("converter").invoke(synonym));
                text.append(text.length() == 0 ? "" : ",");
                text.append(synonym.getClass().getMethod("name").invoke(synonym)).append("*").append(convert.apply("1"));
            }
            texts.put(entry.getKey(), text.toString());
        }
        return texts;
    }

    private static void print(String kind, ConfigDef.ConfigKey key, String mode, String synonyms) throws Exception {
        boolean required = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE;
        String standard = required ? null : ConfigDef.convertToString(key.defaultValue, key.type);
        ConfigDef.Validator rule = key.validator;
        boolean list = rule instanceof ConfigDef.ValidList;
        System.out.println("{" + String.join(",", List.of(
            field("kind", kind), field("name", key.name), field("type", key.type), field("default", standard),
            "\"required\":" + required, "\"internal\":" + key.internalConfig,
            field("rule", rule == null ? "" : rule.getClass().getSimpleName()), field("valid", rule == null ? "" : rule),
            "\"empty\":" + (list && flag(rule, "isEmptyAllowed")), "\"null\":" + (list && flag(rule, "isNullAllowed")),
            field("importance", key.importance), field("mode", mode), field("synonyms", synonyms))) + "}");
    }

    private static String field(String name, Object value) {
        if (value == null) return "\"" + name + "\":null";
        return "\"" + name + "\":\"" + value.toString().replace("\\", "\\\\").replace("\"", "\\\"") + "\"";
    }

    private static boolean flag(Object owner, String name) throws Exception {
        Field field = owner.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.getBoolean(owner);
    }

    private static Object constant(String type, String name) throws Exception {
        Field field = Class.forName(type).getDeclaredField(name);
        field.setAccessible(true);
        return field.get(null);
    }

    @SuppressWarnings("unchecked")
    private static <T> T cast(Object value) {
        return (T) value;
    }
}
