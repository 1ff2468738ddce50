"""What an experiment is to the cluster: JupyterLab in a home folder of its own."""

from collections.abc import Sequence

from apps.cluster.specs import Port, Probe, RunSpec, Volume
from apps.experiments.models import Experiment
from apps.workloads.kinds import Kind
from apps.workloads.models import Workload

NAME = "experiment"
GRACE_SECONDS = 10  # JupyterLab ends its kernels within about 2 s


def build_spec(workload: Workload) -> RunSpec:
    """Needs `workload` with owner, tenant, environment and experiment loaded; everything else is derived."""
    return RunSpec(
        uid=workload.uid,
        run=workload.run,
        kind=NAME,
        name=workload.name,
        slug=workload.slug,
        tenant=str(workload.tenant_id),
        owner=str(workload.owner_id),
        account=f"{workload.tenant_id}/{workload.owner_id}",
        environment=workload.environment.key,
        command=("tessera-notebook",),
        resources=workload.resources,
        env={"TESSERA_WORKLOAD": workload.uid, "TESSERA_NAME": workload.name},
        ports=(Port("http"),),
        volumes=(Volume(name=workload.experiment.home, path="~"),),
        probe=Probe(port="http", path="/api/status"),
        grace_seconds=GRACE_SECONDS,
        labels={
            "name": workload.name,
            "owner": workload.owner.username,
            "tenant": workload.tenant.slug,
            "tenant_name": workload.tenant.name,
            "environment": workload.environment.slug,
            "time_limit_seconds": str(workload.time_limit_seconds or ""),
        },
    )


def volumes_to_remove(workload: Workload) -> Sequence[str]:
    return (workload.experiment.home,) if workload.experiment.remove_home else ()


def adopt(workload: Workload, spec: RunSpec) -> None:
    home = next((volume.name for volume in spec.volumes if volume.path == "~"), f"home-{workload.id}")
    Experiment.objects.create(workload=workload, home=home)


KIND = Kind(NAME, build_spec, volumes_to_remove, adopt)
