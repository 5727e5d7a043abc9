import java.util.*;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/**
 * Lets Apache Kafka's assignors work on random groups, and prints what they were asked and said.
 *
 * Groups live on: members come and go, topics grow, wishes change, and each answer is what the
 * members own in the next question. Maps are sorted, and topic ids small, so that the order in
 * which Java's hash tables are walked is one that others can follow.
 */
public class AssignorCorpus {
    static final Random chance = new Random(4843);

    public static void main(String[] arguments) {
        StringBuilder out = new StringBuilder("[");
        for (int group = 0; group < 48; group++) {
            boolean alike = group % 2 == 0;
            boolean range = group % 4 >= 2;
            life(out, alike, range);
        }
        System.out.println(out.append("\n]"));
    }

    static void life(StringBuilder out, boolean alike, boolean range) {
        int topicCount = 1 + chance.nextInt(4);
        TreeMap<Integer, Integer> counts = new TreeMap<>();
        for (int topic = 1; topic <= topicCount; topic++) counts.put(topic, 1 + chance.nextInt(12));
        TreeMap<String, TreeSet<Integer>> wishes = new TreeMap<>();
        TreeMap<String, String> instances = new TreeMap<>();
        Map<String, Map<Uuid, Set<Integer>>> owned = new HashMap<>();
        TreeSet<Integer> common = new TreeSet<>(counts.keySet());
        int steps = 3 + chance.nextInt(4);
        for (int step = 0; step < steps; step++) {
            int coming = step == 0 ? 1 + chance.nextInt(6) : chance.nextInt(3);
            for (int i = 0; i < coming; i++) {
                String member = "m" + (100 + chance.nextInt(900));
                wishes.put(member, alike ? common : some(counts.keySet()));
                if (chance.nextInt(4) == 0) instances.put(member, "i" + chance.nextInt(1000));
            }
            if (step > 0 && wishes.size() > 1 && chance.nextBoolean()) {
                String gone = new ArrayList<>(wishes.keySet()).get(chance.nextInt(wishes.size()));
                wishes.remove(gone);
                instances.remove(gone);
                owned.remove(gone);
            }
            if (step > 0 && chance.nextInt(3) == 0) {
                counts.merge(1 + chance.nextInt(topicCount), 1 + chance.nextInt(5), Integer::sum);
            }
            owned = ask(out, wishes, instances, owned, counts, alike, range);
        }
    }

    static TreeSet<Integer> some(Set<Integer> topics) {
        TreeSet<Integer> chosen = new TreeSet<>();
        for (int topic : topics) if (chance.nextInt(3) > 0) chosen.add(topic);
        return chosen;
    }

    static Map<String, Map<Uuid, Set<Integer>>> ask(
        StringBuilder out, TreeMap<String, TreeSet<Integer>> wishes,
        TreeMap<String, String> instances, Map<String, Map<Uuid, Set<Integer>>> owned,
        TreeMap<Integer, Integer> counts, boolean alike, boolean range) {
        TreeMap<String, MemberSubscriptionAndAssignmentImpl> members = new TreeMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        wishes.forEach((member, topics) -> {
            TreeSet<Uuid> ids = new TreeSet<>();
            topics.forEach(topic -> ids.add(new Uuid(0, topic)));
            Map<Uuid, Set<Integer>> has = owned.getOrDefault(member, Map.of());
            has.forEach((topic, numbers) -> numbers.forEach(number ->
                owners.computeIfAbsent(topic, it -> new HashMap<>()).put(number, member)));
            members.put(member, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.ofNullable(instances.get(member)), ids,
                new Assignment(Collections.unmodifiableMap(has))));
        });
        SubscriptionType type =
            alike ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) {
                return counts.get((int) id.getLeastSignificantBits());
            }
            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
            public Set<Integer> assignablePartitions(Uuid id) {
                throw new UnsupportedOperationException();
            }
        };
        PartitionAssignor assignor = range ? new RangeAssignor() : new UniformAssignor();
        GroupSpec spec = new GroupSpecImpl(members, type, owners, Optional.empty());
        GroupAssignment answer = assignor.assign(spec, topics);
        if (out.length() > 1) out.append(",");
        out.append("\n{\"assignor\": \"").append(range ? "range" : "uniform");
        out.append("\", \"alike\": ").append(alike).append(", \"counts\": ").append(json(counts));
        out.append(", \"members\": {");
        String comma = "";
        Map<String, Map<Uuid, Set<Integer>>> gets = new HashMap<>();
        for (String member : wishes.keySet()) {
            MemberAssignment got = answer.members().get(member);
            gets.put(member, sorted(got == null ? Map.of() : got.partitions()));
            out.append(comma).append("\"").append(member).append("\": {\"topics\": ");
            out.append(wishes.get(member)).append(", \"instance\": ");
            String instance = instances.get(member);
            out.append(instance == null ? "null" : "\"" + instance + "\"").append(", \"owned\": ");
            out.append(partitions(owned.getOrDefault(member, Map.of()))).append(", \"gets\": ");
            out.append(partitions(gets.get(member))).append("}");
            comma = ", ";
        }
        out.append("}}");
        return gets;
    }

    static Map<Uuid, Set<Integer>> sorted(Map<Uuid, Set<Integer>> partitions) {
        TreeMap<Uuid, Set<Integer>> same = new TreeMap<>();
        partitions.forEach((topic, numbers) -> same.put(topic, new TreeSet<>(numbers)));
        return same;
    }

    static String partitions(Map<Uuid, Set<Integer>> partitions) {
        TreeMap<Integer, Set<Integer>> named = new TreeMap<>();
        partitions.forEach((id, numbers) -> named.put((int) id.getLeastSignificantBits(), numbers));
        return json(named);
    }

    static String json(Map<Integer, ?> map) {
        StringJoiner all = new StringJoiner(", ", "{", "}");
        map.forEach((key, value) -> all.add("\"" + key + "\": " + value));
        return all.toString();
    }
}
