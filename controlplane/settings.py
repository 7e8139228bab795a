"""Django's settings, made of controlplane.config. Nothing here belongs to one machine."""

from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

from csp.constants import NONE, SELF, UNSAFE_INLINE
from servestatic.compress import Compressor

from controlplane.config import Config, ConfigError
from controlplane.config.bounds import is_loopback
from controlplane.config.databases import DatabaseUrlError, database
from controlplane.config.secrets import read_or_make_secret
from inference.contract.logs import stdlib_logging

ROOT = Path(__file__).resolve().parent.parent

try:
    CONFIG = Config.load()
    DATABASES = {"default": database(CONFIG.database_url, CONFIG.home)}
    CONFIG.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    SECRET_KEY = CONFIG.secret_key or read_or_make_secret(CONFIG.home / "secret-key")
except (ConfigError, DatabaseUrlError) as error:
    raise SystemExit(f"Weir cannot start: {error}") from None  # a line, where Django's own error is a traceback
except OSError as error:
    raise SystemExit(
        f"Weir cannot start: WEIR_HOME={str(CONFIG.home)!r} cannot be used ({error}): let this user write there"
    ) from None
ALLOWED_HOSTS = CONFIG.allowed_hosts
ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"

INSTALLED_APPS = [
    "controlplane",
    "controlplane.core",
    "controlplane.accounts",
    "controlplane.fleet",
    "controlplane.slo",
    "controlplane.slo.openslo",
    "controlplane.incidents",
    "controlplane.incidents.notify.delivery",
    "controlplane.planning",
    "controlplane.policy",
    "controlplane.lane",
    "controlplane.audit",
    "controlplane.dashboard",
    "controlplane.api",
    "controlplane.dashboard.admin_config.WeirAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.socialaccount.providers.saml",
    "allauth.usersessions",
    "axes",
    "channels",
    "csp",
    "django_htmx",
    "ninja",
    "template_partials",
]
MIDDLEWARE = [
    "controlplane.observability.middleware.Tracing",
    "controlplane.web.metrics.Metrics",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "controlplane.web.compression.CompressedPages",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "controlplane.accounts.middleware.BearerToken",
    "controlplane.accounts.middleware.LoginRequired",
    "controlplane.accounts.middleware.acting_user",
    "controlplane.audit.middleware.Refusals",
    "django.contrib.messages.middleware.MessageMiddleware",
    "controlplane.dashboard.views.navigation.zone.ReaderZone",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "axes.middleware.AxesMiddleware",
    "controlplane.web.unkept.Unkept",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "controlplane.dashboard.context.open_incidents",
            ]
        },
    }
]

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
DATETIME_FORMAT = "Y-m-d H:i:s T"
DATE_FORMAT = "Y-m-d"

CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [CONFIG.redis_url], "prefix": "weir"},
    }
}

# Logins. Every view needs one, except those marked with login_not_required.
AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
MESSAGE_STORAGE = (
    "django.contrib.messages.storage.cookie.CookieStorage"  # the message that shows a new key is not stored
)
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "account_login"
AXES_FAILURE_LIMIT = 10
AXES_COOLOFF_TIME = timedelta(minutes=15)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]  # one attacker cannot lock a colleague out from elsewhere
AXES_LOCKOUT_TEMPLATE = "429.html"
AXES_RESET_ON_SUCCESS = True
AXES_CLIENT_IP_CALLABLE = "controlplane.accounts.client_ip.client_ip"
AXES_ENABLE_ADMIN = False
AXES_VERBOSE = False

# allauth: of what it can do, what `controlplane/accounts/urls.py` has a URL for. Nobody signs up.
ACCOUNT_ADAPTER = "controlplane.accounts.login.adapters.Accounts"
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_EMAIL_UNKNOWN_ACCOUNTS = False
ACCOUNT_UNIQUE_EMAIL = False  # a name in a provider's answer must not stop a log-in
ACCOUNT_FORMS = {"reset_password": "controlplane.accounts.login.forms.ResetPassword"}
ACCOUNT_SESSION_REMEMBER = True
SOCIALACCOUNT_ADAPTER = "controlplane.accounts.login.adapters.Providers"
SOCIALACCOUNT_PROVIDERS = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": each.id,
                "name": each.name,
                "client_id": each.client_id,
                "secret": each.secret,
                "settings": {"server_url": each.issuer, "scope": each.scopes.split()},
            }
            for each in CONFIG.oidc
        ],
    },
    "saml": {
        "APPS": [
            {"provider_id": each.id, "name": each.name, "client_id": each.id, "secret": ""} for each in CONFIG.saml
        ]
    },
}
MFA_ADAPTER = "controlplane.accounts.login.adapters.SecondFactors"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True
MFA_RECOVERY_CODES_SHOW_ONCE = True
MFA_TOTP_ISSUER = "Weir"
MFA_TOTP_TOLERANCE = 1
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not CONFIG.https

# Mail, of resets of passwords alone.
_mail = urlsplit(CONFIG.mail_url)
EMAIL_HOST, EMAIL_PORT = _mail.hostname or "", _mail.port or (465 if _mail.scheme == "smtps" else 25)
EMAIL_HOST_USER, EMAIL_HOST_PASSWORD = unquote(_mail.username or ""), unquote(_mail.password or "")
EMAIL_USE_SSL = _mail.scheme == "smtps"
EMAIL_USE_TLS = _mail.scheme == "smtp" and not is_loopback(EMAIL_HOST)
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = CONFIG.mail_from

# Browser security.
SESSION_COOKIE_AGE = 12 * 3600  # a shift
# Ports share cookies: another Weir on localhost keeps its session.
_installation = sha256(SECRET_KEY.encode()).hexdigest()[:8]
SESSION_COOKIE_NAME = f"weir_session_{_installation}"
CSRF_COOKIE_NAME = f"weir_csrf_{_installation}"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = CONFIG.https
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if CONFIG.https else None
SECURE_SSL_REDIRECT = CONFIG.https
# Probes, scrapers and gateways speak plain HTTP to the pod.
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$", r"^internal/"]
SECURE_HSTS_SECONDS = 31_536_000 if CONFIG.https else 0
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "style-src": [SELF, UNSAFE_INLINE],  # plotly.js and htmx set styles from script
        "img-src": [SELF, "data:", "blob:"],
        "object-src": [NONE],
        "base-uri": [SELF],
        "form-action": [
            SELF,
            *(each.origin for each in CONFIG.providers),
        ],  # the log-in's form is sent on to the provider
        "frame-ancestors": [NONE],
    }
}

# Web serves static files itself: compressed and under hashed names once `manage.py collect` has run, else from their
# folders.
STATIC_URL = "static/"
STATIC_ROOT = CONFIG.home / "static"
STATICFILES_DIRS = [path for path in (ROOT / "static",) if path.is_dir()]
COLLECTED = (STATIC_ROOT / "staticfiles.json").is_file()
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "controlplane.web.static_files.StaticFiles"
        if COLLECTED
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
SERVESTATIC_USE_FINDERS = not COLLECTED
SERVESTATIC_KEEP_ONLY_HASHED_FILES = True  # the plain names would be compressed a second time
SERVESTATIC_SKIP_COMPRESS_EXTENSIONS = (*Compressor.SKIP_COMPRESS_EXTENSIONS, "map")  # only debuggers read them

LOGGING_CONFIG = "inference.contract.logs.configure"
LOGGING = stdlib_logging(CONFIG.log_format, CONFIG.log_level)
