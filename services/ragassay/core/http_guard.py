"""Requests of the service to addresses that a caller named: to public addresses only, and nowhere else by a redirect."""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from time import monotonic
from typing import Any

from ragassay.core.errors import BadInput, BadSettings, TimedOut, Unavailable

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_WEB_PORTS = {"http": 80, "https": 443}
_FIRST_FREE_PORT, _LAST_PORT = 1024, 65535
_TARGET = re.compile(r"(?P<host>\[[^\[\]]+\](?:/\d+)?|[^\[\]:]+)(?::(?P<port>\d{1,5}))?")
_NAME = re.compile(r"[\w.-]+")
_NOT_PUBLIC = [
    ipaddress.ip_network(network)
    for network in """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24 192.31.196.0/24
    192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3
    168.63.129.16/32
    2001::/23 2001:db8::/32 2002::/16 3fff::/20
    """.split()
]  # the last of IPv4 is what Azure answers its machines on
_LOOPBACK_NAMES = ("localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback")
_GLOBAL_UNICAST = ipaddress.IPv6Network("2000::/3")  # nothing else of IPv6 is routed publicly
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")  # an IPv4 address in its last 32 bits
_HINT = "the operator can allow it: RAGASSAY_OUTGOING_ALLOWED"


@dataclass(frozen=True)
class Allowed:
    """What the operator lets the service reach although it is not public: hosts and networks, each with a port or any."""

    hosts: frozenset[tuple[str, int | None]] = frozenset()
    networks: tuple[tuple[Network, int | None], ...] = ()

    @classmethod
    def read(cls, entries: Iterable[str]) -> Allowed:
        """From ``host``, ``host:port``, ``10.0.0.0/8``, ``[::1]:8080`` and the like; raises BadSettings."""
        hosts: set[tuple[str, int | None]] = set()
        networks: list[tuple[Network, int | None]] = []
        for entry in map(str.strip, entries):
            parts = _TARGET.fullmatch(entry)
            host = (
                parts["host"].strip("[]").replace("]/", "/") if parts else entry
            )  # an IPv6 address may have no brackets
            port = int(parts["port"]) if parts and parts["port"] else None
            try:
                networks.append((ipaddress.ip_network(host, strict=False), port))
            except ValueError:
                if parts is None or not _NAME.fullmatch(host):
                    raise _unreadable(entry) from None
                hosts.add((_plain(host), port))
            if port is not None and not 0 < port <= _LAST_PORT:
                raise _unreadable(entry)
        return cls(frozenset(hosts), tuple(networks))

    def names(self, host: str, port: int) -> bool:
        """Is this host allowed by its name, whatever it resolves to?"""
        return not self.hosts.isdisjoint({(_plain(host), port), (_plain(host), None)})

    def covers(self, address: IpAddress, port: int) -> bool:
        """Is this address in a network that is allowed?"""
        return any(address in network and limit in (None, port) for network, limit in self.networks)


def post(
    url: str, content: bytes, headers: dict[str | bytes, str | bytes], *, allowed: Allowed, timeout_s: float
) -> int:
    """POST to an address that is public or ``allowed``; returns the status of the answer, whose body is not read.

    A name is looked up once, and the connection goes to an address that was checked. No redirect is followed, no cookie kept,
    no proxy asked, no connection used twice. Raises BadInput if the address is refused, and Unavailable if there is no
    answer; name, connection and answer together have ``timeout_s``.
    """
    status: Future[int] = Future()

    def run() -> None:
        try:
            status.set_result(_post(url, content, headers, allowed, timeout_s))
        except Exception as error:  # raised where the status is awaited
            status.set_exception(error)

    # A look-up has no limit: its thread is left behind until the resolver gives up. All that follows it ends in time.
    Thread(target=run, daemon=True, name="outgoing request").start()
    try:
        return status.result(timeout_s)
    except TimeoutError:
        raise TimedOut(f"no answer within {timeout_s:g} s") from None


def _post(url: str, content: bytes, headers: dict[str | bytes, str | bytes], allowed: Allowed, timeout_s: float) -> int:
    """Raises what ``post`` raises, but TimeoutError when the time is over."""
    import httpcore
    import httpx

    ends_at = monotonic() + timeout_s

    def left() -> float:
        if (seconds := ends_at - monotonic()) <= 0:
            raise httpcore.TimeoutException
        return seconds

    class EndingStream(httpcore.NetworkStream):
        """A connection that ends with the time, however often something comes: a timeout starts anew with each byte."""

        def __init__(self, stream: httpcore.NetworkStream) -> None:
            self._stream = stream

        def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - ours is the limit
            return self._stream.read(max_bytes, left())

        def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - ours is the limit
            self._stream.write(buffer, left())

        def close(self) -> None:
            self._stream.close()

        def start_tls(self, *args: Any, **options: Any) -> httpcore.NetworkStream:
            return EndingStream(self._stream.start_tls(*args, **{**options, "timeout": left()}))

        def get_extra_info(self, info: str) -> Any:
            return self._stream.get_extra_info(info)

    class CheckedBackend(httpcore.SyncBackend):
        """Looks a host up once, checks what it resolves to, and connects to that."""

        def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> httpcore.NetworkStream:
            failure: Exception = httpcore.ConnectError("the host has no address")
            for address in _checked(host, port, allowed):
                try:
                    return EndingStream(
                        super().connect_tcp(str(address), port, *args, **{**options, "timeout": left()})
                    )
                except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                    failure = error
            raise failure

    check_url(url, allowed=allowed)
    read = httpx.URL(url)
    target = httpcore.URL(scheme=read.raw_scheme, host=read.raw_host, port=read.port, target=read.raw_path)
    errors = httpcore.NetworkError, httpcore.ProtocolError, OSError
    try:
        with (
            httpcore.ConnectionPool(ssl_context=httpx.create_ssl_context(), network_backend=CheckedBackend()) as pool,
            pool.stream("POST", target, headers=headers, content=content) as answer,
        ):
            return answer.status
    except httpcore.TimeoutException:
        raise TimeoutError from None
    except errors as error:
        raise Unavailable(f"{type(error).__name__}: {error}") from None


def check_url(url: str, *, allowed: Allowed = Allowed()) -> None:
    """Raise BadInput for a URL that ``post`` would refuse without asking a name server.

    That is another scheme than http and https, a user or password in it, no host, a port of another service, a host
    written as an address that is not public, in any form that the system reads, or a name of this machine.
    """
    import httpx

    try:
        read = httpx.URL(url)
        host, port = read.host, read.port or _WEB_PORTS.get(read.scheme, 0)
    except (httpx.InvalidURL, ValueError):  # ValueError: what IDNA can't decode
        raise BadInput("it is no address: write https://HOST/PATH") from None
    if port > _LAST_PORT:
        raise BadInput(f"there is no port {port}")
    if read.scheme not in _WEB_PORTS:
        raise BadInput("its scheme should be https or http")
    if read.userinfo:
        raise BadInput("it holds a user or a password: an address is kept and shown, so it may hold none")
    if not host:
        raise BadInput("it names no host: write https://HOST/PATH")
    _check_port(host, port, allowed)
    if (address := _written(host)) is not None:
        _check_addresses([address], port, allowed)
    elif _is_own_name(host) and not allowed.names(host, port):
        _check_addresses(_resolved(host, port), port, allowed)


def _checked(host: str, port: int, allowed: Allowed) -> list[IpAddress]:
    """The addresses that a host has, if requests may go to all of them; raises BadInput."""
    _check_port(host, port, allowed)
    addresses = _resolved(host, port)
    if not allowed.names(host, port):
        _check_addresses(addresses, port, allowed)
    return addresses


def _check_port(host: str, port: int, allowed: Allowed) -> None:
    """Raise BadInput for the port of mail, remote logins and other services that speak no HTTP."""
    if port in _WEB_PORTS.values() or port >= _FIRST_FREE_PORT or allowed.names(host, port):
        return
    address = _written(host)
    if address is None or not allowed.covers(address, port):
        raise BadInput(
            f"port {port} is refused: 80, 443 and those from {_FIRST_FREE_PORT} are for requests", hint=_HINT
        )


def _check_addresses(addresses: Collection[IpAddress], port: int, allowed: Allowed) -> None:
    """Raise BadInput unless every address is public and another machine's, or in a network that is allowed."""
    for address in addresses:
        if not allowed.covers(address, port) and (not is_public(address) or is_own(address)):
            raise BadInput("the host is not on the public internet", hint=_HINT)


def is_public(address: IpAddress) -> bool:
    """Is it an address of the public internet? ``ipaddress`` says so of multicast, 6to4, NAT64 and site-local ones too."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address not in _GLOBAL_UNICAST:
            return False
    return not any(address in network for network in _NOT_PUBLIC)


def is_own(address: IpAddress) -> bool:
    """Is it an address of this machine, behind its firewall? Sends nothing."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect((str(address), 9))
        return ipaddress.ip_address(probe.getsockname()[0]) == address
    return False  # there is no way there


def _written(host: str) -> IpAddress | None:
    """The address that a host is written as: also in decimal, hexadecimal, octal or with fewer parts; None for a name."""
    with suppress(ValueError):
        return ipaddress.ip_address(host)
    with suppress(OSError):
        return ipaddress.IPv4Address(socket.inet_aton(_plain(host)))
    return None


def _is_own_name(host: str) -> bool:
    """Is it a name of this machine, which no name server is asked for?"""
    name = _plain(host)
    return name in (*_LOOPBACK_NAMES, _plain(socket.gethostname())) or name.endswith(".localhost")


def _resolved(host: str, port: int) -> list[IpAddress]:
    """The addresses of a host, in the order in which they should be tried; raises BadInput where it has none."""
    try:
        infos: list[tuple[Any, ...]] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    except OSError as error:
        raise BadInput(f"the host can't be looked up: {error.strerror}") from None
    except UnicodeError:  # a label of no or more than 63 characters
        raise BadInput("it names no host that could be looked up") from None
    return list(dict.fromkeys(ipaddress.ip_address(sockaddr[0]) for *_, sockaddr in infos))


def _plain(host: str) -> str:
    return host.lower().rstrip(".")


def _unreadable(entry: str) -> BadSettings:
    return BadSettings(
        f"can't read {entry[:100]!r}",
        hint="write hosts, host:port or networks such as 10.0.0.0/8, with commas",
    )
