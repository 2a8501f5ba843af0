"""Tables made from tables, shared by several analyses."""
