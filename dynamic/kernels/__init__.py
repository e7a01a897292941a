"""What the operators compute with: one folder for each kind of device."""
