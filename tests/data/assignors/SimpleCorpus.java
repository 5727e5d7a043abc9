import java.util.*;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/**
 * Lets Apache Kafka's assignor for share groups work on random groups, and prints what it was asked
 * and said.
 *
 * Groups live on: members come and go, topics grow, partitions become ready, wishes change, and
 * each answer is what the members own in the next question. Maps are sorted, and numbers so small
 * that Java's hash tables are walked in their order, except where wishes are alike and topics many.
 */
public class SimpleCorpus {
    static final Random chance = new Random(932);

    public static void main(String[] arguments) {
        StringBuilder out = new StringBuilder("[");
        for (int group = 0; group < 36; group++) life(out, group % 3);
        System.out.println(out.append("\n]"));
    }

    /** Of kind 0 all members want one topic, of kind 1 the same topics, of kind 2 any. */
    static void life(StringBuilder out, int kind) {
        int topicCount = kind == 0 ? 1 : 2 + chance.nextInt(3);
        TreeMap<Integer, TreeSet<Integer>> ready = new TreeMap<>();
        for (int topic = 0; topic < topicCount; topic++) ready.put(topic, some(15, 6));
        TreeMap<String, TreeSet<Integer>> wishes = new TreeMap<>();
        Map<String, Map<Uuid, Set<Integer>>> owned = new HashMap<>();
        TreeSet<Integer> common = new TreeSet<>(ready.keySet());
        int steps = 4 + chance.nextInt(5);
        for (int step = 0; step < steps; step++) {
            int coming = step == 0 ? 1 + chance.nextInt(5) : chance.nextInt(4);
            for (int i = 0; i < coming && wishes.size() < 15; i++) {
                String member = "m" + (100 + chance.nextInt(900));
                wishes.put(member, kind < 2 ? common : some(topicCount, 7));
            }
            int going = step == 0 ? 0 : chance.nextInt(3);
            for (int i = 0; i < going && wishes.size() > 1; i++) {
                String gone = new ArrayList<>(wishes.keySet()).get(chance.nextInt(wishes.size()));
                wishes.remove(gone);
                owned.remove(gone);
            }
            if (step > 0 && chance.nextInt(3) == 0) {
                ready.get(chance.nextInt(topicCount)).addAll(some(15, 3));
            }
            owned = ask(out, wishes, owned, ready, kind);
        }
    }

    /** Of the numbers below a bound, each with so many chances in ten. */
    static TreeSet<Integer> some(int end, int chances) {
        TreeSet<Integer> chosen = new TreeSet<>();
        for (int number = 0; number < end; number++) {
            if (chance.nextInt(10) < chances) chosen.add(number);
        }
        return chosen;
    }

    static Map<String, Map<Uuid, Set<Integer>>> ask(
        StringBuilder out, TreeMap<String, TreeSet<Integer>> wishes,
        Map<String, Map<Uuid, Set<Integer>>> owned, TreeMap<Integer, TreeSet<Integer>> ready,
        int kind) {
        TreeMap<String, MemberSubscriptionAndAssignmentImpl> members = new TreeMap<>();
        wishes.forEach((member, topics) -> {
            TreeSet<Uuid> ids = new TreeSet<>();
            topics.forEach(topic -> ids.add(new Uuid(0, topic)));
            members.put(member, new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), Optional.empty(), ids,
                new Assignment(Collections.unmodifiableMap(owned.getOrDefault(member, Map.of())))));
        });
        Map<Uuid, Set<Integer>> allowed = new HashMap<>();
        ready.forEach((topic, numbers) -> allowed.put(new Uuid(0, topic), numbers));
        SubscribedTopicDescriber topics = new SubscribedTopicDescriber() {
            public int numPartitions(Uuid id) {
                return 15;
            }
            public Set<String> racksForPartition(Uuid id, int partition) {
                return Set.of();
            }
            public Set<Integer> assignablePartitions(Uuid id) {
                return allowed.get(id);
            }
        };
        boolean alike = new HashSet<>(wishes.values()).size() == 1;
        GroupSpec spec = new GroupSpecImpl(
            members, alike ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS,
            Map.of(), Optional.of(allowed));
        GroupAssignment answer = new SimpleAssignor().assign(spec, topics);
        if (out.length() > 1) out.append(",");
        out.append("\n{\"kind\": ").append(kind).append(", \"alike\": ").append(alike);
        out.append(", \"ready\": ").append(json(ready));
        out.append(", \"members\": {");
        String comma = "";
        Map<String, Map<Uuid, Set<Integer>>> gets = new HashMap<>();
        for (String member : wishes.keySet()) {
            MemberAssignment got = answer.members().get(member);
            gets.put(member, wanted(got == null ? Map.of() : got.partitions(), wishes));
            out.append(comma).append("\"").append(member).append("\": {\"topics\": ");
            out.append(wishes.get(member)).append(", \"owned\": ");
            out.append(partitions(owned.getOrDefault(member, Map.of()))).append(", \"gets\": ");
            out.append(partitions(gets.get(member))).append("}");
            comma = ", ";
        }
        out.append("}}");
        return gets;
    }

    /** Without topics that nobody wants any more, which stay in targets and mean nothing there. */
    static Map<Uuid, Set<Integer>> wanted(
        Map<Uuid, Set<Integer>> partitions, TreeMap<String, TreeSet<Integer>> wishes) {
        TreeMap<Uuid, Set<Integer>> same = new TreeMap<>();
        partitions.forEach((topic, numbers) -> {
            int name = (int) topic.getLeastSignificantBits();
            boolean isWanted = wishes.values().stream().anyMatch(it -> it.contains(name));
            if (isWanted && !numbers.isEmpty()) same.put(topic, new TreeSet<>(numbers));
        });
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
