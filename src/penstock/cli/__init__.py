"""The `penstock` command.

Owns what a user types and reads: words, tables, lines, exit statuses. It starts nodes through `app`
and reads their files through `storage`; a running cluster it knows over the wire alone, like any
other client. Heavy imports happen inside commands, so that help answers at once.

Enter at `main`. `root` is the table of commands; each command has a module of its name, and what it
does at length is next to it: `sending`, `reading`, `topics`, `settings`, `dump`, `groups`, `txns`.
Clusters are reached through `client`, which is librdkafka, or, where librdkafka's admin cannot say
what is wanted, through `wire`, which is our own codecs over a plain socket.
"""
