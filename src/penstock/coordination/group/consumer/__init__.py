"""Consumer groups (KIP-848): members say what they want, the coordinator assigns."""
