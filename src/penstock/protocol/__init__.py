"""Kafka's wire format: primitives, the registry of APIs, generated message codecs.

Owns: how messages, headers and the frames of records become bytes and back. Pure. It never
interprets a message: what a field means is for the rooms above.

    registry        every API by key: name, versions, listeners, header versions, classes
    api_keys        the keys by name
    headers         what stands before the message in a frame
    generated/      one module per API, emitted by codegen/; records of a kind share a module
    message         what every generated class can do
    record_frames   records of the metadata log and of the coordinators' topics
    primitives      varints, strings, arrays, ProtocolError

Enter at `registry`.
"""
