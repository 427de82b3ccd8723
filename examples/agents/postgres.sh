#!/bin/sh
# Hands a PostgreSQL primary over to its standby before Azure maintenance, and comes back as the standby:
#
#   scheduled-events watch … --prepare 'postgres.sh hand-over DATA HERE THERE' --recover 'postgres.sh rejoin DATA HERE THERE'
#
# It runs as the owner of the folder DATA. HERE and THERE are connection strings of this server and the other one, and each
# server's `primary_conninfo` names the other. PostgreSQL stops before the other server is promoted, and it has standby.signal
# by then, so there are never two primaries, even if it starts with the machine. If the other server did not receive
# everything, this one goes on, and the event is not approved. A standby, or a primary without one, writes a checkpoint only.
set -eu
data=$2 here=$3 there=$4
ask() { psql -XAtq -v ON_ERROR_STOP=1 -d "$1" -c "$2"; }
start() { pg_ctl -D "$data" -w -s -l "$data/server.log" start; }
runs() { pg_ctl -D "$data" status >/dev/null; }
case $1 in
    hand-over)
        if runs; then
            ask "$here" checkpoint
            standbys="select count(*) from pg_stat_replication where state = 'streaming' and not pg_is_in_recovery()"
            [ "$(ask "$here" "$standbys")" -gt 0 ] || exit 0
            touch "$data/standby.signal"
            # A fast stop sends everything to the standby, and a last checkpoint.
            pg_ctl -D "$data" -w -s -m fast stop
        elif [ ! -e "$data/standby.signal" ]; then
            exit 0 # It was stopped for another reason.
        fi
        last=$(LC_ALL=C pg_controldata "$data" | sed -n 's/^Latest checkpoint location: *//p')
        for _ in 1 2 3 4 5 6 7 8 9 10; do
            case $(ask "$there" "select pg_is_in_recovery(), pg_last_wal_receive_lsn() > '$last'") in
                f*) exit 0 ;; # It was promoted by an earlier attempt.
                't|t') [ "$(ask "$there" "select pg_promote()")" = t ] && exit 0 ;;
            esac
            sleep 1
        done
        rm "$data/standby.signal"
        start
        echo "postgres: the other server did not receive everything" >&2
        exit 78 # Another attempt could take this server for one without a standby.
        ;;
    rejoin)
        runs || start
        ;;
    *)
        echo "usage: postgres.sh hand-over|rejoin DATA HERE THERE" >&2
        exit 2
        ;;
esac
