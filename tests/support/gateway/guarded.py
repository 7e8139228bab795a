"""Texts with what the guard's patterns find, and rules that mask all of it."""

from hypothesis import strategies as st

from inference.contract.snapshot import GuardRule
from inference.core.guard.rules import guards_of

PEM = (
    "-----BEGIN EC PRIVATE KEY-----\nMIIEowIBAAKCAQEA7b3dGk2mZxqLw1\nq0Zk3bVh5nT8y2cJf4s=\n-----END EC PRIVATE KEY-----"
)
SECRETS = ("4111 1111 1111 1111", "rita.k@mail.example.com", "sk-abcdefghijklmnopqrstuvwx", "4111-1111", PEM)
RULE = GuardRule("a/all", "a", "patterns", "mask", answers=True, patterns=("card", "key", "mail"))
CHECKS = guards_of([RULE], [], ["t"])["a", "t"].answers
words = st.lists(st.sampled_from([*SECRETS, "a", "Hello,", "12", ".", "@", "-", "sk-", "\n"]), max_size=12)
