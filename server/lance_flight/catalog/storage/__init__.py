"""Where Lance tables lie: how they are opened, listed and told apart, and who is reading them."""
