"""Classic groups: members join, one of them assigns, all of them sync."""
