"""Pipelines on Spark, assembled from a file.

Imports none of the broker's rooms but `model`. Nothing is built here yet.
"""
