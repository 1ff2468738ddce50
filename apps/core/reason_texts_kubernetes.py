"""The texts of reasons that only a Kubernetes cluster gives. Part of the one catalogue in `reason_texts`."""

from django.utils.translation import gettext_lazy as _

from apps.core.reasons import Reason, Severity

_INFO, _WAITING, _WARNING, _ERROR = Severity.INFO, Severity.WAITING, Severity.WARNING, Severity.ERROR

REASONS = (
    # Waiting
    Reason(
        "waiting_node",
        _WAITING,
        _("Waiting for room on a machine"),
        _(
            "This needs {cpu_milli} cores and {ram_bytes} of RAM on one machine; none has both free. The scheduler says: {problem}"
        ),
        _("It starts by itself when somebody stops. Ask for less RAM to start sooner."),
    ),
    Reason(
        "waiting_scheduler",
        _WAITING,
        _("Waiting for a machine"),
        _("The scheduler finds no machine for this: {problem}"),
        _("It starts by itself when there is one. Tell an operator if it takes long."),
    ),
    Reason(
        "volume_not_bound",
        _WARNING,
        _("No storage for the home folder yet"),
        _("The cluster has not provided the volume for the home folder: {problem}"),
        _("Tell an operator: the storage class has no room or does not work."),
    ),
    # Never
    Reason(
        "share_not_expressible",
        _ERROR,
        _("Not possible on this cluster"),
        _("This cluster cannot give out such a share: {problem}"),
        _("Choose the nearest size that it offers."),
    ),
    # Unknown, or not now
    Reason(
        "cluster_unavailable",
        _WARNING,
        _("The cluster does not answer"),
        _("Nothing can be started or stopped until it is back. What runs goes on running."),
        _("Nothing to do; it goes on by itself, and operators see this too."),
    ),
    Reason(
        "cluster_quota",
        _WARNING,
        _("The cluster's own limit is reached"),
        _("The quota of the namespace in the cluster is used up: {problem}"),
        _("Tell an operator: this limit is meant never to be reached."),
    ),
    Reason(
        "cluster_forbidden",
        _WARNING,
        _("Tessera lacks a right in the cluster"),
        _("The cluster refuses what Tessera asks for: {problem}"),
        _("Tell an operator: the roles of Tessera's account are incomplete."),
    ),
    Reason(
        "node_silent",
        _WARNING,
        _("The machine does not answer"),
        _("{node} has not answered since {since}. What runs there probably goes on running."),
        _("Nothing to do; operators see this too."),
    ),
    # Steps
    Reason("placing_pod", _INFO, _("Finding a machine"), _("The scheduler is looking for a place.")),
    Reason(
        "image_unavailable",
        _WARNING,
        _("The image cannot be fetched"),
        _("The image “{image}” cannot be fetched: {problem}"),
        _("Choose another environment, or tell an operator; it is tried again by itself."),
    ),
    Reason(
        "container_refused",
        _WARNING,
        _("The container cannot be made"),
        _("The machine cannot make the container: {problem}"),
        _("Tell an operator; it is tried again by itself."),
    ),
    Reason(
        "claim_not_made",
        _WARNING,
        _("The claim on the GPU was not made"),
        _("The cluster cannot make the claim on the GPU: {problem}"),
        _("Tell an operator; it is tried again by itself."),
    ),
    Reason(
        "claim_not_prepared",
        _WARNING,
        _("The GPU share is not being prepared"),
        _("The node agent on {node} has not set up the share: {problem}"),
        _("It is tried again by itself, within a minute once the agent is back. Operators see this too."),
    ),
    Reason(
        "volume_not_mounted",
        _WARNING,
        _("The home folder cannot be attached"),
        _("{node} cannot attach the volume: {problem}"),
        _("It is tried again by itself. Stop whatever else uses the same folder on another machine."),
    ),
    Reason(
        "sandbox_failed",
        _WARNING,
        _("The machine cannot begin it"),
        _("{node} cannot make the network or the control group for it: {problem}"),
        _("Tell an operator; it is tried again by itself."),
    ),
    Reason(
        "finalizer_stuck",
        _WARNING,
        _("Its removal is held up"),
        _("It was asked to end, but the cluster keeps it for {finalizers}, since {since}."),
        _("Tell an operator: whoever set this finalizer has to remove it."),
    ),
    Reason(
        "stop_slow",
        _WARNING,
        _("The stop takes longer than usual"),
        _("{node} should have ended it by {since} and has not."),
        _("Nothing to do; tell an operator if it takes long."),
    ),
    # Ends that nobody here wanted
    Reason(
        "node_gone",
        _ERROR,
        _("The machine is gone"),
        _("{node} was taken out of the cluster or never came back, and this ended with it."),
        _("Start it again; the home folder is kept."),
    ),
    Reason(
        "evicted",
        _ERROR,
        _("The machine put it out"),
        _("{node} needed the room for itself and ended it: {problem}"),
        _("Start it again; the home folder is kept. Write less into /tmp, or ask for more RAM."),
    ),
    Reason(
        "preempted",
        _ERROR,
        _("Something more important took its place"),
        _("The cluster ended it for the sake of something with a higher priority: {problem}"),
        _("Start it again; the home folder is kept."),
    ),
    Reason(
        "gpu_failed",
        _ERROR,
        _("The GPU failed"),
        _("The cluster ended it because its GPU is no longer healthy: {problem}"),
        _("Start it again; it gets another GPU, and the home folder is kept."),
    ),
    # Places
    Reason(
        "pods_per_run",
        _INFO,
        _("Kept apart by containers"),
        _("Each experiment runs in a container of its own, without rights on its machine."),
    ),
    Reason(
        "slices_dra", _INFO, _("GPUs are shared by claims"), _("The cluster's own scheduler gives out parts of GPUs.")
    ),
    Reason(
        "slices_whole_only",
        _WARNING,
        _("Whole GPUs only"),
        _("The API server does not keep the capacity of devices, so no part of a GPU can be given out."),
        _("Switch on the feature DRAConsumableCapacity, or use Kubernetes 1.36 or later."),
    ),
    Reason(
        "slices_hami",
        _INFO,
        _("GPUs are shared by HAMi"),
        _("There is no device class of Tessera, and HAMi runs on this cluster, so shares are asked of it."),
    ),
    Reason(
        "slices_device_plugin",
        _WARNING,
        _("GPUs come from a device plugin"),
        _("There is neither a device class of Tessera nor HAMi, so GPUs are given out in the sizes of the plugin."),
        _("Install the node agent to share GPUs freely."),
    ),
    Reason(
        "slices_none",
        _WARNING,
        _("No GPUs to give out"),
        _("The cluster has no device class of Tessera, no HAMi and no GPU of a device plugin."),
        _("Install the node agent and its device class."),
    ),
    Reason(
        "slices_by_setting", _INFO, _("GPUs are shared as was set"), _("An operator has chosen how GPUs are given out.")
    ),
    Reason(
        "hami_no_lending",
        _INFO,
        _("Idle GPU time is not lent"),
        _("HAMi's limit is a ceiling: time that others leave idle stays idle."),
    ),
    Reason(
        "plugin_fixed_sizes",
        _INFO,
        _("Fixed sizes only"),
        _("A device plugin gives out whole GPUs, MIG slices or replicas, and which GPU somebody got is an estimate."),
    ),
    Reason(
        "plugin_replicas_unlimited",
        _WARNING,
        _("Replicas are not limited"),
        _("Whoever has a time-sliced replica can use all of the GPU's memory and time."),
        _("Install the node agent to have limits that hold."),
    ),
    Reason(
        "agents_silent",
        _WARNING,
        _("Some node agents do not answer"),
        _("Figures of their GPUs are missing; the shares and their limits are not touched by that."),
        _("Look at the pods of the node agent."),
    ),
)
