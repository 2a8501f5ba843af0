"""What one rank contributes to the search for causes: what its host and its devices did, and when."""
