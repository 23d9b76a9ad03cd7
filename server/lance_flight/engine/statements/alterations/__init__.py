"""The forms of ALTER TABLE, but for those that are maintenance."""
