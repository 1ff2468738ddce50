"""All settings, from the environment, with a default under which a clone simply runs: SQLite, one machine, the local driver.

Names beginning with TESSERA_ are documented in docs/operations/settings.md; a test compares the two.
"""

import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from zlib import crc32

import structlog
from csp.constants import NONE, SELF

from portal import env, lines, static_files
from portal.state import PROJECT, secret, state_dir

BASE_DIR = PROJECT
STATE_DIR = state_dir()
VERSION = "0.1.0"

DEBUG = env.boolean("TESSERA_DEBUG")
SECRET_KEY = env.text("TESSERA_SECRET_KEY") or secret(STATE_DIR / "secret-key")

# --- Addresses -----------------------------------------------------------------------------------------------------------
PORT = env.integer("TESSERA_PORT", 8000)
GATEWAY_PORT = env.integer("TESSERA_GATEWAY_PORT", 8001)
PORTAL_URL = env.text("TESSERA_URL", f"http://localhost:{PORT}").rstrip("/")
# Notebooks are served on <slug>.<domain>, an origin of their own each. `localhost` works in browsers without any DNS.
GATEWAY_DOMAIN = env.text("TESSERA_GATEWAY_DOMAIN", "localhost")
GATEWAY_SCHEME = env.text("TESSERA_GATEWAY_SCHEME", "http")
GATEWAY_PUBLIC_PORT = env.integer("TESSERA_GATEWAY_PUBLIC_PORT", GATEWAY_PORT)
LISTEN = env.text("TESSERA_LISTEN", "127.0.0.1")  # address on which portal and gateway listen
ALLOWED_HOSTS = [*env.words("TESSERA_HOSTS", "localhost,127.0.0.1,[::1]"), urlsplit(PORTAL_URL).hostname or "localhost"]
CSRF_TRUSTED_ORIGINS = [PORTAL_URL]
SECURE = PORTAL_URL.startswith("https://")
if SECURE:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")

# --- Parts ---------------------------------------------------------------------------------------------------------------
CLUSTER_DRIVER = env.text("TESSERA_DRIVER", "local")
AGENT_SOCKET = Path(env.text("TESSERA_AGENT_SOCKET") or STATE_DIR / "run" / "agent.sock")
FIRST_ACCOUNT = env.integer("TESSERA_FIRST_ACCOUNT", 300_000)
LIMITS = env.text("TESSERA_LIMITS", "auto")  # what keeps the limits of GPUs on this machine
NOTEBOOK_ENVIRONMENTS = Path(env.text("TESSERA_ENVIRONMENTS") or STATE_DIR / "environments")
KUBERNETES: dict[str, Any] = {
    "kubeconfig": env.text("TESSERA_KUBECONFIG"),
    "context": env.text("TESSERA_KUBE_CONTEXT"),
    "reach": env.text("TESSERA_KUBE_REACH"),
    "slices": env.text("TESSERA_KUBE_SLICES"),
    "agent_token_file": env.text("TESSERA_AGENT_TOKEN_FILE"),
    "portal": env.text("TESSERA_PORTAL_ID", "tessera"),
    "images": env.pairs("TESSERA_IMAGES"),
    "pull_policy": env.text("TESSERA_IMAGE_PULL_POLICY", "IfNotPresent"),
    "pull_secrets": tuple(env.words("TESSERA_IMAGE_PULL_SECRETS")),
    "storage_class": env.text("TESSERA_STORAGE_CLASS"),
    "tenant_role": env.text("TESSERA_TENANT_ROLE"),
    "ingress_cidrs": tuple(env.words("TESSERA_INGRESS_CIDRS")),
}
BELL_DIR = STATE_DIR / "run" / "bells"
GATEWAY_DIR = STATE_DIR / "gateway"  # belongs to nginx alone: its configuration, and the socket of the authoriser
BELL_REDIS_URL = env.text("TESSERA_REDIS_URL")

INSTALLED_APPS = [
    "portal",
    "apps.core",
    "apps.audit",
    "apps.cluster",
    "apps.accounts",
    "apps.tenants",
    "apps.telemetry",
    "apps.quotas",
    "apps.catalog",
    "apps.workloads",
    "apps.experiments",
    "apps.gateway",
    "apps.api",
    "apps.dashboard",
    "channels",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "servestatic.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.forms",  # its templates, so that ours may replace them (FORM_RENDERER)
    "allauth",
    "allauth.account",
    "knox",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "drf_standardized_errors",
    "django_filters",
    "django_htmx",
    "django_structlog",
    "csp",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "apps.dashboard.middleware.PersonMiddleware",
    "django_structlog.middlewares.RequestMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "portal.urls"
ASGI_APPLICATION = "portal.asgi.application"
# Requests that are worked on at the same time; the others wait in the order in which they came. Each has a thread and a connection to the
# database, so this must stay below TESSERA_DATABASE_POOL, of which live pages take a few as well.
WEB_PLACES = env.integer("TESSERA_WEB_PLACES", 16)
# Processes that answer, from one door; each has so many places.
WEB_PROCESSES = max(1, env.integer("TESSERA_WEB_PROCESSES", 1))

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "django.template.context_processors.i18n",
            ],
        },
    },
]
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"


# --- Database ------------------------------------------------------------------------------------------------------------
def database(url: str) -> dict[str, Any]:
    """Django's settings for `postgresql://user:password@host:port/name`, or SQLite in the state folder where `url` is empty."""
    if not url:
        return {
            "ENGINE": "portal.sqlite",  # Django's, with a fair queue of writers
            "NAME": STATE_DIR / "tessera.sqlite3",
            "CONN_MAX_AGE": None,  # the threads of requests stay (portal.places); opening costs more than five queries
            "OPTIONS": {
                # Writers queue at BEGIN instead of failing in the middle; readers never wait (WAL).
                "transaction_mode": "IMMEDIATE",
                # The log is copied into the database by the controller every few seconds (portal.sqlite.base), which waits for the disk
                # while nobody waits for it; a writer does so only where that is not done: from 80 MB on.
                "init_command": (
                    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA busy_timeout=20000; PRAGMA wal_autocheckpoint=20000;"
                ),
                "timeout": 20,
            },
            # A file, not memory: threads of one test share it, as processes do in production.
            # Another one for each checkout: their tests may run at the same time.
            "TEST": {"NAME": Path(tempfile.gettempdir()) / f"tessera-test-{crc32(bytes(BASE_DIR)):08x}.sqlite3"},
        }
    parts = urlsplit(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path.lstrip("/"),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": parts.hostname or "",
        "PORT": parts.port or "",
        "CONN_MAX_AGE": 0,  # the pool requires it
        "OPTIONS": {"pool": {"min_size": 1, "max_size": env.integer("TESSERA_DATABASE_POOL", 20)}},
    }


DATABASES = {"default": database(env.text("TESSERA_DATABASE_URL"))}
# What is counted for a minute (wrong passwords, wrong tokens): in the process, and where there are several, in a folder of them all.
_SHARED = {"BACKEND": "django.core.cache.backends.filebased.FileBasedCache", "LOCATION": STATE_DIR / "run" / "counted"}
_OWN = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
CACHES = {"default": (_SHARED if WEB_PROCESSES > 1 else _OWN) | {"OPTIONS": {"MAX_ENTRIES": 10_000}}}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Accounts ------------------------------------------------------------------------------------------------------------
AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGOUT_REDIRECT_URL = "/"
ACCOUNT_LOGIN_METHODS = {"username"}
ACCOUNT_SIGNUP_FIELDS = ["username*", "password1*"]
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_ADAPTER = "apps.accounts.adapters.ClosedAccountAdapter"
SESSION_COOKIE_NAME = "tessera_session"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE
CSRF_COOKIE_NAME = "tessera_csrf"
KNOX_TOKEN_MODEL = "accounts.ApiToken"
MIGRATION_MODULES = {"knox": None}  # ours replaces its model; its own table would only stand in the way of a flush
REST_KNOX = {"TOKEN_PREFIX": "tsr_", "TOKEN_TTL": None, "AUTH_HEADER_PREFIX": "Bearer"}

# --- Languages -----------------------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en-gb"
LANGUAGES = [("en", "English"), ("zh-hans", "简体中文")]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = True
USE_TZ = True
TIME_ZONE = env.text("TESSERA_TIME_ZONE", "UTC")

# --- Static files and security headers -----------------------------------------------------------------------------------
STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
# Answered before any middleware (portal.handler), with what that would add to them.
SERVESTATIC_ADD_HEADERS_FUNCTION = static_files.add_headers
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "apps.dashboard.storage.ModuleStaticFilesStorage"},
}
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

# --- REST ----------------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.api.authentication.ScopedTokenAuthentication",
        "apps.api.authentication.BrowserSession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["apps.api.permissions.HasScope"],
    "DEFAULT_SCHEMA_CLASS": "apps.api.schema.Schema",
    "DEFAULT_PAGINATION_CLASS": "apps.api.pagination.Cursor",
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_FILTER_BACKENDS": ["django_filters.rest_framework.DjangoFilterBackend"],
    "EXCEPTION_HANDLER": "apps.api.problems.handler",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
    "DEFAULT_METADATA_CLASS": None,  # OPTIONS tells nothing that the OpenAPI page does not
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Tessera API",
    "DESCRIPTION": (
        "Share an organisation's GPUs: tenants, quotas, experiments. Make a token on your account page and send it as "
        "`Authorization: Bearer tsr_…`. Errors are `application/problem+json`; lists are pages, follow `next`. "
        "[Back to the portal](/)"
    ),
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SWAGGER_UI_DIST": "SIDECAR",
    "SWAGGER_UI_FAVICON_HREF": "SIDECAR",
    "COMPONENT_SPLIT_REQUEST": True,
    "OAS_VERSION": "3.1.0",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "POSTPROCESSING_HOOKS": ["drf_spectacular.hooks.postprocess_schema_enums"],
    "ENUM_NAME_OVERRIDES": {
        "Phase": "apps.workloads.models.Phase",
        "Desired": "apps.workloads.models.Desired",
        "Role": "apps.tenants.models.Role",
        "TenantKind": "apps.tenants.models.TenantKind",
        "Severity": "apps.core.reasons.Severity",
        "VerdictKind": "apps.experiments.verdict.VerdictKind",
        "Scope": "apps.api.serializers.platform.SCOPE_CHOICES",
    },
}

# --- Logs ----------------------------------------------------------------------------------------------------------------
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s: %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": env.text("TESSERA_LOG_LEVEL", "INFO")},
    "loggers": {
        "django_structlog": {"level": "WARNING"},
        "django.request": {"level": "ERROR"},  # that somebody asked for what is not there is no warning
    },
}
# structlog's lines go the same way, with what is bound to the request that they are about; what nobody reads is not even rendered.
structlog.configure(
    processors=[
        structlog.stdlib.filter_by_level,
        structlog.contextvars.merge_contextvars,
        lines.as_line,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
    wrapper_class=structlog.stdlib.BoundLogger,
    cache_logger_on_first_use=True,
)
