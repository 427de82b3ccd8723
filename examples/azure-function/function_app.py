"""An Azure Function that gets Scheduled Events from Event Grid, outside the machines, and approves some of them.

Two triggers do the same: a Storage queue that Event Grid fills, which is retried and needs no port that is open to the
internet; and Event Grid's own. Use one of them. In preview at Azure, and never run there: see README.md.
"""

import json
import logging
import os
import urllib.error
import urllib.parse
import urllib.request

import azure.functions as func
import scheduled_events as se

MANAGEMENT = os.environ.get("MANAGEMENT_ENDPOINT", "https://management.azure.com")
TIMEOUT = 20  # seconds
log = logging.getLogger("scheduled-events")
app = func.FunctionApp()


@app.queue_trigger(
    arg_name="message", queue_name="scheduled-events", connection="AzureWebJobsStorage"
)
def from_queue(message: func.QueueMessage) -> None:
    """One message of a Storage queue. The host decodes its Base64, and passes it again if this raises."""
    handle(message.get_body())


@app.event_grid_trigger(arg_name="event")
def from_event_grid(event: func.EventGridEvent) -> None:
    """One message of Event Grid, in Event Grid's schema."""
    time = event.event_time
    message = {
        "id": event.id,
        "eventType": event.event_type,
        "subject": event.subject,
        "eventTime": time and time.isoformat(),
        "data": event.get_json(),
    }
    handle(json.dumps(message))


def handle(body: "bytes | str") -> None:
    """Log what is announced, and approve what the policy approves for all machines of the event."""
    notifications = se.parse_notifications(body)
    if notifications.left_out:
        log.info(
            "left out: %d messages that are not about a machine", notifications.left_out
        )
    for notification in notifications:
        event = notification.event
        log.info(
            "%s %s: %s %s",
            shown(event.event_type),
            shown(event.event_id),
            shown(notification.state),
            shown(", ".join(notification.machines)),
        )
        # Messages arrive more than once and in any order. Only what is announced can be approved, and a late approval of
        # an event that is over does nothing.
        if notification.state != "scheduled":
            continue
        decision = se.Policy.sample().decide(event, vm_names=list(event.resources))
        log.info("%s: %s (%s)", shown(event.event_id), decision.action, decision.reason)
        if decision.action == "approve":
            approve(notification)


def approve(notification: se.Notification) -> None:
    """Approve one event. Raise only if it may succeed later, so that the host passes the message again."""
    request = se.acknowledge_request(notification.resource_id, notification.event)
    headers = {
        "Authorization": f"Bearer {token()}",
        "Content-Length": str(len(request.body)),
    }
    try:
        status = send(
            urllib.request.Request(
                MANAGEMENT + request.path, request.body, headers, method=request.method
            )
        )[0]
    except urllib.error.HTTPError as refused:
        with refused:
            if refused.code in (401, 403, 408, 429) or refused.code >= 500:
                raise
            # Such as an event that has started or is over, or that was approved inside the machine.
            log.warning(
                "%s: not approved: status %d",
                shown(notification.event.event_id),
                refused.code,
            )
        return
    log.info("%s: approved: status %d", shown(notification.event.event_id), status)


def shown(text: "str | None") -> str:
    """A text from outside in quotes and escaped: a line break in it would begin another line of the log."""
    return ascii(None if text is None else "".join(text))


def token() -> str:
    """The token of the function's managed identity for Azure Resource Manager."""
    query = urllib.parse.urlencode(
        {"resource": f"{MANAGEMENT}/", "api-version": "2019-08-01"}
    )
    headers = {"X-IDENTITY-HEADER": os.environ["IDENTITY_HEADER"]}
    body = send(
        urllib.request.Request(
            f"{os.environ['IDENTITY_ENDPOINT']}?{query}", headers=headers
        )
    )[1]
    return str(json.loads(body)["access_token"])


def send(request: urllib.request.Request) -> "tuple[int, bytes]":
    with urllib.request.urlopen(request, timeout=TIMEOUT) as response:
        return response.status, response.read(1 << 20)
