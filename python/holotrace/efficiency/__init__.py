"""What work an operator does, and what a device could do: models of operators, devices and categories."""
