"""From a rollout to its samples on the device."""
