"""What HTA says of a kernel by its name."""
