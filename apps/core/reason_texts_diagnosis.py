"""What a look at the cluster finds, for its operator; its settings are in `reason_texts_control`. Part of the one catalogue in `reason_texts`.

A finding's level says whether it suffices; severity only repeats that: information for what is good or cannot be seen.
"""

from django.utils.translation import gettext_lazy as _

from apps.core.reasons import Reason, Severity

_INFO, _WARNING, _ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR

REASONS = (
    # The API server
    Reason(
        "server_answers",
        _INFO,
        _("The API server answers"),
        _("Kubernetes {version}; the answer took {took_milliseconds} ms. Needed: {needed} or later."),
    ),
    Reason(
        "server_old",
        _WARNING,
        _("Kubernetes is older than Tessera needs"),
        _("This is {version}. Parts of GPUs can be claimed without a switch from {needed} on."),
        _("Upgrade the cluster, or use another way of cutting GPUs (TESSERA_KUBE_SLICES)."),
    ),
    Reason(
        "server_away",
        _ERROR,
        _("The API server does not answer"),
        _("{problem} What runs goes on running; nothing starts or stops until it is back."),
        _("Check the address in the kubeconfig, the network, and the API server itself."),
    ),
    # Watches
    Reason(
        "controller_silent",
        _INFO,
        _("The controller has said nothing lately"),
        _("It tells every 10 s how its watches are; the last time was {since}."),
        _("Look at /api/readyz and at the controller's log."),
    ),
    Reason(
        "watch_fresh",
        _INFO,
        _("Watch of {kind}: current"),
        _("Objects: {objects}. Since the controller's start: lists {lists}, watches {watches}, failures {failures}."),
    ),
    Reason(
        "watch_stale",
        _ERROR,
        _("Watch of {kind}: out of date"),
        _("Nothing was heard for {staleness_seconds}; failures: {failures}. {problem}"),
        _("Until it is back, what depends on it is shown as unknown, and nothing is made or ended."),
    ),
    Reason(
        "watch_not_served",
        _WARNING,
        _("Watch of {kind}: the API server does not know them"),
        _("Lists that were asked for: {lists}. {problem}"),
        _("Needed where GPUs are shared by claims: Kubernetes 1.36 or later."),
    ),
    # Rights
    Reason(
        "rights_complete",
        _INFO,
        _("All rights over the cluster are there"),
        _("{account} has all {rights} that are needed outside of tenants."),
    ),
    Reason(
        "rights_missing",
        _ERROR,
        _("Rights over the cluster are missing"),
        _("{account} lacks {lacking} of {rights}: {missing}."),
        _("Apply the manifest again; the reason of each right stands in it."),
    ),
    Reason(
        "rights_unlimited",
        _WARNING,
        _("This account may do everything"),
        _("{account} has all rights over the whole cluster; Tessera needs few of them."),
        _("Give Tessera the account of the manifest."),
    ),
    Reason(
        "rights_unknown",
        _INFO,
        _("Rights could not be asked for"),
        _("{problem}"),
        _("Ask as an administrator:"),
    ),
    Reason(
        "rights_no_tenants",
        _INFO,
        _("No namespace of a tenant yet"),
        _("Rights in the namespaces of tenants can be seen after the first start."),
    ),
    Reason(
        "rights_of_tenants_complete",
        _INFO,
        _("All rights in tenants' namespaces are there"),
        _("Rights: {rights}; namespaces: {namespaces}."),
    ),
    Reason(
        "rights_of_tenants_missing",
        _ERROR,
        _("Rights in tenants' namespaces are missing"),
        _("Missing: {lacking}: {missing}."),
        _("Apply the manifest again, and check that TESSERA_TENANT_ROLE names its role."),
    ),
    Reason(
        "rights_of_tenants_unknown",
        _INFO,
        _("Rights in some tenants' namespaces are not told in full"),
        _("An authoriser of this cluster lists no rules: {namespaces}."),
        _("Ask as an administrator:"),
    ),
    # Cards
    Reason(
        "slices_unknown",
        _INFO,
        _("How GPUs can be cut is not known"),
        _("{problem}"),
    ),
    Reason(
        "dra_served",
        _INFO,
        _("Dynamic Resource Allocation is served"),
        _("resource.k8s.io in the versions {versions}; needed: v1."),
    ),
    Reason(
        "dra_not_served",
        _WARNING,
        _("Dynamic Resource Allocation is not served"),
        _("The API server has no resource.k8s.io/v1; versions that it has: {versions}."),
        _("Without it GPUs are cut by HAMi or a device plugin only. Use Kubernetes 1.36 or later."),
    ),
    Reason(
        "dra_unknown",
        _INFO,
        _("Whether Dynamic Resource Allocation is served is not known"),
        _("{problem}"),
        _("Look by hand:"),
    ),
    Reason(
        "feature_on",
        _INFO,
        _("{feature} is on"),
        _("The API server's metrics say so; stage {stage}."),
    ),
    Reason(
        "feature_off",
        _ERROR,
        _("{feature} is off"),
        _("The API server's metrics say so; stage {stage}."),
        _("Set --feature-gates={feature}=true on API server, scheduler, controller-manager and kubelets."),
    ),
    Reason(
        "feature_seen",
        _INFO,
        _("{feature} is on"),
        _("The API server keeps what only this feature knows; GPUs with it: {cards}."),
    ),
    Reason(
        "feature_unknown",
        _INFO,
        _("{feature}: not known"),
        _("{problem}"),
        _("Look by hand; 1 is on:"),
    ),
    Reason(
        "cards_offered",
        _INFO,
        _("The cluster is offered GPUs"),
        _("GPUs: {cards}; ResourceSlices: {slices}."),
    ),
    Reason(
        "cards_not_offered",
        _ERROR,
        _("No GPU is offered"),
        _("There is no ResourceSlice of gpu.tessera.dev with a device."),
        _("Look at what the node agents say:"),
    ),
    Reason(
        "parts_given",
        _INFO,
        _("The scheduler gives out parts of GPUs"),
        _("Parts that are allocated now: {parts}."),
    ),
    Reason(
        "parts_not_given_yet",
        _INFO,
        _("Whether the scheduler gives out parts was not seen"),
        _("No part of a GPU is allocated now."),
        _("Start an experiment with a part of a GPU, and look again."),
    ),
    Reason(
        "parts_unknown",
        _INFO,
        _("Whether the scheduler gives out parts is not known"),
        _("{problem}"),
    ),
    # Nodes and their agents
    Reason("nodes_unknown", _INFO, _("The nodes are not known"), _("{problem}")),
    Reason("nodes_ready", _INFO, _("All nodes are ready"), _("Nodes: {nodes}.")),
    Reason(
        "nodes_not_ready",
        _WARNING,
        _("Nodes are not ready"),
        _("{count} of {nodes}: {where}."),
        _("What runs there is shown as unknown. See why:"),
    ),
    Reason(
        "programs_new",
        _INFO,
        _("Kubelets and runtimes are new enough"),
        _("Kubelet {kubelets}; {runtimes}."),
    ),
    Reason(
        "kubelets_old",
        _WARNING,
        _("Some kubelets are older than Tessera needs"),
        _("Older than {needed}: {count} ({where}). Versions: {kubelets}."),
        _("Upgrade these nodes."),
    ),
    Reason(
        "runtimes_old",
        _WARNING,
        _("Some container runtimes may give no devices"),
        _(
            "CDI is on by itself from containerd 2 on. Nodes with something else: {count} ({where}). Versions: {runtimes}."
        ),
        _("Upgrade containerd, or set enable_cdi in its configuration."),
    ),
    Reason("agents_unknown", _INFO, _("The node agents are not known"), _("{problem}"), _("Look by hand:")),
    Reason(
        "agents_none",
        _WARNING,
        _("There is no node agent"),
        _("No pod with the agents' label is in tessera-system."),
        _("Apply the manifests of the node agent, unless GPUs are cut by HAMi or a device plugin."),
    ),
    Reason("agents_ready", _INFO, _("All node agents are ready"), _("Node agents: {agents}; image: {images}.")),
    Reason(
        "agents_not_ready",
        _ERROR,
        _("Node agents are not ready"),
        _("{count} of {agents}, on {where}. Image: {images}."),
        _("Nothing new starts on these nodes; what runs keeps its limits. See why:"),
    ),
    Reason(
        "agents_mixed",
        _WARNING,
        _("Node agents of several versions"),
        _("Images: {images}."),
        _("In order while they are being replaced; otherwise see what holds it up:"),
    ),
    Reason(
        "agents_missing",
        _WARNING,
        _("Nodes with GPUs have no node agent"),
        _("{count}: {where}."),
        _("Their GPUs are not given out by Tessera. See where agents are:"),
    ),
    Reason(
        "agents_perhaps_missing",
        _INFO,
        _("Nodes without a node agent"),
        _("{count}: {where}. From here it cannot be seen whether they have GPUs."),
        _("In order where they have none. See where agents are:"),
    ),
    Reason(
        "agents_without_slice",
        _ERROR,
        _("Node agents publish nothing"),
        _("Running without a ResourceSlice of their node: {count} ({where})."),
        _("Nothing with a GPU starts there. See what the agents say:"),
    ),
    Reason(
        "figures_arrive",
        _INFO,
        _("All node agents tell their figures"),
        _("Node agents: {agents}; silent: 0."),
    ),
    Reason(
        "figures_missing",
        _WARNING,
        _("Node agents do not tell their figures"),
        _("Silent: {count}, on {where}. {problem}"),
        _("Charts of these nodes have gaps; shares and limits are not touched. See their pods:"),
    ),
)
