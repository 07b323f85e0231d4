"""What may stand for an address: of a provider, a system, a service."""

import ipaddress
from urllib.parse import urlsplit


def check_address(address: str) -> str:
    """The address, with or without a scheme, if its host and port can be read; else ValueError."""
    try:
        urlsplit(address if "://" in address else f"//{address}").port  # noqa: B018 - it raises
    except ValueError:  # whose text may hold a part of the password
        raise ValueError("no address: write http://HOST:PORT, the port a number up to 65535") from None
    return address


def check_bare_address(address: str) -> str:
    """The address, which reports may print; ValueError also if it holds a user or a password."""
    check_address(address)
    if "@" in urlsplit(address if "://" in address else f"//{address}").netloc:
        raise ValueError("it holds a user or a password, and reports name it: a key has a variable of its own")
    return address


def is_url(value: object) -> bool:
    """Is it the address of an endpoint, rather than a path?"""
    return isinstance(value, str) and value.lower().startswith(("http://", "https://"))


def is_loopback(host: str) -> bool:
    """Is this the name or address of this machine as only itself can reach it?"""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"
