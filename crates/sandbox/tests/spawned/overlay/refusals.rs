//! Tests that an unavailable overlay is reported with its reason.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use sandbox::{CellSpec, Overlay, SandboxError, WorkspaceChanges};

use super::places::behind;
use super::support::{each, is_root, overlay_at};

#[test]
fn folders_that_are_not_private_or_not_beside_each_other_are_refused() {
    each(|place| {
        let with =
            |overlay: Overlay| place.run(&CellSpec { overlay: Some(overlay), ..place.spec.clone() }, "true");
        let good = place.overlay();
        with(good.clone()).unwrap();
        let other = place.overlay();
        let bad = [
            Overlay { work: other.work.clone(), ..good.clone() },
            Overlay { work: good.upper.clone(), ..good.clone() },
            Overlay { upper: "upper".into(), work: "work".into() },
        ];
        for overlay in bad {
            assert!(matches!(with(overlay), Err(SandboxError::Invalid { field: "overlay", .. })));
        }
        fs::set_permissions(other.upper.parent().unwrap(), Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(with(other), Err(SandboxError::Invalid { field: "overlay", .. })));
        let missing = Overlay { upper: place.outside("no/upper"), work: place.outside("no/work") };
        assert!(matches!(with(missing), Err(SandboxError::Overlay { .. })));
    });
}

#[test]
fn folders_inside_the_workspace_are_refused_and_the_same_command_runs_directly() {
    each(|place| {
        let overlay = overlay_at(&place.path("inside"));
        let spec = CellSpec { overlay: Some(overlay), ..place.spec.clone() };
        let refused = place.run(&spec, "touch written");
        assert!(matches!(refused, Err(SandboxError::Overlay { .. })), "{refused:?}");
        let outcome = place.run(&CellSpec { overlay: None, ..spec }, "touch written").unwrap();
        assert_eq!(outcome.enforcement.workspace, WorkspaceChanges::Direct);
        assert!(place.path("written").exists());
    });
}

#[test]
fn a_read_only_workspace_needs_none() {
    each(|place| {
        let spec = CellSpec {
            overlay: Some(place.overlay()),
            read_only: vec![place.spec.workspace.clone()],
            ..place.spec.clone()
        };
        let outcome = place.run(&spec, "! touch written").unwrap();
        assert_eq!(outcome.enforcement.workspace, WorkspaceChanges::ReadOnly);
    });
}

#[test]
fn other_kinds_of_file_systems_work_or_are_refused_as_such() {
    each(|place| {
        place.write("file", "old\n");
        let line = "cat file; echo new > file; cat file; rm file; ls";
        let fill = "echo old > \"$WS/file\"; chmod 700 \"$CALL\"";
        let overlaid = "D=$CALL-below; mkdir -p \"$D/l\" \"$D/u\" \"$D/w\"; \
             mount -t overlay -o userxattr,lowerdir=\"$D/l\",upperdir=\"$D/u\",workdir=\"$D/w\" none";
        let cases = [
            // A workspace in memory, with the folders on disk and in memory.
            ("lower-tmpfs", format!("mount -t tmpfs none \"$WS\"; {fill}"), true),
            ("upper-tmpfs", format!("mount -t tmpfs none \"$CALL\"; {fill}"), true),
            (
                "both-tmpfs",
                format!("mount -t tmpfs none \"$WS\"; mount -t tmpfs none \"$CALL\"; {fill}"),
                true,
            ),
            // In a container both are often on an overlay themselves; an overlay cannot be an upper
            // folder.
            ("upper-overlay", format!("{overlaid} \"$CALL\"; {fill}"), false),
            // An overlay can be a lower folder, but not with its owner mapped.
            ("lower-overlay", format!("{overlaid} \"$WS\"; {fill}"), !is_root()),
        ];
        for (name, mounts, works) in cases {
            let (said, told) = behind(place, name, &mounts, line);
            if works {
                assert!(said.starts_with("old\nnew\nCode(0)"), "{name}: {said}{told}");
                assert!(told.contains("workspace:overlay"), "{name}: {told}");
            } else {
                let kind = if name == "lower-overlay" { "Unavailable {" } else { "Overlay {" };
                assert!(told.contains(kind), "{name}: {said}{told}");
                assert_eq!(said, "", "{name}");
            }
        }
        assert_eq!(place.read("file"), "old\n");
    });
}
