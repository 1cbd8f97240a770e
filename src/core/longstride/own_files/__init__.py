"""Which folders and files are Longstride's own, and how it writes and removes them."""
