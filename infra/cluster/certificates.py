"""The certificates of one cluster: Ray's machines talk to those alone that have them, encrypted.

All machines of a cluster trust each other alike, so they share one certificate. Its authority is
made for it and forgotten at once: nobody can make another one.
"""

import ipaddress
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from infra.whole_file import write_whole

_AUTHORITY, _CERTIFICATE, _KEY = "authority.pem", "certificate.pem", "key.pem"
FILES = (_AUTHORITY, _CERTIFICATE, _KEY)
VALID = timedelta(days=365)
"""A sweep cannot last longer."""
_CLOCKS_APART = timedelta(days=1)
"""What the clocks of two machines may differ by."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True, slots=True)
class Certificates:
    """What each machine of a cluster needs, as PEM."""

    authority: bytes
    certificate: bytes
    key: bytes = field(repr=False)

    @classmethod
    def made_for(cls, addresses: Iterable[str]) -> "Certificates":
        """Make those of a cluster whose machines have these addresses, or names."""
        from cryptography import x509  # slow to import, and few sweeps need it
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        def builder(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
            now = datetime.now(UTC)
            return (
                x509.CertificateBuilder()
                .subject_name(_named(subject))
                .issuer_name(_named("authority"))
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - _CLOCKS_APART)
                .not_valid_after(now + VALID)
            )

        def _named(what: str) -> x509.Name:
            text = f"{what} of one sweep's cluster"
            return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

        owner, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
        pem = serialization.Encoding.PEM
        authority = builder("authority", owner).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        names = [
            x509.IPAddress(one) if isinstance(one, _IP) else x509.DNSName(one)
            for one in dict.fromkeys(_known_as([*_LOOPBACK, *addresses]))
        ]
        machine = (
            builder("machines", key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
        )
        return cls(
            authority.sign(owner, hashes.SHA256()).public_bytes(pem),
            machine.sign(owner, hashes.SHA256()).public_bytes(pem),
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        )

    def write(self, folder: Path) -> None:
        """Write the files that `tls_variables` names into a folder. Raises OSError."""
        contents = (self.authority, self.certificate, self.key)
        for name, content in zip(FILES, contents, strict=True):
            write_whole(folder / name, content, 0o600)


def tls_variables(folder: str) -> dict[str, str]:
    """Return what tells Ray to use the certificates in a folder, on the machine where it lies."""
    return {
        "RAY_USE_TLS": "1",
        "RAY_TLS_CA_CERT": f"{folder}/{_AUTHORITY}",
        "RAY_TLS_SERVER_CERT": f"{folder}/{_CERTIFICATE}",
        "RAY_TLS_SERVER_KEY": f"{folder}/{_KEY}",
    }


_IP = (ipaddress.IPv4Address, ipaddress.IPv6Address)
_Ip = ipaddress.IPv4Address | ipaddress.IPv6Address


def _known_as(addresses: Iterable[str]) -> Iterator[_Ip | str]:
    """Yield addresses, and names with all of their addresses: Ray may use either."""
    for address in addresses:
        try:
            yield ipaddress.ip_address(address)
        except ValueError:
            yield address
            try:
                found = socket.getaddrinfo(address, None, type=socket.SOCK_STREAM)
            except OSError:
                continue
            yield from (ipaddress.ip_address(str(one[4][0]).partition("%")[0]) for one in found)
