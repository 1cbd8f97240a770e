"""A run as one page that a browser shows: ``report.html``."""
