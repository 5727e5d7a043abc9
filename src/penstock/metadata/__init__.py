"""The cluster's metadata as an immutable image, and deltas between images.

Pure: folds records into images. It never appends a record. Enter at `image`.
"""
