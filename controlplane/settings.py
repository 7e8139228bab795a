"""Django's settings: a translation of controlplane.config, and nothing that belongs to one machine."""

from controlplane.config import load

CONFIG = load()

SECRET_KEY = CONFIG.secret_key or "set-up-has-not-run"
DEBUG = CONFIG.debug
ALLOWED_HOSTS = CONFIG.allowed_hosts
ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "controlplane.fleet",
]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": CONFIG.home / "weir.sqlite3"}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
TIME_ZONE = "UTC"
