"""Certificates, made on the spot."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key, and what is signed with it."""

    certificate: x509.Certificate
    private: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> bytes:
        """The certificate as a file has it."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    @property
    def key(self) -> bytes:
        """The key as a file has it."""
        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def signs(self, name: str | None, *also: str, lasts: timedelta = 30 * DAY) -> Certificate:
        """A certificate for somebody, with alternative names if he has some."""
        return _made(name, also, lasts, self)

    def signs_a_server(self) -> Certificate:
        """A certificate for a server on this machine."""
        return self.signs("server", "localhost", "127.0.0.1")

    def write(self, certificate: Path, key: Path) -> None:
        """Put both in their files."""
        certificate.write_bytes(self.pem)
        key.write_bytes(self.key)
        key.chmod(0o600)


def authority(name: str = "the authority") -> Certificate:
    """One that signs others."""
    return _made(name, (), 30 * DAY, None)


def _made(name: str | None, also: tuple[str, ...], lasts: timedelta, issuer: Certificate | None) -> Certificate:
    private, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    subject = x509.Name([] if name is None else [x509.NameAttribute(NameOID.COMMON_NAME, name)])
    begun = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.certificate.subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 100 * DAY)
        .not_valid_after(now + lasts)
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if also:
        names = [x509.IPAddress(ip_address(n)) if n[0].isdecimal() else x509.DNSName(n) for n in also]
        begun = begun.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return Certificate(begun.sign(private if issuer is None else issuer.private, hashes.SHA256()), private)
