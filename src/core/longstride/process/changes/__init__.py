"""Changes of a scenario in words, such as ``people +1 analyst``: what if the process were another one."""
