"""Who somebody is and what they may do: principals, mechanisms, keys, tokens, rights.

Owns: the exchanges by which people prove who they are, the certificates and key files of
listeners, and the rules over the ACLs of the metadata image. Pure, but for the files and key sets
that configuration names (`stores`, `retrieval`). It never talks to clients and never writes to the
metadata log: `server` and `app` drive it, `controller` decides. Enter at `principal`, `mechanisms`
and `authorizer`.
"""
