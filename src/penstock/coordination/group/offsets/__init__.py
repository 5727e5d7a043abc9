"""What groups have committed, kept until nobody can want it any more."""
