"""The timeline of a page: its data, its text and its script."""
