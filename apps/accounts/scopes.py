"""What a token may be limited to. A browser session has no such limit."""

from typing import Any, Final

from django.utils.translation import gettext_lazy as _

READ: Final = "read"
EXPERIMENTS_WRITE: Final = "experiments:write"
QUOTAS_WRITE: Final = "quotas:write"
MEMBERS_WRITE: Final = "members:write"
TOKENS_WRITE: Final = "tokens:write"
PLATFORM: Final = "platform"

SCOPES: dict[str, Any] = {
    READ: _("Read what I may see"),
    EXPERIMENTS_WRITE: _("Create, stop, start and delete my experiments"),
    QUOTAS_WRITE: _("Change quotas where I may"),
    MEMBERS_WRITE: _("Change members where I may"),
    TOKENS_WRITE: _("Make and revoke my tokens"),
    PLATFORM: _("Use my role on the whole platform (operators and auditors)"),
}
