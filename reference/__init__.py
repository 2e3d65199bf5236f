"""NumPy reference of every op, format and layer of Ingot.  See README.md."""
