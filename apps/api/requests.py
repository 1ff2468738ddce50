"""Small facts about the request that is being answered."""

import structlog
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from apps.core.errors import InvalidInput


def request_id() -> str:
    """The id under which the log knows this request; "" outside of one."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


def check_query(query: QueryDict, known: set[str], repeatable: set[str]) -> None:
    """Refuse what would silently be overlooked: an unknown name, an empty value, a name given twice."""
    wrong = {name: _("There is no such query parameter here.") for name in sorted(set(query) - known)}
    for name in sorted(set(query) & known):
        values = query.getlist(name)
        if "" in values:
            wrong[name] = _("This has no value; leave it out instead.")
        elif len(values) > 1 and name not in repeatable:
            wrong[name] = _("This is given more than once.")
    if wrong:
        hint = _("Known here: %(names)s.") % {"names": ", ".join(sorted(known))} if known else ""
        raise InvalidInput(_("The query of this address is not understood."), hint=hint, fields=wrong)
