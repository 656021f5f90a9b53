"""Certificates for tests."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Authority:
    """A certificate authority of the test's own."""

    folder: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.folder / f"{self.name}.pem"

    def make(self) -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        self._write(self.certificate, self._signed(key, self.name, key, self.name, (), authority=True), None)
        (self.folder / f"{self.name}.key").write_bytes(_pem(key))
        return self

    def issue(self, name: str, expired: bool = False, dns: Sequence[str] = ()) -> Path:
        """A file with a certificate for 127.0.0.1 and the names ``dns``, and its key."""
        own = serialization.load_pem_private_key((self.folder / f"{self.name}.key").read_bytes(), None)
        key = ec.generate_private_key(ec.SECP256R1())
        path = self.folder / f"{name}.pem"
        self._write(path, self._signed(key, name, own, self.name, [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *map(x509.DNSName, dns)], expired=expired), key)
        return path

    @staticmethod
    def _write(path: Path, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey | None) -> None:
        path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + (_pem(key) if key else b""))

    @staticmethod
    def _signed(key: Any, name: str, issuer_key: Any, issuer: str, names: Sequence[x509.GeneralName], authority: bool = False, expired: bool = False) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        begin, end = now - datetime.timedelta(days=3), now + datetime.timedelta(days=-1 if expired else 1)
        ends = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, issuer)]
        builder = x509.CertificateBuilder().subject_name(ends[0]).issuer_name(ends[1]).public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(begin).not_valid_after(end).add_extension(x509.BasicConstraints(authority, None), critical=True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(issuer_key, hashes.SHA256())


def _pem(key: Any) -> bytes:
    return bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
