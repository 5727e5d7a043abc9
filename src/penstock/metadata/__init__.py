"""The cluster's metadata as an immutable image, and deltas between images.

Owns: what each metadata record means (one file per kind of record), and how an image is written
back as records. Pure: it never appends a record, reads a clock or touches a file. Enter at
`image`; `delta` folds records into the next image, `loader` folds whole batches.
"""
