"""The pages of the console, and what they ask for while they are open."""
