"""What every statement runs within: sessions and transactions of clients, turns, limits, cancellation; nothing here knows SQL."""
