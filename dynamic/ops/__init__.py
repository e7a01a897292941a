"""The operators, one module for each family: plain functions on one sample, lifted by `operator`."""
