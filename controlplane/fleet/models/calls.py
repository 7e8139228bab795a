"""How a pool's servers are called: by which secrets and certificates, and on which way."""

from django.db import models

from controlplane.fleet.validators import validate_file_name, validate_headers, validate_host, validate_proxy


class ServerCalls(models.Model):
    """Of a pool."""

    credential = models.CharField(
        max_length=100,
        default="",
        blank=True,
        validators=[validate_file_name],
        help_text="The name of the secret that the servers want, not the secret. The gateway reads it from "
        "WEIR_BACKEND_CREDENTIALS_DIR/name.",
    )
    headers = models.JSONField(
        default=dict,
        blank=True,
        validators=[validate_headers],
        help_text='Of each call, such as {"api-key": "secret:hosted-api", "anthropic-version": "2023-06-01"}: “secret:” and the '
        "name of a secret, or a value.",
    )
    proxy = models.CharField(
        max_length=300,
        default="",
        blank=True,
        validators=[validate_proxy],
        help_text="An HTTP proxy through which servers with https URLs are called, such as http://proxy:3128; empty calls them directly.",
    )
    keep_error_texts = models.BooleanField(
        "keep the servers' error texts",
        default=False,
        help_text="What its servers say of a failure goes into traces and logs. It may repeat users' prompts.",
    )
    salt_prefix_cache = models.BooleanField(
        "keep tenants' prefixes apart",
        default=False,
        help_text="The servers' KV caches keep the prefixes of tenants apart, so that none can learn by the speed of "
        "an answer what another has sent. "
        "Prefixes that they share, such as a system prompt, are then computed once for each. vLLM and SGLang can do this.",
    )
    tls_enabled = models.BooleanField(
        "TLS", default=False, help_text="For gRPC. Servers with OpenAI's API have it where their URL is https."
    )
    tls_ca = models.CharField(
        "certificate authority",
        max_length=100,
        default="",
        blank=True,
        validators=[validate_file_name],
        help_text="The name of a PEM file in WEIR_BACKEND_CREDENTIALS_DIR; empty trusts what the gateway's system trusts.",
    )
    tls_server_name = models.CharField(
        "name in the certificate",
        max_length=253,
        default="",
        blank=True,
        validators=[validate_host],
        help_text="Where it is not the servers' address.",
    )
    tls_certificate = models.CharField(
        "client certificate",
        max_length=100,
        default="",
        blank=True,
        validators=[validate_file_name],
        help_text="The name of a PEM file in WEIR_BACKEND_CREDENTIALS_DIR with a certificate and its key, where the servers want "
        "one; empty sends none.",
    )

    class Meta:
        abstract = True
