"""Tables of the catalog: how they are made, described and maintained."""
