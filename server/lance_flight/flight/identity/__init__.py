"""Authentication: maps the credentials of a call to a principal.

`credentials` reads what a call carries, `authentication` tries a table of authenticators on it: `users` (passwords, and the session
tokens that they are exchanged for), those of an operator, `json_web_tokens`.
"""
