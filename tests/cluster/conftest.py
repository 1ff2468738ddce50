from tests.cluster.fixtures import cluster as cluster
from tests.cluster.fixtures import machine_for_a_node as machine_for_a_node
