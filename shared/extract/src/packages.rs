//! How programs are installed on this machine.

use std::path::Path;

/// The program that installs packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageManager {
    Apt,
    Dnf,
    Zypper,
    Pacman,
    Apk,
    Brew,
}

// A machine with two of them has the first one by itself.
const PROGRAMS: [(&str, PackageManager); 5] = [
    ("/usr/bin/apt-get", PackageManager::Apt),
    ("/usr/bin/dnf", PackageManager::Dnf),
    ("/usr/bin/zypper", PackageManager::Zypper),
    ("/usr/bin/pacman", PackageManager::Pacman),
    ("/sbin/apk", PackageManager::Apk),
];

impl PackageManager {
    /// That of this machine; `None` for one that is not known here.
    pub fn detect() -> Option<Self> {
        if cfg!(target_os = "macos") {
            return Some(Self::Brew);
        }
        PROGRAMS
            .into_iter()
            .find(|(program, _)| Path::new(program).exists())
            .map(|(_, manager)| manager)
    }

    /// The command that installs tesseract with English and with what finds the orientation of pages.
    pub fn install_tesseract(self) -> &'static str {
        match self {
            Self::Apt => "apt-get install tesseract-ocr",
            Self::Dnf => "dnf install tesseract tesseract-osd",
            Self::Zypper => "zypper install tesseract-ocr",
            Self::Pacman => "pacman -S tesseract tesseract-data-eng tesseract-data-osd",
            Self::Apk => "apk add tesseract-ocr tesseract-ocr-data-eng tesseract-ocr-data-osd",
            Self::Brew => "brew install tesseract",
        }
    }
}

/// How to install tesseract: the command, or what the package is called.
pub fn tesseract_advice(packages: Option<PackageManager>) -> String {
    packages.map_or_else(
        || "install tesseract, often the package tesseract-ocr".into(),
        |packages| format!("install tesseract: `{}`", packages.install_tesseract()),
    )
}
