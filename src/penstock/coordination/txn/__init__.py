"""The transaction coordinator: who may write, what a transaction covers, and how it ends."""
