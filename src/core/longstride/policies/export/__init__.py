"""A trained policy for programs without this package: files, and the text that explains them."""
