"""The kernels of the operators: one folder for each kind of device."""
