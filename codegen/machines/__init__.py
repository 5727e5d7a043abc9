"""Pictures of the state machines, drawn from the tables that run them."""
