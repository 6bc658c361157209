#!/usr/bin/env bash
# A pool of nodes with eight H100 SXM on Google Kubernetes Engine: CLUSTER=… LOCATION=… k8s/node-pools/gke.sh [--dry-run]
# GKE writes the label cloud.google.com/gke-accelerator and the taint nvidia.com/gpu by itself; k8s/values/vllm/gke.yaml goes with it.
set -euo pipefail

command=(
  gcloud container node-pools create h100
  --cluster "${CLUSTER:?name the cluster}"
  --location "${LOCATION:?name its zone or region}"
  --machine-type a3-highgpu-8g
  # No gpu-partition-size and no gpu-sharing-strategy: pods of the pools would never be placed there.
  --accelerator "type=nvidia-h100-80gb,count=8,gpu-driver-version=latest"
  --ephemeral-storage-local-ssd count=16
  --enable-autoscaling --num-nodes "${NODES:-0}" --total-min-nodes 0 --total-max-nodes "${MOST_NODES:-2}"
  --location-policy ANY
  # Upgrading a node takes its replicas away: one at a time, and as slowly as they drain.
  --max-surge-upgrade 0 --max-unavailable-upgrade 1
)
if [ "${1:-}" = --dry-run ]; then
  printf '%q ' "${command[@]}"
  echo
else
  "${command[@]}"
fi
