"""Who somebody is and what they may do: principals, mechanisms, keys, tokens, rights.

It owns the exchanges by which people prove who they are, the certificates and key files of
listeners, and the rules over the ACLs of the metadata image. Machines here are pure; reading key
files is all that touches a disk. It never opens a socket and never decides what is in the metadata
log: `server` and `app` drive it, `controller` decides.

Enter at `principal.py` and `authorizer.py`.
"""
