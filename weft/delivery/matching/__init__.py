"""Whose rows are these: thousands of subscriptions against a batch of rows, at once."""
