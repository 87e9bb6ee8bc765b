#!/usr/bin/env bash
# Makes stand-ins for the images that the fleet is made of, with the same tags, out of Debian's packages: for machines that
# have a Debian mirror, and no registry to pull from. With names, only those. What is there already stays.
#
# A stand-in is as much like the official image as deploy/compose.yaml and the tests need: the same program of the same
# major version, its paths, its user, its command. `docker image ls --filter label=cofferdam.stand-in` lists them.
set -euo pipefail

base=debian:bookworm-slim
suite=bookworm
images=("$@")
((${#images[@]})) || images=("$base" redis:7-bookworm haproxy:2.6-bookworm)

has() { docker image inspect "$1" >/dev/null 2>&1; }

refuse() {
  echo "offline-images: $1" >&2
  exit 1
}

# As this machine's apt has it: where the suite's packages come from, and the proxy on the way there.
mirror() {
  apt-get indextargets --format '$(CODENAME) $(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
    awk -v suite="$suite" '$1 == suite && $2 == "Debian" && $3 == "main" { print $4; exit }'
}

proxy() {
  local found=
  eval "$(apt-config shell found Acquire::http::Proxy)"
  [[ $found == DIRECT ]] || echo "${found:-${http_proxy:-}}"
}

make_base() {
  ((EUID == 0)) || refuse "debootstrap needs root to make $base; or pull it where there is a registry"
  command -v apt-get >/dev/null || refuse "no apt-get here, whose mirror $base could be made from"
  command -v debootstrap >/dev/null || {
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends debootstrap
  } >&2
  local from root
  from=$(mirror)
  [[ -n $from ]] || refuse "apt has no mirror of Debian $suite"
  root=$(mktemp -d)
  trap 'rm -rf "$root"' EXIT
  http_proxy=$(proxy) debootstrap --variant=minbase "$suite" "$root/debian" "$from" >"$root/log" 2>&1 ||
    { tail -n 20 "$root/log" >&2 && refuse "debootstrap failed"; }
  # Pages that nobody reads in a container, and what apt has fetched.
  tar -C "$root/debian" --exclude='./var/cache/apt/*' --exclude='./var/lib/apt/lists/*' --exclude='./usr/share/doc/*' \
    --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*' --exclude='./dev/*' -c . |
    docker import --change 'LABEL cofferdam.stand-in=yes' --change 'CMD ["bash"]' - "$base" >&2
  rm -rf "$root"
  trap - EXIT
}

# What each is made of, beside its packages.
recipe() {
  echo "FROM $base"
  case $1 in
  redis:7-*)
    packages redis-server
    echo 'WORKDIR /data'
    echo 'RUN chown redis:redis /data'
    echo 'USER redis'
    echo 'EXPOSE 6379'
    echo 'CMD ["redis-server"]'
    ;;
  haproxy:2.6-*)
    packages haproxy
    echo 'STOPSIGNAL SIGUSR1'
    echo 'USER haproxy'
    echo 'CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]'
    ;;
  *) refuse "there is no recipe for $1" ;;
  esac
}

packages() {
  echo "RUN apt-get update -q && apt-get install -qy --no-install-recommends $* && rm -rf /var/lib/apt/lists/*"
}

# One at a time: who comes second finds what the first has made.
exec {lock}<"$0"
flock "$lock"
for image in "${images[@]}"; do
  has "$image" && continue
  has "$base" || make_base
  [[ $image == "$base" ]] && continue
  # The machine's own network, since that is where the mirror can be reached.
  recipe "$image" | docker build -q --network host --build-arg "http_proxy=$(proxy)" -t "$image" - >&2
done
