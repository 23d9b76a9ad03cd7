"""The best rows of many tables: vectors, texts, and what is known of both."""
