//! What is said about probes.

use super::*;

#[test]
fn messages_of_kubelet_and_agent_are_understood() {
    for (message, cause) in [
        ("Get \"http://10.0.0.1:8080/\": dial tcp 10.0.0.1:8080: connect: connection refused", "ConnectionRefused"),
        ("HTTP probe failed with statuscode: 503", "ProbeStatus"),
        (
            "Get \"http://10.0.0.1:8080/\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
            "ProbeTimeout",
        ),
        ("dial tcp 10.0.0.1:8080: i/o timeout", "ProbeTimeout"),
        ("command timed out: \"sleep 9\" timed out after 1s", "ProbeTimeout"),
        ("timeout: failed to connect service \"10.0.0.1:9000\" within 1s: context deadline exceeded", "ProbeTimeout"),
        ("service unhealthy (responded with \"NOT_SERVING\")", "NotServing"),
        ("Get \"https://10.0.0.1/\": http: server gave HTTP response to HTTPS client", "WrongProtocol"),
        ("strconv.Atoi: parsing \"http\": invalid syntax", "ProbePortUnknown"),
        ("cat: can't open '/tmp/ok': No such file or directory", "ProbeCommandNotFound"),
        ("", "ProbeFailed"),
    ] {
        assert_eq!(meaning(message).0, cause, "{message}");
    }
    assert_eq!(
        stripped("Readiness probe failed: HTTP probe failed with statuscode: 503\n"),
        "HTTP probe failed with statuscode: 503"
    );
}
