"""The address of the page: for this machine, or for others of the network."""

import contextlib
import socket
from urllib.parse import quote

# Addresses of nobody, set aside for documentation: the system says by which of its own it would go there, and sends
# nothing.
_ELSEWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))
EVERYWHERE = ("0.0.0.0", "::")


def reachable(host: str) -> str:
    """What others call a server that is bound to `host`: an address where one is found, else this machine's name."""
    if host not in EVERYWHERE:
        return host
    families = _ELSEWHERE if host == "::" else _ELSEWHERE[:1]
    for family, elsewhere in families:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((elsewhere, 9))
            return str(probe.getsockname()[0])
    with contextlib.suppress(OSError):  # no way leads out: a network of its own
        for _, _, _, _, address in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET):
            if not str(address[0]).startswith("127."):
                return str(address[0])
    return socket.gethostname()


def page_address(host: str, port: int, token: str | None) -> str:
    return address_of(reachable(host), port) + (f"?token={quote(token, safe='')}" if token else "")


def address_of(name: str, port: int) -> str:
    return f"http://{f'[{name}]' if ':' in name else name}:{port}/"
