"""Random streams of episodes, which begin by the thousand: generators that are set, not made."""
