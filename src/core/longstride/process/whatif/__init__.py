"""``--mode whatif``: compares policies on several scenarios on common random numbers."""
