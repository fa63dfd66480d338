//! A document that holds a command back, so that tests of interruptions do not race with its end.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::scan_fixture::{Sheet, filing, scan};
use crate::support::{StemmaCommand, TestEnv};

/// A scan whose text recognition waits until the gate is opened. Commands behind it read all other documents, and cannot end
/// before.
pub struct Gate(PathBuf);

impl Gate {
    /// Adds the scan, as the last document in the order of names.
    pub fn close(lab: &TestEnv) -> Self {
        // The page without words becomes a gap: the document needs another page with some.
        let lines = (0..12).map(|line| format!("Line {line} of the page before the gate."));
        let sheets = [Sheet::Printed(lines.collect()), Sheet::Straight(1)];
        lab.put("zz-gate.pdf", scan(&filing().pdf, &sheets));
        let folder = lab.path("gate");
        fs::create_dir(&folder).unwrap();
        let program = folder.join("tesseract");
        let open = folder.join("open");
        let script = format!(
            "#!/bin/sh\nwhile [ ! -e {} ]; do /bin/sleep 0.05; done\n",
            open.display()
        );
        fs::write(&program, script).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }

    /// Puts a command behind the gate.
    pub fn before(&self, command: StemmaCommand) -> StemmaCommand {
        command.env("PATH", self.0.to_str().unwrap())
    }

    pub fn open(&self) {
        fs::write(self.0.join("open"), "").unwrap();
    }
}
