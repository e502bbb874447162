#!/bin/sh
# Runs one script as one user in the clean root, which it leaves as it was.
#
# Runs in namespaces of its own for mounts, processes, network and host name: there is no network but loopback.
# The root is entered by pivot_root, because the kernel permits no user namespaces to a process in a chroot, and
# Handfast's cells need them.
# Arguments: the image of the system, a folder for its copy, the folder that becomes /handfast, the user, the command.
set -eu
image=$1 scratch=$2 brought=$3 user=$4
shift 4
root=$scratch/root
mkdir -p "$root"
cp --sparse=always "$image" "$scratch/image"
mount -o loop "$scratch/image" "$root"
mkdir "$root/handfast" "$root/old"
mount --bind -o ro "$brought" "$root/handfast"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
hostname clean-root
ip link set lo up
cd "$root"
pivot_root . old
umount --lazy /old
# A login shell, as a user has it: with the environment that the system gives, and nothing of this machine's.
exec env -i TERM=xterm-256color LANG=C.UTF-8 /bin/su --login "$user" --command "$*"
