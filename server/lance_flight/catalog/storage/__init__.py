"""Storage of Lance tables: opening, listing and identifying them, and leases of their readers."""
