"""Where the secrets are that model servers want. The policy snapshot has their names only."""


def credential_variable(name: str) -> str:
    """The environment variable of a credential: `hosted-api` is in `WEIR_BACKEND_CREDENTIAL_HOSTED_API`."""
    return "WEIR_BACKEND_CREDENTIAL_" + "".join(c if c.isalnum() else "_" for c in name.upper())
