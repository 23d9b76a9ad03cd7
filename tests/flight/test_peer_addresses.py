"""Addresses of peers that a name stands for: all of them, looked up again after a while, and those of before where that fails."""

from __future__ import annotations

import socket

import pytest
from lance_flight.flight.peers import LOOKUP_SECONDS, PeerAddress, PeerAddresses, hosts_of


class Names:
    """A name server that a test changes."""

    def __init__(self) -> None:
        self.hosts: list[str] | None = ["10.0.0.1", "10.0.0.2"]
        self.asked = 0

    def lookup(self, name: str, port: int) -> list[str]:
        assert (name, port) == ("lake-peers", 32010)
        self.asked += 1
        if self.hosts is None:
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return self.hosts


FORMS = [
    pytest.param("grpc", "grpc://10.0.0.1:32010", id="plain"),
    pytest.param("grpc+tls", "grpc+tls://10.0.0.1:32010", id="TLS"),
]


@pytest.mark.parametrize(("scheme", "uri"), FORMS)
def test_a_name_stands_for_each_of_its_addresses(scheme: str, uri: str) -> None:
    found = [*PeerAddresses(lookup=Names().lookup).resolve(["grpc://a:1", f"dns+{scheme}://lake-peers:32010"])]
    assert found[:2] == [PeerAddress("grpc://a:1"), PeerAddress(uri, "lake-peers")]
    assert len(found) == 3


def test_a_name_is_looked_up_again_and_what_it_was_is_kept_where_that_fails() -> None:
    names, moment = Names(), [0.0]
    addresses = PeerAddresses(lookup=names.lookup, now=lambda: moment[0])

    def hosts() -> list[str]:
        return [each.uri for each in addresses.resolve(["dns+grpc://lake-peers:32010"])]

    before = hosts()
    names.hosts = ["fd00::3"]
    assert (hosts(), names.asked) == (before, 1)
    moment[0] += LOOKUP_SECONDS
    assert hosts() == ["grpc://[fd00::3]:32010"]
    names.hosts = None
    moment[0] += LOOKUP_SECONDS
    assert hosts() == ["grpc://[fd00::3]:32010"]
    assert (hosts(), names.asked) == (["grpc://[fd00::3]:32010"], 3), "a name that fails is not asked for at once again"


def test_one_server_with_addresses_of_both_families_is_asked_once() -> None:
    assert hosts_of("localhost", 1) in (["127.0.0.1"], ["::1"])
