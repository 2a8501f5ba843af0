"""What people see: text, figures and the report; the only place that rounds, colours and knows percent."""
