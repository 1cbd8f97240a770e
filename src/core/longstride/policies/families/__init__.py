"""Families of networks: a folder for each, which nothing outside names but the two lists of them."""
