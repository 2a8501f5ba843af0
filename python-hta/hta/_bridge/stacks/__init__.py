"""Who called whom on a thread, from starts and ends."""
