"""JSON web tokens: which count, what they say, and where their keys come from."""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from base64 import urlsafe_b64encode
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import OKPAlgorithm, RSAAlgorithm
from lance_flight.errors import InvalidInput, Unauthenticated
from lance_flight.flight import json_web_tokens
from lance_flight.flight.authentication import Basic, Bearer, Principal, Proof
from lance_flight.flight.json_web_tokens import JsonWebTokens, KeysFile, KeysUrl, TokenRules

from tests.flight.identities import (
    ANOTHER_KEY,
    AUDIENCE,
    FAR,
    ISSUER,
    RULES,
    SIGNING_KEY,
    Clock,
    claims,
    key_set,
    signed,
)


@pytest.fixture
def keys(tmp_path: Path) -> KeysFile:
    (tmp_path / "keys.json").write_text(key_set(SIGNING_KEY, alg="ES256"))
    return KeysFile(str(tmp_path / "keys.json"))


def taken(tokens: JsonWebTokens, token: str) -> Principal | None:
    return tokens.principal(Bearer(token=token))


def test_a_token_names_a_principal_and_his_groups(keys: KeysFile) -> None:
    expected = Principal(name="alice", groups=("from elsewhere",), proof=Proof.JSON_WEB_TOKEN)
    assert taken(JsonWebTokens(RULES, keys), signed()) == expected


PUBLIC = SIGNING_KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def altered(token: str, part: int, **changes: Any) -> str:
    """A token with a changed header (0) or changed claims (1), and the old signature."""
    parts = token.split(".")
    content = json.loads(jwt.utils.base64url_decode(parts[part])) | changes
    parts[part] = urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
    return ".".join(parts)


def forged() -> str:
    """A token that who has nothing but the public key can sign, if its algorithm were taken."""
    said = altered(signed(), 0, alg="HS256").rpartition(".")[0]
    mac = hmac.digest(PUBLIC, said.encode(), hashlib.sha256)
    return f"{said}.{urlsafe_b64encode(mac).decode().rstrip('=')}"


BAD = {
    "of another key": signed(ANOTHER_KEY),
    "of an unknown key": signed(kid="k7"),
    "with changed claims": altered(signed(), 1, sub="bob"),
    "with a changed header": altered(signed(), 0, kid="k1"),
    "without a signature": signed().rpartition(".")[0] + ".",
    "of the algorithm none": jwt.encode(claims(), None, "none", {"kid": "k0"}),
    "turned to the algorithm none": altered(signed(), 0, alg="none"),
    "of an algorithm that is not pinned": signed(ec.generate_private_key(ec.SECP384R1()), "ES384"),
    "signed with the public key as a secret": forged(),
    "of a shared secret": jwt.encode(claims(), "x" * 32, "HS256", {"kid": "k0"}),
    "expired": signed(exp=1),
    "that never expires": signed(exp=None),
    "that expires at no number": signed(exp="soon"),
    "not valid yet": signed(nbf=FAR),
    "from the future": signed(iat=FAR),
    "of another issuer": signed(iss=ISSUER + "/"),
    "without an issuer": signed(iss=None),
    "for another audience": signed(aud="another"),
    "for other audiences": signed(aud=["a", "b"]),
    "without an audience": signed(aud=None),
    "without a subject": signed(sub=None),
    "with an empty subject": signed(sub=""),
    "with groups that are no names": signed(groups=[1]),
    "with groups that are a number": signed(groups=7),
    "that is two dots": "..",
    "that is three words": "a.b.c",
    "whose claims are a list": jwt.api_jws.encode(b"[]", SIGNING_KEY, "ES256", {"kid": "k0"}),
    "with a list for a key id": altered(signed(), 0, kid=["k0"]),
    "with a critical extension": altered(signed(), 0, crit=["x"], x=1),
}


@pytest.mark.parametrize("token", BAD.values(), ids=BAD.keys())
def test_a_token_that_proves_nobody(keys: KeysFile, token: str) -> None:
    with pytest.raises(Unauthenticated) as raised:
        taken(JsonWebTokens(RULES, keys), token)
    assert not any(part and part in str(raised.value) for part in token.split(".") if len(part) > 3)


@given(st.text(st.characters(codec="utf-8")) | st.tuples(*[st.text("ab_-.=", max_size=9)] * 3).map(".".join))
def test_no_text_is_a_token(text: str) -> None:
    tokens = JsonWebTokens(RULES, KeysUrl("https://unused", lambda _: key_set(SIGNING_KEY)))
    with suppress(Unauthenticated):
        assert taken(tokens, text) is None


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_token_with_one_changed_bit_proves_nobody(place: int, bit: int) -> None:
    tokens = JsonWebTokens(RULES, KeysUrl("https://unused", lambda _: key_set(SIGNING_KEY)))
    token = bytearray(TOKEN.encode())
    token[place % len(token)] ^= 1 << bit
    try:
        found = taken(tokens, token.decode("latin-1"))
    except Unauthenticated:
        return
    # The last digit of Base64 has bits that say nothing.
    assert found is None or token[:-1] == TOKEN.encode()[:-1] or chr(token[place % len(token)]) in ".="


TOKEN = signed()


def test_what_is_no_token_is_left_to_others(keys: KeysFile) -> None:
    tokens = JsonWebTokens(RULES, keys)
    assert taken(tokens, "opaque") is None
    assert tokens.principal(Basic(user="alice", password=signed())) is None


def test_clocks_may_be_apart_by_the_leeway(keys: KeysFile) -> None:
    tokens, now = JsonWebTokens(RULES, keys), int(time.time())
    assert taken(tokens, signed(exp=now - 5, nbf=now + 5))
    for wrong in ({"exp": now - 300}, {"nbf": now + 300}):
        with pytest.raises(Unauthenticated):
            taken(tokens, signed(**wrong))


CLAIMS: dict[str, tuple[dict[str, Any], TokenRules, tuple[str, tuple[str, ...]]]] = {
    "another claim for the name": (
        {"email": "a@b.c"},
        TokenRules(issuer=ISSUER, audience=AUDIENCE, algorithms=("ES256",), principal_claim="email"),
        ("a@b.c", ("from elsewhere",)),
    ),
    "a path": (
        {"realm_access": {"roles": ["r"], "user": "u"}},
        TokenRules(
            issuer=ISSUER,
            audience=AUDIENCE,
            algorithms=("ES256",),
            principal_claim="realm_access.user",
            groups_claim="realm_access.roles",
        ),
        ("u", ("r",)),
    ),
    "a name with dots": (
        {"https://x.y/groups": ["g"]},
        TokenRules(issuer=ISSUER, audience=AUDIENCE, algorithms=("ES256",), groups_claim="https://x.y/groups"),
        ("alice", ("g",)),
    ),
    "one group": ({"groups": "g"}, RULES, ("alice", ("g",))),
    "no groups": ({"groups": None}, RULES, ("alice", ())),
    "several audiences": ({"aud": ["x", AUDIENCE]}, RULES, ("alice", ("from elsewhere",))),
}


@pytest.mark.parametrize(("changes", "rules", "expected"), CLAIMS.values(), ids=CLAIMS.keys())
def test_where_a_name_and_groups_are_found(
    keys: KeysFile, changes: dict[str, Any], rules: TokenRules, expected: tuple[str, tuple[str, ...]]
) -> None:
    found = taken(JsonWebTokens(rules, keys), signed(**changes))
    assert found is not None
    assert (found.name, found.groups) == expected


@pytest.mark.parametrize("algorithms", [(), ("none",), ("HS256",), ("RS256", "HS512"), ("rs256",)])
def test_algorithms_without_a_public_key_cannot_be_chosen(algorithms: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match=r"algorithm .* of JSON web tokens; expected some of ES256"):
        TokenRules(issuer=ISSUER, audience=AUDIENCE, algorithms=algorithms)


def test_a_key_without_an_algorithm_takes_each_that_is_pinned_and_its_kind_has() -> None:
    rsa_key, ed_key = rsa.generate_private_key(65537, 2048), ed25519.Ed25519PrivateKey.generate()
    described = [
        {**json.loads(RSAAlgorithm.to_jwk(rsa_key.public_key())), "kid": "r"},
        {**json.loads(OKPAlgorithm.to_jwk(ed_key.public_key())), "kid": "e"},
    ]
    rules = TokenRules(issuer=ISSUER, audience=AUDIENCE, algorithms=("RS256", "PS256", "EdDSA"))
    tokens = JsonWebTokens(rules, KeysUrl("https://unused", lambda _: json.dumps({"keys": described})))
    for key, algorithm, kid in [(rsa_key, "RS256", "r"), (rsa_key, "PS256", "r"), (ed_key, "EdDSA", "e")]:
        assert taken(tokens, signed(key, algorithm, kid)) is not None
    for key, algorithm, kid in [(rsa_key, "RS512", "r"), (rsa_key, "RS256", "e"), (ed_key, "EdDSA", "r")]:
        with pytest.raises(Unauthenticated):
            taken(tokens, signed(key, algorithm, kid))


NO_SETS = [
    "",
    "[]",
    "{}",
    '{"keys": 1}',
    '{"keys": []}',
    '{"keys": [{"kty": "oct", "k": "eHg"}]}',
    '{"keys": [7, null]}',
]


@pytest.mark.parametrize("text", NO_SETS)
def test_what_is_no_key_set_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="key"):
        json_web_tokens.parse(text)


def test_keys_for_encryption_and_of_unknown_kinds_are_left_out() -> None:
    listed = json.loads(key_set(SIGNING_KEY))["keys"]
    listed += [{"kty": "new", "kid": "n"}, {**listed[0], "kid": "e", "use": "enc"}]
    assert list(json_web_tokens.parse(json.dumps({"keys": listed}))) == ["k0"]


class Issuer:
    """Answers with its keys, and counts how often."""

    def __init__(self, *keys: ec.EllipticCurvePrivateKey) -> None:
        self.keys = keys
        self.asked = 0
        self.is_down = False

    def __call__(self, url: str) -> str:
        self.asked += 1
        if self.is_down:
            raise OSError("down")
        return key_set(*self.keys)


def test_keys_are_fetched_once_and_again_after_an_hour_or_for_an_unknown_one() -> None:
    issuer, clock = Issuer(SIGNING_KEY), Clock(0)
    tokens = JsonWebTokens(RULES, KeysUrl("https://issuer", issuer, clock))
    for _ in range(3):
        assert taken(tokens, signed())
    assert issuer.asked == 1
    issuer.keys = (SIGNING_KEY, ANOTHER_KEY)
    for _ in range(3):  # strangers cannot make the server ask more often than every half minute
        with pytest.raises(Unauthenticated, match="a key that is not known here"):
            taken(tokens, signed(ANOTHER_KEY, kid="k1"))
    assert issuer.asked == 1
    clock.now += json_web_tokens.RETRY_SECONDS
    assert taken(tokens, signed(ANOTHER_KEY, kid="k1"))
    assert issuer.asked == 2
    issuer.keys = (ANOTHER_KEY,)
    clock.now += json_web_tokens.REFRESH_SECONDS
    with pytest.raises(Unauthenticated):
        taken(tokens, signed())
    assert issuer.asked == 3


def test_the_last_keys_count_while_their_issuer_is_down() -> None:
    issuer, clock = Issuer(SIGNING_KEY), Clock(0)
    tokens = JsonWebTokens(RULES, KeysUrl("https://issuer", issuer, clock))
    issuer.is_down = True
    with pytest.raises(Unauthenticated):
        taken(tokens, signed())
    issuer.is_down = False
    clock.now += json_web_tokens.RETRY_SECONDS
    assert taken(tokens, signed())
    issuer.is_down = True
    clock.now += json_web_tokens.REFRESH_SECONDS
    assert taken(tokens, signed())
    assert issuer.asked == 3


def test_keys_in_a_file_may_change(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(key_set(SIGNING_KEY))
    tokens = JsonWebTokens(RULES, KeysFile(str(path)))
    assert taken(tokens, signed())
    path.write_text(key_set(ANOTHER_KEY))
    with pytest.raises(Unauthenticated):
        taken(tokens, signed())
