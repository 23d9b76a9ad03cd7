"""Forms of ALTER TABLE, except those that are maintenance."""
