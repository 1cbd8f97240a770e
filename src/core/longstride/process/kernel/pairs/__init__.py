"""What a policy for any number of people and activities reads: descriptions of feasible pairs, and a summary."""
