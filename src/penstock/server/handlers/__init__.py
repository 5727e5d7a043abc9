"""One file per API; each opens with the versions and behaviour that it answers for.

A handler takes the broker, the call and the request, and returns the response.
"""
