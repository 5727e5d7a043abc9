"""What happens between reading and writing: each kind makes views out of views."""
