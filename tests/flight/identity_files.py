"""Files of a server that asks who calls over TLS: Alice and Bob are known by passwords and tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.flight.certificates import Certificate, authority
from tests.flight.identities import TOKENS, tokens_text, users_text


@dataclass(frozen=True)
class IdentityFiles:
    """The files in a directory, and who signs the certificate."""

    path: Path
    ca: Certificate = field(default_factory=authority)

    def __post_init__(self) -> None:
        self.ca.signs_a_server().write(self.path / "cert", self.path / "key")
        (self.path / "ca").write_bytes(self.ca.pem)
        (self.path / "token of bob").write_text(TOKENS["bob"] + "\n")
        for name, text in {"users": users_text(), "tokens": tokens_text()}.items():
            (self.path / name).write_text(text)
            (self.path / name).chmod(0o600)

    @property
    def arguments(self) -> list[str]:
        """What `serve` is given."""
        names = {"users-file": "users", "tokens-file": "tokens", "tls-certificate": "cert", "tls-key": "key"}
        return [part for name, file in names.items() for part in (f"--{name}", str(self.path / file))]
