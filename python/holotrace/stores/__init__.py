"""Where files are: this machine and object stores."""
