"""What the modules of HTA's names are made of; nothing here has a name of HTA's."""
