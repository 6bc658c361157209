"""Starts Ray on this machine, deploys the file that each line of its input names, and ends when its input does."""

import sys

import ray
from ray import serve
from ray.serve.scripts import cli

_OBJECT_STORE_BYTES = 80 * 2**20


def main() -> None:
    (folder,) = sys.argv[1:]
    ray.init(
        num_cpus=2,
        num_gpus=1,
        include_dashboard=False,
        object_store_memory=_OBJECT_STORE_BYTES,
        namespace="serve",
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
        _temp_dir=folder,
    )
    try:
        for line in sys.stdin:
            cli(["run", "--non-blocking", line.strip()], standalone_mode=False)
    finally:
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
