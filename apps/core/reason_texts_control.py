"""What a look at the cluster finds of the settings of its control plane. Part of the one catalogue in `reason_texts`."""

from django.utils.translation import gettext_lazy as _

from apps.core.reasons import Reason, Severity

_INFO, _WARNING = Severity.INFO, Severity.WARNING

REASONS = (
    # Rate limits
    Reason(
        "scheduler_limit_enough",
        _INFO,
        _("The scheduler's rate limit suffices"),
        _("{queries_per_second} requests a second, burst {burst}: about {starts_per_second} starts a second."),
    ),
    Reason(
        "scheduler_limit_low",
        _WARNING,
        _("The scheduler's rate limit is low"),
        _("{queries_per_second} requests a second, burst {burst}: about {starts_per_second} starts a second."),
        _("In its configuration file: clientConnection.qps {wanted}, clientConnection.burst {wanted_burst}."),
    ),
    Reason(
        "scheduler_limit_none",
        _INFO,
        _("The scheduler has no rate limit of its own"),
        _("It was switched off on its command line."),
    ),
    Reason(
        "scheduler_limit_seen",
        _INFO,
        _("The scheduler's rate limit was raised"),
        _("{pods} pods in 10 s: {per_second} a second. The stock limit gives {stock_per_second} at most."),
    ),
    Reason(
        "scheduler_limit_felt",
        _WARNING,
        _("The scheduler was as slow as a stock rate limit makes it"),
        _(
            "{per_second} pods a second in the busiest 10 s, while they waited {waited_seconds}. Stock gives {stock_per_second}."
        ),
        _(
            "Either that is its limit, or its machine lacks processor. It should be clientConnection.qps 200, clientConnection.burst 400. Look there:"
        ),
    ),
    Reason(
        "scheduler_limit_unknown",
        _INFO,
        _("The scheduler's rate limit is not known"),
        _(
            "It is not told from outside, and no crowd of starts was seen that would show it. The stock limit gives {stock_per_second} a second."
        ),
        _("It should be clientConnection.qps 200, clientConnection.burst 400. Look on its machine:"),
    ),
    Reason(
        "volumes_limit_enough",
        _INFO,
        _("The controller-manager's rate limit suffices"),
        _("{queries_per_second} requests a second, burst {burst}: about {starts_per_second} new volumes a second."),
    ),
    Reason(
        "volumes_limit_low",
        _WARNING,
        _("The controller-manager's rate limit is low"),
        _("{queries_per_second} requests a second, burst {burst}: about {starts_per_second} new volumes a second."),
        _("On its command line: --kube-api-qps={wanted} --kube-api-burst={wanted_burst}."),
    ),
    Reason(
        "volumes_limit_none",
        _INFO,
        _("The controller-manager has no rate limit of its own"),
        _("It was switched off on its command line."),
    ),
    Reason(
        "volumes_limit_seen",
        _INFO,
        _("The controller-manager's rate limit was raised"),
        _("{pods} new volumes in 10 s: {per_second} a second. The stock limit gives {stock_per_second} at most."),
    ),
    Reason(
        "volumes_limit_felt",
        _WARNING,
        _("The controller-manager was as slow as a stock rate limit makes it"),
        _(
            "{per_second} new volumes a second in the busiest 10 s, while pods waited {waited_seconds} for theirs. Stock gives {stock_per_second}."
        ),
        _(
            "Either that is its limit, or its machine lacks processor. It should be --kube-api-qps=100 --kube-api-burst=200. Look there:"
        ),
    ),
    Reason(
        "volumes_limit_unknown",
        _INFO,
        _("The controller-manager's rate limit is not known"),
        _(
            "It is not told from outside, and no crowd of first starts was seen that would show it. "
            "The stock limit gives {stock_per_second} new volumes a second."
        ),
        _("It should be --kube-api-qps=100 --kube-api-burst=200. Look on its machine:"),
    ),
    Reason(
        "order_kept",
        _INFO,
        _("Whoever waits longest goes first"),
        _("Pods that waited behind an older one of the same size and stayed behind it: {pods}."),
    ),
    Reason(
        "order_passed",
        _WARNING,
        _("A younger one was placed before one that waited longer"),
        _("{older} waited; {younger} came later, is of the same size, and was placed first."),
        _(
            "Either its volume keeps it to other nodes, or the scheduler lets those wait longer that it tried more often. "
            "It should be podMaxBackoffSeconds: 1 in its configuration file. Look there:"
        ),
    ),
    Reason(
        "order_unknown",
        _INFO,
        _("Whether the oldest goes first is not known"),
        _(
            "Too few waited for a card that would show it. A stock scheduler lets those wait longer that it tried more often."
        ),
        _("It should be podMaxBackoffSeconds: 1 in the scheduler's configuration file. Look on its machine:"),
    ),
    Reason(
        "scoring_needs_nothing",
        _INFO,
        _("percentageOfNodesToScore does not matter here"),
        _("Nodes: {nodes}; the scheduler looks at all of up to {few}."),
    ),
    Reason(
        "scoring_unknown",
        _INFO,
        _("percentageOfNodesToScore is not known"),
        _(
            "There are {nodes} nodes. By itself the scheduler looks at up to half of them for every pod, which takes longer."
        ),
        _("It should be percentageOfNodesToScore: 10. Look on the scheduler's machine:"),
    ),
    Reason(
        "priority_serves",
        _INFO,
        _("The API server turns none of our kind away"),
        _("Flow schema {flow_schema}, priority level {priority_level}: {seats} seats, {rejected} requests rejected."),
    ),
    Reason(
        "priority_exempt",
        _INFO,
        _("Our requests never wait"),
        _("Flow schema {flow_schema} is exempt from priority and fairness, as that of an administrator."),
    ),
    Reason(
        "priority_refuses",
        _WARNING,
        _("The API server has turned requests of our kind away"),
        _("Flow schema {flow_schema}, priority level {priority_level}: {seats} seats, {rejected} requests rejected."),
        _("Give Tessera's account a FlowSchema and a priority level of its own. What is rejected, and why:"),
    ),
    Reason(
        "priority_unknown",
        _INFO,
        _("Priority and fairness: not known"),
        _("{problem}"),
        _("Look by hand:"),
    ),
    Reason(
        "requests_served",
        _INFO,
        _("None of the controller's requests was turned away"),
        _("Since its start: {requests}, of which refused because the API server was busy: {refused}."),
    ),
    Reason(
        "requests_refused",
        _WARNING,
        _("The API server was too busy for the controller"),
        _("Requests since its start: {requests}, of which refused and sent again: {refused}."),
        _("Give the API server more processor, or raise --max-requests-inflight."),
    ),
)
