"""What `penstock.cli.reference` writes out of the commands."""
