"""`python -m tests.cluster`: a real Kubernetes on this machine, for tests and for looking at."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from tests.cluster.build import programs
from tests.cluster.cluster import DEFAULT, Cluster, Options, names
from tests.cluster.install import install
from tests.cluster.machine import Missing


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        return int(options.run(options) or 0)
    except (Missing, RuntimeError, TimeoutError) as trouble:
        print(trouble, file=sys.stderr)
        return 1


def build(options: argparse.Namespace) -> None:
    programs(say)


def up(options: argparse.Namespace) -> None:
    cluster = Cluster(options.name, say)
    cluster.start(
        Options(
            cards=tuple(card for card in options.cards.split(",") if card),
            fake_nodes=options.fake_nodes,
            fake_cards=options.fake_cards,
            # Fake nodes alone are meant for what concerns only the control plane, unless cards or the node are asked for.
            real=bool(options.real or options.cards or not options.fake_nodes),
            raised_limits=not options.stock_limits,
            percentage_of_nodes=options.percentage_of_nodes,
        )
    )
    if options.install or options.portal:
        install(cluster, portal=options.portal, say=say)
    say(f"export KUBECONFIG={cluster.kubeconfig}")


def down(options: argparse.Namespace) -> None:
    for name in names() if options.all else [options.name]:
        Cluster(name, say).stop()
        say(f"The cluster {name} is gone.")


def status(options: argparse.Namespace) -> int:
    if options.name not in names():
        say(f"There is no cluster {options.name}." + (f" There are: {', '.join(names())}" if names() else ""))
        return 1
    cluster = Cluster(options.name, say)
    for part, pid in cluster.alive().items():
        say(f"{part:24} {'process ' + str(pid) if pid else 'dead'}")
    layout = cluster.layout
    say(f"{'API server':24} {cluster.address}\n{'kubeconfig':24} {cluster.kubeconfig}\n{'logs':24} {cluster.logs}")
    if layout.real:
        say(f"{'node':24} {layout.node_name} at {layout.node_ip}, bridge {layout.bridge}, {layout.root}")
    return 0 if cluster.up else 1


def kubeconfig(options: argparse.Namespace) -> None:
    say(str(Cluster(options.name, say).kubeconfig))


def say(line: str) -> None:
    print(line, flush=True)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument(
        "--name", default=os.environ.get("TESSERA_CLUSTER", DEFAULT), help="which of several; TESSERA_CLUSTER"
    )
    words = parser.add_subparsers(required=True, metavar="build|up|down|status|kubeconfig")
    words.add_parser("build", help="build the programs, once for each version").set_defaults(run=build)
    start = words.add_parser("up", help="start what does not run")
    start.set_defaults(run=up)
    start.add_argument("--cards", default="", metavar="h100,h100", help="simulated cards of the node")
    start.add_argument("--fake-nodes", type=int, default=0, metavar="N", help="nodes on which nothing really runs")
    start.add_argument("--fake-cards", type=int, default=8, metavar="N", help="cards of each fake node (8)")
    start.add_argument("--real", action="store_true", help="a real node beside the fake ones")
    start.add_argument("--install", action="store_true", help="the node agent with these cards, as shipped")
    start.add_argument("--portal", action="store_true", help="and the portal in a pod")
    start.add_argument("--stock-limits", action="store_true", help="leave the rate limits of the programs as they are")
    start.add_argument("--percentage-of-nodes", type=int, default=None, metavar="P", help="that the scheduler scores")
    end = words.add_parser("down", help="take everything away")
    end.set_defaults(run=down)
    end.add_argument("--all", action="store_true", help="all clusters of this machine")
    words.add_parser("status", help="which parts run, and where").set_defaults(run=status)
    words.add_parser("kubeconfig", help="print the path of the administrator's kubeconfig").set_defaults(run=kubeconfig)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
