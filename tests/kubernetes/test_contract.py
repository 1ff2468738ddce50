"""The contract of all cluster drivers, on this one: every test of tests/contract, before an API server that can go wrong.

Two of them are told differently here.
"""

from apps.cluster.drivers.kubernetes import KubernetesCluster
from apps.cluster.specs import RunState
from tests.contract.test_resizing import *  # noqa: F403
from tests.contract.test_runs import *  # noqa: F403
from tests.contract.test_shares import *  # noqa: F403
from tests.contract.test_survival import *  # noqa: F403
from tests.contract.test_volumes_and_logs import *  # noqa: F403
from tests.contract.watching import Watcher
from tests.kubernetes.place import KubernetesPlace

# Of two controllers the row lease of the portal's database lets one work (apps/workloads/lease.py); a second lock in the cluster would only
# make a take-over wait for its expiry.
del test_two_drivers_never_look_after_the_same_runs  # noqa: F821


async def test_what_ended_while_nobody_looked_is_found_ended_with_its_reason(  # type: ignore[no-redef]
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    """What we had asked to end leaves nothing in the cluster: it is found absent, or still ending."""
    await cluster.apply(place.spec("a", "mute", "go-on"))
    await watch.until("a", RunState.STARTING)
    await cluster.delete("a", grace_seconds=0)
    await cluster.close()
    successor = place.cluster()
    await successor.start()
    seen = await successor.get("a")
    assert (seen.state, seen.reason) in [(RunState.ABSENT, ""), (RunState.STOPPING, "stopping")]
    await successor.close()


async def test_what_ended_by_itself_while_nobody_looked_says_how(
    place: KubernetesPlace, cluster: KubernetesCluster, watch: Watcher
) -> None:
    await cluster.apply(place.spec("a", "end", "3"))
    await watch.until("a", RunState.EXITED)
    await cluster.close()
    successor = place.cluster()
    await successor.start()
    seen = await successor.get("a")
    assert (seen.state, seen.reason, seen.exit_code) == (RunState.EXITED, "crashed", 3)
    await successor.close()
