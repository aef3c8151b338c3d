"""The requests that are answered, and the headers of answers."""

from __future__ import annotations

import base64
import hashlib
import re

import pytest
from starlette.datastructures import Headers

from pylog import errors
from pylog.console.guard import CONTENT_SECURITY_POLICY, host_is_ours, host_of, refusal
from pylog.console.options import check_listen, parse_listen
from tests.unit.pylog.console.conftest import Open, World


@pytest.mark.parametrize(
    ("header", "host"),
    [
        ("127.0.0.1:9096", "127.0.0.1"),
        ("LocalHost", "localhost"),
        ("[::1]:9096", "::1"),
        ("[::1", ""),
        ("[::1]x", ""),
        ("host:80:80", ""),
        ("host:x", ""),
        ("", ""),
    ],
)
def test_the_host_of_a_header(header: str, host: str) -> None:
    assert host_of(header) == host


@pytest.mark.parametrize(
    ("header", "ours"),
    [
        ("127.0.0.1:9096", True),
        ("[::1]", True),
        ("10.1.2.3:9096", True),  # nobody can make a number point elsewhere
        ("localhost:1", True),
        ("driver.example", True),
        ("evil.example", False),
        ("localhost.evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("", False),
    ],
)
def test_names_that_a_stranger_could_make_point_here_are_not_ours(header: str, ours: bool) -> None:
    assert host_is_ours(header, frozenset({"driver.example"})) is ours


@pytest.mark.parametrize(
    ("method", "headers", "query", "status"),
    [
        ("GET", {"host": "localhost"}, b"", 0),
        ("GET", {"host": "evil.example"}, b"", 421),
        ("GET", {}, b"", 421),
        ("PUT", {"host": "localhost"}, b"", 405),
        ("GET", {"host": "localhost"}, b"x" * 40_000, 414),
        ("GET", {"host": "localhost", "sec-fetch-site": "cross-site"}, b"", 403),
        ("GET", {"host": "localhost", "sec-fetch-site": "cross-site",
                 "sec-fetch-mode": "navigate"}, b"", 0),
        ("POST", {"host": "localhost", "origin": "http://localhost",
                  "content-length": "1"}, b"", 0),
        ("POST", {"host": "localhost", "content-length": "1"}, b"", 403),
        ("POST", {"host": "localhost", "origin": "http://localhost"}, b"", 411),
    ],
)  # fmt: skip
def test_what_is_refused(method: str, headers: dict[str, str], query: bytes, status: int) -> None:
    assert refusal(method, Headers(headers), query, frozenset())[0] == status


def test_two_hosts_are_none() -> None:
    raw = [(b"host", b"localhost"), (b"host", b"evil.example")]
    assert refusal("GET", Headers(raw=raw), b"", frozenset())[0] == 421


@pytest.mark.parametrize("path", ["/", "/nowhere", "/static/console.js", "/events-not", "/health"])
def test_every_answer_says_what_browsers_may_do_with_it(world: World, path: str) -> None:
    headers = world.browser.get(path).headers
    assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers


def test_pages_have_nothing_that_their_own_policy_forbids(world: World) -> None:
    """No script in the page, no style but the one that the policy names, nothing from elsewhere."""
    world.cluster.create_topic("t")
    world.produce("t", b"v")
    world.learn()
    for path in ("/", "/topics", "/topics/t", "/topics/t/messages", "/topics/t/tail", "/groups"):
        text = world.browser.get(path).text
        assert "style=" not in text
        [style] = re.findall("<style>(.*?)</style>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        assert f"style-src 'sha256-{digest}';" in CONTENT_SECURITY_POLICY
        assert text.count("<style") == 1
        assert " onclick" not in text
        assert text.count("<script") == 1
        assert "//" not in text.replace("http://www.w3.org", "")


def test_a_name_that_was_given_is_taken(open_world: Open) -> None:
    world = open_world(host_names=frozenset({"driver.example"}))
    assert world.browser.get("/health", host="driver.example:9096").status == 200
    assert world.browser.get("/health", host="other.example").status == 421


@pytest.mark.parametrize("path", ["/static/../app.py", "/static/%2e%2e/app.py", "/static/"])
def test_files_beside_the_static_ones_cannot_be_had(world: World, path: str) -> None:
    assert world.browser.get(path).status == 404


def test_an_address_that_others_reach_must_be_wanted() -> None:
    for text in ("127.0.0.1:1", "[::1]:1", "localhost:0"):
        check_listen(parse_listen(text, "l"), "l", allow_plaintext=False, remedy="r")
    for text in ("0.0.0.0:1", "[::]:1", "driver:1"):
        with pytest.raises(errors.InvalidConfig, match="other machines would reach it"):
            check_listen(parse_listen(text, "l"), "l", allow_plaintext=False, remedy="r")
        check_listen(parse_listen(text, "l"), "l", allow_plaintext=True, remedy="r")
    for text in ("", "host", ":1", "host:x", "host:70000"):
        with pytest.raises(errors.InvalidConfig, match="it must be host:port"):
            parse_listen(text, "l")
