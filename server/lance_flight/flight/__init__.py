"""Flight SQL: bytes to typed commands, one backend interface, Arrow streams back."""
