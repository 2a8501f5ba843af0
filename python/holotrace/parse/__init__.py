"""Bytes to tables, one module per format."""
