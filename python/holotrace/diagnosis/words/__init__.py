"""What causes are called and what is said of them."""
