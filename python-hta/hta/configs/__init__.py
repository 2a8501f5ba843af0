"""What is read of a trace, and what can be switched."""
