"""What this updater can do beyond eager steps, for the plan: it switches nothing on that is not named here."""

ABILITIES: frozenset[str] = frozenset({"compile", "graph_capture"})
"""Of ``compile``, ``graph_capture`` and ``fp8``."""
