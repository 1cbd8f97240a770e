"""What Python programs and notebooks use; the package ``longstride`` exports it."""
