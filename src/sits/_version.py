"""The one place that holds the version; the build and `sits --version` read it."""

__version__ = "0.1.0"
