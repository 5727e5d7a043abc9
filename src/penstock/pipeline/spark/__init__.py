"""Spark itself: a Java, the jars, and sessions with the settings that pipelines want.

Owns what must be on the machine before a pipeline can run; knows nothing of pipeline files. Enter
at `session.open_session`, or at `doctor.examine` to see what is there.
"""
