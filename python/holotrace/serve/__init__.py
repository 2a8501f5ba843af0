"""A page with all events of a job, from a server on this machine: what is looked at is read when it is."""
