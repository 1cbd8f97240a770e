"""Collection on several hosts: Ray actors that run the compiled loop."""
