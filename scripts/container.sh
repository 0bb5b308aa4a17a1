#!/usr/bin/env bash
# Builds the images harpe-server and harpe-agent with podman, docker or buildah, from the Debian packages of
# scripts/package.sh, which it calls where there are none.
#
#   scripts/container.sh                     from debian:bookworm-slim of Docker's registry
#   scripts/container.sh --base IMAGE        from another Debian of that release
#   scripts/container.sh --base ARCHIVE.tar  from the files of one, such as of `mmdebstrap --variant=minbase bookworm base.tar`:
#                                            no registry is asked
#
# --packages FOLDER   packages to take (default: out/packages)
# --builder PROGRAM   podman, docker or buildah (default: the first of them that works here)
set -euo pipefail
cd "$(dirname "$0")/.."

base= builder= packages=
while [ $# -gt 0 ]; do
  case $1 in
    --base) base=${2:?--base IMAGE or ARCHIVE.tar} ;;
    --packages) packages=${2:?--packages FOLDER} ;;
    --builder) builder=${2:?--builder podman, docker or buildah} ;;
    *) sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2 ;;
  esac
  shift 2
done

works() {  # works PROGRAM: true if it is installed and can build
  command -v "$1" >/dev/null && "$1" info >/dev/null 2>&1
}
if [ -z "$builder" ]; then
  for candidate in podman docker buildah; do
    if works $candidate; then builder=$candidate; break; fi
  done
  [ -n "$builder" ] || { echo "none of podman, docker and buildah works here (apt install podman)" >&2; exit 1; }
fi

if [ -z "$packages" ]; then
  packages=out/packages
  ls $packages/harpe_*.deb $packages/harpe-agent_*.deb >/dev/null 2>&1 || ./scripts/package.sh
fi

# Contains only the files for the images: the sources' folder also has build outputs.
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir "$context/packages"
cp "$packages"/harpe_*.deb "$packages"/harpe-agent_*.deb "$context/packages"
cp packaging/container/* "$context"

if [ -f "$base" ]; then
  archive=$base
  base=localhost/harpe-base
  if [ "$builder" = buildah ]; then
    empty=$(buildah from scratch)
    buildah add -q "$empty" "$archive" / >/dev/null
    buildah commit -q --rm "$empty" $base >/dev/null
  else
    "$builder" import "$archive" $base >/dev/null
  fi
fi

# The version of the package, for the image tags.
version=$(dpkg-deb --field "$(echo "$context"/packages/harpe_*.deb)" Version)
options=(${base:+--build-arg "BASE=$base"} --file "$context/Containerfile")
# The OCI format has no health checks.
[ "$builder" = docker ] || options+=(--format docker)
for image in server agent; do
  "$builder" build "${options[@]}" --target $image --tag "harpe-$image:$version" --tag "harpe-$image:latest" "$context"
done
echo "harpe-server:$version and harpe-agent:$version are among the images of $builder; docs/install.md says how to run them."
