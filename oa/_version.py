"""The version, in one place: the distribution, the command line and every saved file read it here."""

__version__ = "0.1.0"
