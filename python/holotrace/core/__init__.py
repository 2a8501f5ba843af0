"""What a table, an analysis and a finding are, and the declarations of all tables."""
