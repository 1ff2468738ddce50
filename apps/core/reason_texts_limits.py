"""The texts about limits while something runs: another share, and what goes around them. Part of the one catalogue in `reason_texts`."""

from django.utils.translation import gettext_lazy as _

from apps.core.reasons import Reason, Severity

_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR

REASONS = (
    # Another share for what runs
    Reason("resize_fits", _INFO, _("Possible now"), _("There is room for it, on the GPU and in the quota.")),
    Reason(
        "resize_next_run",
        _INFO,
        _("From the next start on"),
        _("It does not run now. The new share is asked for when it is started again."),
    ),
    Reason(
        "resize_quota",
        _ERROR,
        _("No quota left for this"),
        _("This needs {asked} of {dimension}; others of {tenant} use {used} of {limit}, so {free} is left for it."),
        _("Choose less, stop something of {tenant}, or ask a manager for more quota."),
    ),
    Reason(
        "resize_turn",
        _ERROR,
        _("Others wait for this quota"),
        _("Requests that came earlier wait for quota of {tenant}. What runs does not grow before them."),
        _("Try again when they have started. Making it smaller is possible at any time."),
    ),
    Reason(
        "resize_card",
        _ERROR,
        _("No room on its GPU"),
        _(
            "This needs {asked_bytes} and {asked_permille} of its GPU, where it could have {room_bytes} and {room_permille}."
        ),
        _("Choose less, or stop it and start it with the larger share: it may then find another GPU."),
    ),
    Reason(
        "resize_claim",
        _ERROR,
        _("More than the cluster keeps for it"),
        _(
            "The cluster keeps {room_bytes} and {room_permille} for it. Within that, its memory and the most of compute may change while it runs."
        ),
        _("For more, stop it and start it with the larger share."),
    ),
    Reason(
        "resize_whole",
        _ERROR,
        _("Whole GPUs stay whole"),
        _("Between a whole GPU and a part of one it cannot change while it runs."),
        _("Stop it, and start it with the other share."),
    ),
    Reason(
        "resize_not_running",
        _ERROR,
        _("Not now"),
        _("A share can change while it runs, and after it has stopped."),
        _("Wait until it runs."),
    ),
    Reason(
        "resize_not_offered",
        _ERROR,
        _("Not possible on this cluster"),
        _("The way in which this cluster shares GPUs cannot change a share while it is used."),
        _("Stop it, and start it with the other share."),
    ),
    Reason(
        "resize_no_gpu",
        _ERROR,
        _("No GPU"),
        _("It uses no GPU, so there is no share to change."),
        _("Ask for a new experiment with a share of a GPU."),
    ),
    Reason(
        "resize_refused",
        _WARNING,
        _("The share stayed as it was"),
        _("The cluster had no room for the new share after all: {problem}"),
        _("Try again, or choose less."),
    ),
    # Around the limits
    Reason(
        "bypass",
        _WARNING,
        _("Programs go around its limits"),
        _(
            "{processes} uses {uncounted_bytes} of GPU memory and {busy_permille} of compute around the library that keeps the limits."
        ),
        _("End them, or start them without a GPU driver of their own. Operators see this too."),
    ),
    # Who keeps the limits on a node, for operators
    Reason("limits_by_library", _INFO, _("By the library"), _("Tessera's library in front of the driver keeps them.")),
    Reason("limits_by_setting", _INFO, _("By setting"), _("The node agent was told to do it this way (--backend).")),
    Reason(
        "limits_by_driver",
        _INFO,
        _("By the driver"),
        _("The driver itself keeps memory limits, for each experiment's control group; the library keeps compute."),
    ),
    Reason(
        "limits_need_driver",
        _INFO,
        _("By the library"),
        _("This driver has no memory limits of its own; those of branch 615 and later do."),
    ),
    Reason(
        "limits_need_root",
        _INFO,
        _("By the library"),
        _("The driver's own memory limits can be set by root only, and the node agent is not root."),
    ),
    Reason(
        "limits_need_cgroup2",
        _INFO,
        _("By the library"),
        _("The driver's own memory limits need control groups of version 2, which this machine does not have."),
    ),
    Reason(
        "limits_by_library_in_pods",
        _INFO,
        _("By the library"),
        _("In pods the library keeps them: a pod's control groups are not known when its share is prepared."),
    ),
    Reason(
        "whole_only_card",
        _INFO,
        _("Without the library"),
        _("The machine has one GPU, so whoever has all of it meets the driver directly."),
    ),
    Reason(
        "whole_by_setting", _INFO, _("Without the library"), _("The node agent was told to do it this way (--backend).")
    ),
    Reason(
        "whole_other_cards",
        _INFO,
        _("With the library"),
        _("It keeps programs off the other GPUs of the machine, and counts what they use."),
    ),
)
