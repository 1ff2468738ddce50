"""Forms about people: members of a tenant, tokens, preferences."""

from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from apps.accounts.scopes import PLATFORM, READ, SCOPES
from apps.audit.context import Actor
from apps.tenants import selectors as tenants
from apps.tenants.models import Role, Tenant, TenantKind


class MemberForm(forms.Form):
    username = forms.CharField(label=_("User name"), max_length=150)
    role = forms.ChoiceField(label=_("Role"), choices=Role.choices, initial=Role.MEMBER)


class TenantForm(forms.Form):
    name = forms.CharField(label=_("Name"), max_length=150)
    kind = forms.ChoiceField(label=_("Kind"), choices=TenantKind.choices)
    parent = forms.ModelChoiceField(
        label=_("Department"),
        empty_label=_("none"),
        queryset=Tenant.objects.none(),
        to_field_name="slug",
        required=False,
    )

    def __init__(self, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        departments = tenants.tenants_where(actor, at_least=Role.MANAGER).filter(kind=TenantKind.DEPARTMENT)
        self.fields["parent"].queryset = departments  # type: ignore[attr-defined]  # a ModelChoiceField


class TokenForm(forms.Form):
    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("So that you know it again, such as “training script”.")
    )
    scopes = forms.MultipleChoiceField(label=_("May"), choices=[*SCOPES.items()], initial=[READ])
    tenant = forms.ModelChoiceField(
        label=_("Only in"),
        empty_label=_("everywhere I may"),
        queryset=Tenant.objects.none(),
        to_field_name="slug",
        required=False,
    )
    days = forms.TypedChoiceField(
        label=_("Valid for"),
        choices=[("7", _("7 days")), ("30", _("30 days")), ("90", _("90 days")), ("365", _("365 days"))],
        coerce=int,
        initial="30",
    )

    def __init__(self, *args: Any, actor: Actor, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["tenant"].queryset = tenants.tenants_where(actor, at_least=Role.VIEWER)  # type: ignore[attr-defined]
        if not actor.sees_everything:
            scopes = [(key, label) for key, label in SCOPES.items() if key != PLATFORM]
            self.fields["scopes"].choices = scopes  # type: ignore[attr-defined]


class PreferencesForm(forms.Form):
    display_name = forms.CharField(label=_("Name"), max_length=150, required=False)
    language = forms.ChoiceField(
        label=_("Language"), choices=[("", _("as the browser says")), *settings.LANGUAGES], required=False
    )
    theme = forms.ChoiceField(
        label=_("Theme"),
        choices=[("", _("as the system says")), ("light", _("light")), ("dark", _("dark"))],
        required=False,
    )
