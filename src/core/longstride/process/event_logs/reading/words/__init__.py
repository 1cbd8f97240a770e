"""Meanings of the words in a log's cells: words for nothing, and words for transitions."""
