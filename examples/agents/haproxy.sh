#!/bin/sh
# Drains a server of a load balancer with HAProxy before Azure maintenance, and takes it back afterwards:
#
#   scheduled-events watch … --prepare 'haproxy.sh drain BACKEND SERVER' --recover 'haproxy.sh ready BACKEND SERVER'
#
# It runs on the server's machine. HAPROXY is socat's address of HAProxy's admin socket, such as TCP:lb:9999 for a line
# `stats socket ipv4@10.0.0.4:9999 level admin` on the load balancer. The drain ends with the last session: new ones go to
# other servers, apart from those that a cookie ties to this one.
set -eu
ask() { printf '%s\n' "$1" | socat -t 5 - "${HAPROXY:-UNIX-CONNECT:/run/haproxy/admin.sock}"; }
set_state() {
    answer=$(ask "set server $backend/$server state $1")
    [ -z "$answer" ] || { echo "haproxy: $answer" >&2 && exit 1; }
}
sessions() { ask "show stat" | awk -F , -v backend="$backend" -v server="$server" '$1 == backend && $2 == server { print $5 }'; }
backend=$2 server=$3
case $1 in
    drain)
        set_state drain
        while [ "$(sessions)" != 0 ]; do sleep 0.2; done
        ;;
    ready)
        set_state ready
        ;;
    *)
        echo "usage: haproxy.sh drain|ready BACKEND SERVER" >&2
        exit 2
        ;;
esac
