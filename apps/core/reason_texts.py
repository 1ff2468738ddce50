"""The texts of `core.reasons`, by code; `code:dimension` and `code:many` (GPUs) where these need their own words."""

from django.utils.translation import gettext_lazy as _

from apps.core import reason_texts_control, reason_texts_diagnosis, reason_texts_kubernetes, reason_texts_limits
from apps.core.reasons import Reason, Severity

_INFO, _WAITING, _WARNING, _ERROR = Severity.INFO, Severity.WAITING, Severity.WARNING, Severity.ERROR

UNKNOWN = Reason("", _WARNING, _("No explanation yet"), _("The reason is recorded as “{code}”."), "")

_REASONS = (
    # Waiting
    Reason("queued", _INFO, _("Asked for"), _("The request is being decided.")),
    Reason(
        "waiting_quota",
        _WAITING,
        _("Waiting for quota of {tenant}"),
        _("This needs {asked} of {dimension}; {tenant} uses {used} of {limit}, so {free} is left."),
        _("It starts by itself when something of {tenant} ends. Choose a smaller share to start sooner."),
    ),
    Reason(
        "waiting_quota:running",
        _WAITING,
        _("Waiting for a place in {tenant}"),
        _("{tenant} already runs {used} of at most {limit} at once."),
        _("It starts by itself when something of {tenant} ends."),
    ),
    Reason(
        "waiting_quota:running_per_user",
        _WAITING,
        _("Waiting for one of yours to end"),
        _("You already run {used} of at most {limit} at once in {tenant}."),
        _("Stop one of yours, and this starts by itself."),
    ),
    Reason(
        "waiting_turn",
        _WAITING,
        _("Waiting for its turn"),
        _("Requests that came earlier wait for quota of {tenant}; they go first."),
        _("It starts by itself when its turn comes."),
    ),
    Reason(
        "waiting_card",
        _WAITING,
        _("Waiting for room on a GPU"),
        _(
            "This needs {memory_bytes} and {compute_permille} of a GPU. The largest room now is {room_bytes} and {room_permille}."
        ),
        _("It starts by itself when somebody stops. Choose a smaller share to start sooner."),
    ),
    Reason(
        "waiting_card:many",
        _WAITING,
        _("Waiting for room on {asked_gpus} GPUs"),
        _(
            "This needs {memory_bytes} and {compute_permille} on each of {asked_gpus} GPUs of one machine; they are not free together now."
        ),
        _("It starts by itself when somebody stops. Choose fewer GPUs or a smaller share to start sooner."),
    ),
    Reason(
        "waiting_machine",
        _WAITING,
        _("Waiting for RAM"),
        _("This needs {ram_bytes} of RAM; {room_bytes} is not promised to anybody."),
        _("It starts by itself when somebody stops. Ask for less RAM to start sooner."),
    ),
    # Never
    Reason(
        "never_fits_card",
        _ERROR,
        _("Larger than any GPU"),
        _("This needs {asked_bytes}; the largest GPU here has {largest_bytes}."),
        _("Choose a smaller share."),
    ),
    Reason(
        "never_fits_card:many",
        _ERROR,
        _("More than any machine has"),
        _(
            "This needs {asked_bytes} on each of {asked_gpus} GPUs; no machine has so many so large (largest: {largest_bytes})."
        ),
        _("Choose fewer GPUs or a smaller share."),
    ),
    Reason(
        "never_fits_machine",
        _ERROR,
        _("Larger than any machine"),
        _("This needs {asked_bytes} of RAM; the largest machine has {largest_bytes}."),
        _("Ask for less RAM."),
    ),
    Reason(
        "never_fits_quota",
        _ERROR,
        _("Larger than the quota"),
        _("This needs {asked} of {dimension}; the quota of {tenant} is {limit} in all."),
        _("Choose a smaller share, or ask a manager of {tenant} for more quota."),
    ),
    Reason(
        "never_fits_quota:running",
        _ERROR,
        _("Nothing may run here"),
        _("The quota of {tenant} lets nothing run."),
        _("Ask a manager of {tenant} for a quota."),
    ),
    Reason(
        "never_fits_quota:running_per_user",
        _ERROR,
        _("Nothing may run here"),
        _("The quota of {tenant} lets nobody run anything."),
        _("Ask a manager of {tenant} for a quota."),
    ),
    Reason(
        "no_quota",
        _ERROR,
        _("No quota yet"),
        _("{tenant} has no quota, so nothing can run in it."),
        _("Ask an operator to give {tenant} a quota."),
    ),
    Reason(
        "queue_full",
        _ERROR,
        _("The queue is full"),
        _("There is no room now, and {tenant} already has {waiting} of at most {places} waiting."),
        _("Try again when something has ended, or choose a smaller share."),
    ),
    Reason(
        "no_cards",
        _ERROR,
        _("No GPU here"),
        _("This site has no healthy GPU."),
        _("Choose a flavour without a GPU, or ask an operator."),
    ),
    # Unknown
    Reason(
        "agent_unavailable",
        _WARNING,
        _("The node agent does not answer"),
        _("GPUs cannot be given out or measured until it is back. What runs goes on running."),
        _("Nothing to do; operators see this too."),
    ),
    Reason(
        "cluster_unknown",
        _WARNING,
        _("State unknown"),
        _("The machines have not answered since {since}. What runs probably goes on running."),
        _("Nothing to do; the page updates by itself."),
    ),
    # Steps
    Reason("admitted", _INFO, _("Quota granted"), _("The share is reserved in the quota of {tenant}.")),
    Reason(
        "preparing_claim",
        _INFO,
        _("Preparing the GPU share"),
        _("The share of the GPU, its limits and the home folder are being set up."),
    ),
    Reason("starting_server", _INFO, _("Starting JupyterLab"), _("The server has started and does not answer yet.")),
    Reason(
        "server_slow",
        _WARNING,
        _("The start takes longer than usual"),
        _("The server has not answered for {waited_seconds}."),
        _("Look at the logs; stop and start again if nothing moves."),
    ),
    Reason(
        "checking_gateway",
        _INFO,
        _("Checking the way in"),
        _("The server answers; it is being opened once through the gateway."),
    ),
    Reason(
        "gateway_unavailable",
        _WARNING,
        _("The gateway does not answer"),
        _("The server runs, but it cannot be reached through the gateway: {problem}."),
        _("It is tried again by itself; operators see this too."),
    ),
    Reason("ready", _INFO, _("Ready"), _("It answers through the gateway.")),
    Reason("stopping", _INFO, _("Stopping"), _("Its processes are being asked to end.")),
    # Ends that somebody wanted
    Reason(
        "stopped_by_user",
        _INFO,
        _("Stopped by {by}"),
        _("{by} stopped it."),
        _("Start it again whenever you like; the home folder is kept."),
    ),
    Reason(
        "stopped_by_manager",
        _WARNING,
        _("Stopped by {by}"),
        _("{by} stopped it. Reason given: {why}"),
        _("Start it again whenever you like; the home folder is kept. Ask {by} in case of doubt."),
    ),
    Reason("deleted", _INFO, _("Deleted by {by}"), _("{by} deleted it.")),
    Reason(
        "time_limit",
        _WARNING,
        _("Time limit reached"),
        _("It ran for {limit_seconds}, as long as was asked for."),
        _("Start it again; the home folder is kept. Next time extend it before the limit."),
    ),
    # Ends that nobody here wanted
    Reason(
        "host_shutdown",
        _WARNING,
        _("The machine was shut down"),
        _("The machine or the whole of Tessera was shut down or restarted, and this ended with it."),
        _("Start it again; the home folder is kept."),
    ),
    Reason(
        "exited",
        _WARNING,
        _("The server ended"),
        _("The server ended by itself with exit code {exit_code}."),
        _("Start it again; the logs say why."),
    ),
    Reason(
        "crashed",
        _ERROR,
        _("The server crashed"),
        _("The server ended with exit code {exit_code}."),
        _("Look at the logs, mend the cause, start again."),
    ),
    Reason(
        "killed",
        _ERROR,
        _("The server was killed"),
        _("The server was ended by signal {signal}."),
        _("Start it again; the home folder is kept."),
    ),
    Reason(
        "out_of_memory_host",
        _ERROR,
        _("Out of RAM"),
        _("It used more than its {ram_bytes} of RAM (not GPU memory) and was ended by the machine."),
        _("Choose more RAM, or load less at once."),
    ),
    Reason(
        "start_failed",
        _ERROR,
        _("The start failed"),
        _("The server could not be started: {problem}."),
        _("Look at the logs; tell an operator if it happens again."),
    ),
    Reason(
        "environment_missing",
        _ERROR,
        _("The environment is missing"),
        _("The environment “{environment}” is not installed on this machine."),
        _("Choose another environment, or ask an operator to install it."),
    ),
    Reason(
        "lost",
        _ERROR,
        _("It is gone"),
        _("It ran, and then it was no longer there, without Tessera's doing. Its share is free again."),
        _("Start it again; the home folder is kept."),
    ),
    # Places
    Reason(
        "accounts_per_tenant",
        _INFO,
        _("Kept apart by accounts"),
        _("Each person's experiments of a tenant run under an account of their own."),
    ),
    Reason(
        "single_account",
        _WARNING,
        _("Not kept apart"),
        _("All experiments run under the account that started Tessera and can read each other's files."),
        _("Start Tessera as root to have accounts kept apart."),
    ),
    Reason(
        "no_cgroup_limits",
        _WARNING,
        _("CPU and RAM are not limited"),
        _(
            "This machine lets Tessera make no control groups: what experiments take of CPU and RAM is promised, not enforced."
        ),
        _("Start Tessera as root on a machine with control groups."),
    ),
    Reason(
        "no_driver",
        _WARNING,
        _("No GPU driver"),
        _("The node agent found no NVIDIA driver and no simulated one, so there are no GPUs."),
        _("Install the driver, then restart the node agent."),
    ),
)

CATALOGUE: dict[str, Reason] = {
    reason.code: reason
    for reason in (
        *_REASONS,
        *reason_texts_kubernetes.REASONS,
        *reason_texts_control.REASONS,
        *reason_texts_diagnosis.REASONS,
        *reason_texts_limits.REASONS,
    )
}
