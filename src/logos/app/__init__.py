"""The Python API: settings, paths, wiring, and one function per use case. The only layer that builds adapters."""
