"""What happens to a case without anybody's decision: delays, automatic activities, and who comes to work."""
