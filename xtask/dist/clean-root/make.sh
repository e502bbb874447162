#!/bin/sh
# Makes the clean root: the small system of this machine's own release of Debian or Ubuntu, without Rust.
#
# It has what users of each artefact have already (Python, Node.js with npm, uv, sudo, curl), the official MCP client in
# /opt/client, and an ordinary user. Packages come from where apt and pip of this machine take them.
# It becomes the image of an ext4 file system, which is copied for each trial at once.
# Needs root and a network. Arguments: the image, a folder to work in, and the list of Python packages.
set -eu
image=$1 root=$2 tools=$3
. /etc/os-release

# Each line: a mirror and a component of this release.
sources=$(apt-get indextargets --format '$(RELEASE) $(REPO_URI) $(COMPONENT)' 'Created-By: Packages' |
    sed -n "s/^$VERSION_CODENAME //p" | sort -u)
mirror=$(printf '%s\n' "$sources" | sed -n '1s/ .*//p')
components=$(printf '%s\n' "$sources" | sed -n "s|^$mirror ||p" | paste -sd,)
# Some machines have a list of mirrors, which debootstrap does not know.
case "$mirror" in
mirror+file:*) mirror=$(sed -n 's/^\(http[^[:space:]]*\).*/\1/p' "${mirror#mirror+file:}" | head -n 1) ;;
esac
if [ -z "$mirror" ]; then
    echo "make.sh: apt has no source for $VERSION_CODENAME here" >&2
    exit 1
fi
debootstrap --variant=minbase --components="$components" "$VERSION_CODENAME" "$root" "$mirror"

# No service starts in the root, and its packages are asked no questions.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 HOME=/root "$@"; }
inside apt-get -o Acquire::Check-Valid-Until=false update
inside apt-get install --yes --no-install-recommends python3 python3-venv nodejs npm curl sudo ca-certificates
inside apt-get clean

printf '127.0.0.1 localhost clean-root\n' >"$root/etc/hosts"
inside useradd --create-home --shell /bin/bash ada
printf 'ada ALL=(ALL) NOPASSWD: ALL\n' >"$root/etc/sudoers.d/ada"

# The root's own Python decides which wheels fit; pip of this machine downloads them.
version=$(inside python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
python3 -m pip download --quiet --only-binary=:all: --python-version "$version" --dest "$root/opt/wheels" -r "$tools"
inside python3 -m venv /opt/client
inside sh -c '/opt/client/bin/pip install --quiet --no-index --no-deps /opt/wheels/*.whl'
rm -r "$root/opt/wheels"
ln -s /opt/client/bin/uv /opt/client/bin/uvx "$root/usr/local/bin/"

mkfs.ext4 -q -d "$root" "$image" 3G
rm -rf --one-file-system "$root"
