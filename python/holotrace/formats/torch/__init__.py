"""Other files of PyTorch's: execution traces and memory timelines."""
