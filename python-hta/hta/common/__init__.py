"""Traces, and the symbols and files they are made of."""
