"""Policies on several scenarios side by side, on common random numbers: what if the process were another one."""
