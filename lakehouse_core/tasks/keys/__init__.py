"""What tasks read of the keys of a table: live keys with their places, keys that are compared, hashes."""
