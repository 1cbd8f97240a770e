"""Several processes that train one policy together: ranks."""
