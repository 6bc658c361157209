#!/usr/bin/env bash
# A laptop, from nothing to an answer:
#   k8s/up.sh        a kind cluster, images built here, everything inside it (minutes)
#   k8s/up.sh open   the gateway at http://127.0.0.1:8080, with its key
# More: cluster, images, install (the steps of the first), key, seed, test, down. --dry-run says what would be done.
# Wants docker (or ENGINE=podman), kind, helm and kubectl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ENGINE=${ENGINE:-docker}
PORT=${PORT:-8080}
NAMESPACE=sabueso
REGISTRY=registry.example.internal
HOME_FOLDER=${SABUESO_HOME:-.sabueso}
DRY=

say() { printf '• %s\n' "$*" >&2; }

run() {
  if [ -n "$DRY" ]; then
    printf '%q ' "$@"
    echo
  else
    "$@"
  fi
}

kubectl_here() { run kubectl --context kind-sabueso --namespace "$NAMESPACE" "$@"; }

# Every service that has a server. Sorted, so that two runs do the same.
services() {
  local path
  for path in services/*/server.py; do
    path=$(dirname "$path")
    [ ! -f "$path/config.py" ] || basename "$path"
  done | sort
}

need() {
  local program
  [ -z "$DRY" ] || return 0
  for program in "$@"; do
    command -v "$program" > /dev/null || { echo "$program is not installed" >&2; exit 1; }
  done
}

# Passwords and the key are derived from it; the same for as long as the folder lives.
seed() {
  local file="$HOME_FOLDER/kind-seed"
  if [ ! -s "$file" ]; then
    mkdir -p "$HOME_FOLDER"
    (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$file")
  fi
  cat "$file"
}

cluster() {
  need "$ENGINE" kind
  [ "$ENGINE" != podman ] || export KIND_EXPERIMENTAL_PROVIDER=podman
  if [ -z "$DRY" ] && kind get clusters 2> /dev/null | grep -qx sabueso; then
    say "the cluster kind-sabueso is there"
    return
  fi
  say "making the cluster kind-sabueso"
  run kind create cluster --config k8s/kind.yaml --wait 5m
}

images() {
  local service image archive
  need "$ENGINE" kind
  archive=$(mktemp)
  # Expanded now: `archive` is gone when the shell ends.
  # shellcheck disable=SC2064
  trap "rm -f '$archive'" EXIT
  for service in $(services); do
    image="$REGISTRY/sabueso-${service//_/-}:dev"
    say "building $image"
    run "$ENGINE" build --quiet --file services/Dockerfile --build-arg "SERVICE=$service" --tag "$image" .
    if [ -n "$DRY" ]; then
      printf '%q ' "$ENGINE" save --output IMAGE.tar "$image" && echo
      printf '%q ' kind load image-archive IMAGE.tar --name sabueso && echo
    else
      "$ENGINE" save --output "$archive" "$image"
      kind load image-archive "$archive" --name sabueso
    fi
  done
}

install() {
  local secret=SEED
  need helm kubectl
  [ -n "$DRY" ] || secret=$(seed)
  say "installing charts/sabueso"
  run kubectl --context kind-sabueso apply --filename k8s/namespace.yaml
  run helm upgrade --install sabueso charts/sabueso --kube-context kind-sabueso \
    --namespace "$NAMESPACE" --wait --timeout 15m \
    --values charts/sabueso/values-tryout.yaml --values k8s/values/sabueso/dev.yaml \
    --set-string "tryout.seed=$secret"
}

key() {
  need kubectl
  kubectl_here get secret sabueso-tryout --output 'go-template={{index .data "api-key" | base64decode}}'
}

open() {
  say "http://127.0.0.1:$PORT — ask with: curl -H \"Authorization: Bearer \$(k8s/up.sh key)\" http://127.0.0.1:$PORT/v1/models"
  kubectl_here port-forward service/sabueso-gateway "$PORT:8080"
}

tests() { run helm test sabueso --kube-context kind-sabueso --namespace "$NAMESPACE" --logs; }

down() { run kind delete cluster --name sabueso; }

if [ "${1:-}" = --dry-run ]; then
  DRY=1
  shift
fi
case "${1:-all}" in
  all)
    cluster
    images
    install
    say "next: k8s/up.sh open"
    ;;
  cluster | images | install | key | seed | open | down) "$1" ;;
  test) tests ;;
  *)
    sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit 2
    ;;
esac
