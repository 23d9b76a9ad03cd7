"""Certificates of a server, in files that are replaced while it runs; imported only if TLS is configured."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.x509.oid import NameOID

from lance_flight.connections import Tls
from lance_flight.errors import InvalidInput
from lance_flight.file_reloading import FileState, states, warn_if_open

_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class TlsFiles:
    """Paths of the PEM files of a server's certificates and key."""

    certificate: str
    key: str
    client_ca: str = ""
    _said: str = field(default="", init=False)

    def read(self) -> Tls:
        """Read and check the files; raise `InvalidInput` for unusable ones."""
        tls = self._content()
        first = self._check(tls)
        if unusable := _out_of_time(first):
            _log.warning("certificate %r %s", self.certificate, unusable)
        warn_if_open(self.key, "key")
        self._tell(first, is_in_force=True)
        return tls

    def read_changed(self, since: Tls) -> Tls | None:
        """Return the content of the files if it has changed and is usable; a server continues with its old certificates otherwise.

        A certificate that is out of its time replaces none that is in it. The reason why the files are not usable is logged once.
        """
        running = _certificates(since.certificate, self.certificate)[0]
        try:
            tls = self._content()
            if tls == since:
                self._said = ""
                self._tell(running, is_in_force=True)
                return None
            first = self._check(tls)
            if not _out_of_time(running):
                self._check_time(first)
        except InvalidInput as exc:
            if str(exc) != self._said:
                self._said = str(exc)
                _log.error("the certificates in use stay as they are: %s", exc)
            self._tell(running, is_in_force=False)
            return None
        self._said = ""
        self._tell(first, is_in_force=True)
        return tls

    def _check_time(self, first: x509.Certificate) -> None:
        unusable = _out_of_time(first)
        if unusable:
            raise InvalidInput(f"certificate {self.certificate!r} {unusable}")

    @staticmethod
    def _tell(first: x509.Certificate, *, is_in_force: bool) -> None:
        states["certificate"] = FileState(is_in_force, first.not_valid_after_utc.timestamp())

    def _content(self) -> Tls:
        return Tls(
            certificate=_content(self.certificate),
            key=_content(self.key),
            client_ca=_content(self.client_ca) if self.client_ca else None,
        )

    def _check(self, tls: Tls) -> x509.Certificate:
        """Check that certificates and key fit together, and return the server's own certificate."""
        first = _certificates(tls.certificate, self.certificate)[0]
        if _public(first.public_key()) != self._public_half(tls.key):
            raise InvalidInput(f"key {self.key!r} is not that of certificate {self.certificate!r}")
        if tls.client_ca is not None:
            _certificates(tls.client_ca, self.client_ca)
        return first

    def _public_half(self, key: bytes) -> bytes:
        try:
            return _public(serialization.load_pem_private_key(key, None).public_key())
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise InvalidInput(f"key {self.key!r} is no private key in PEM without a password") from None


def _out_of_time(certificate: x509.Certificate) -> str:
    """Return why a certificate is not good now; an empty text if it is."""
    now, first, last = datetime.now(UTC), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if last < now:
        return f"has expired at {last}"
    return f"is not valid before {first}" if first > now else ""


def name_of(pem: bytes) -> str:
    """Return a name that a certificate is good for, by which its server can be expected at another address."""
    first = x509.load_pem_x509_certificates(pem)[0]
    with suppress(x509.ExtensionNotFound):
        also = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        names = [*also.get_values_for_type(x509.DNSName), *map(str, also.get_values_for_type(x509.IPAddress))]
        if names:
            # A wildcard stands for any one label.
            return names[0].replace("*", "server", 1)
    return next((str(attribute.value) for attribute in first.subject.get_attributes_for_oid(NameOID.COMMON_NAME)), "")


def _content(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as exc:
        raise InvalidInput(f"{path!r} cannot be read: {exc.strerror}") from exc


def _certificates(pem: bytes, path: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise InvalidInput(f"{path!r} holds no certificates in PEM") from None


def _public(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
