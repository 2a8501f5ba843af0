"""Critical paths as HTA shows them: the graph, its files, and what is drawn of it."""
