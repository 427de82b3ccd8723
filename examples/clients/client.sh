#!/usr/bin/env bash
# A client in bash that drains before an event of its machine and approves it, with curl and jq alone:
#
#   scheduled-events replay user-reboot --speed 20 -- examples/clients/client.sh
#
# It ends once an event was seen and none is left; a service goes on. In scripts, `scheduled-events wait` and `watch --prepare` do all of this.
set -uo pipefail
endpoint=${SCHEDULED_EVENTS_ENDPOINT:-http://169.254.169.254}
events="$endpoint/metadata/scheduledevents?api-version=2020-07-01"

# The service answers on this machine: through no proxy. The first answer may take two minutes.
request() { # SECONDS ARGUMENT...
    curl --silent --show-error --fail --noproxy '*' --max-time "$1" --max-filesize 1048576 --user-agent example-bash/1.0 --header Metadata:true "${@:2}"
}
drain() { echo "drained for $1"; }
undrain() { echo "serving again"; }

name=
seconds=130
failures=0
declare -A drained=() approved=()
while :; do
    if { [[ -n $name ]] || name=$(request 5 "$endpoint/metadata/instance/compute/name?api-version=2021-02-01&format=text"); } &&
        document=$(request "$seconds" "$events") &&
        # An empty or broken document fails: it does not mean that there are no events.
        mine=$(jq -er --arg name "${name,,}" '.Events | arrays | map(select(any(.Resources[]; ascii_downcase == $name)))
            | map([.EventId, .EventStatus, .EventType] | @tsv) | join("\n")' <<<"$document"); then
        failures=0 seconds=5
        while IFS=$'\t' read -r id status type; do
            [[ -n $id ]] || continue
            [[ -n ${drained[$id]-} ]] || { drain "$type" && drained[$id]=yes; } || continue
            if [[ $status == Scheduled && -z ${approved[$id]-} ]]; then
                request 5 --data "$(jq -cn --arg id "$id" '{StartRequests: [{EventId: $id}]}')" "$events" >/dev/null && approved[$id]=yes && echo "approved"
            fi
        done <<<"$mine"
        if [[ -z $mine && ${#drained[@]} -gt 0 ]]; then
            undrain
            break
        fi
    else
        failures=$((failures < 3 ? failures + 1 : 3)) # 8 seconds: a notice of 30 seconds is not missed
    fi
    sleep $((2 ** failures))
done
