"""``--mode staff``: searches teams that are cheaper, quicker or more punctual under a trained policy."""
