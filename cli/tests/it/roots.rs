//! `lifesign shim --root`: how an agent in a pod runs a command of its machine.

use std::process::Command;

#[test]
fn a_command_runs_in_another_root_and_its_exit_code_is_told() {
    let run = |root: &str| {
        let mut command = Command::new(crate::LIFESIGN);
        command.args(["shim", "--root", root, "--", "/bin/sh", "-c", "exit 7"]).output().expect("the binary runs")
    };
    let none = run("/there/is/no/such/folder");
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stderr).contains("/bin/sh in /there/is/no/such/folder: "), "{none:?}");
    let here = run("/");
    // Only root may enter another root, and nobody else runs such an agent.
    if rustix::process::geteuid().is_root() {
        assert_eq!(here.status.code(), Some(7), "{here:?}");
    } else {
        assert_eq!(here.status.code(), Some(1), "{here:?}");
    }
}
