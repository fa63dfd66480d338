//! Stores and configurations that came with somebody's documents: S2 and S3 of the security review.

use std::fs;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::unix::fs::{chown, symlink};
use std::path::PathBuf;

use crate::support::{CommandOutput, TestEnv};

const NOTE: &str = "# Note\n\nThe interest rate rose.\n";
// The number of `nobody` on most machines.
const NOBODY: u32 = 65_534;

// A folder of documents, and a folder of the user next to it.
fn downloaded() -> (TestEnv, PathBuf) {
    let env = TestEnv::new();
    env.put("note.md", NOTE);
    let home = env.path("home");
    fs::create_dir_all(home.join("default")).unwrap();
    for file in ["id_rsa", "1-1", "default/kept"] {
        fs::write(home.join(file), "of the user").unwrap();
    }
    (env, home)
}

fn assert_untouched(home: &std::path::Path) {
    let files = crate::support::files(home);
    assert_eq!(files.len(), 3, "{files:?}");
    for file in files.values() {
        assert_eq!(fs::read_to_string(file).unwrap(), "of the user");
    }
}

fn assert_refused(output: &CommandOutput, code: &str, name: &str) {
    assert_eq!(output.code, Some(2), "{name}: {output:?}");
    let error = &output.json()["error"];
    assert_eq!(error["code"], code, "{output:?}");
    assert!(
        error["message"].as_str().unwrap().contains(name) && error["next"].is_string(),
        "{output:?}"
    );
}

#[test]
fn parts_of_a_found_store_that_are_links_are_refused() {
    for (part, target) in [
        (".stemma", "home"),
        (".stemma/tmp", "home"),
        (".stemma/objects", "home"),
        (".stemma/index", "home"),
        (".stemma/writer.lock", "home/id_rsa"),
        (".stemma/layout", "home/id_rsa"),
        (".stemma/layout", "home/new"),
        (".stemma", "home/new"),
    ] {
        let (env, home) = downloaded();
        let link = env.filings().join(part);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(env.path(target), &link).unwrap();
        for command in [&["ingest", "."][..], &["ls"], &["search", "rate"]] {
            let arguments = ["--json"].iter().chain(command);
            let output = env.stemma_in("filings", arguments).run();
            assert_refused(&output, "store.unsafe", part);
        }
        assert_untouched(&home);
    }
}

#[test]
fn links_deep_in_a_store_are_refused() {
    for (part, command) in [
        ("objects/c", &["--json", "ingest", "."][..]),
        ("objects/c/default", &["--json", "ls"]),
        ("index/default", &["--json", "search", "rate"]),
    ] {
        let (env, home) = downloaded();
        let first = env.stemma_in("filings", ["ingest", "."]).run();
        assert_eq!(first.code, Some(0), "{first:?}");
        let path = env.filings().join(".stemma").join(part);
        fs::remove_dir_all(&path).unwrap();
        symlink(&home, &path).unwrap();
        let output = env.stemma_in("filings", command).run();
        assert_ne!(output.code, Some(0), "{part}: {output:?}");
        assert!(
            output.out.contains("is a link") || output.err.contains("is a link"),
            "{part}: {output:?}"
        );
        assert_untouched(&home);
    }
}

#[test]
fn a_named_store_may_be_a_link_but_not_its_parts() {
    let (env, home) = downloaded();
    fs::create_dir(env.path("disk")).unwrap();
    symlink(env.path("disk"), env.path("store")).unwrap();
    assert_eq!(env.ingest("store", &[])["counts"]["done"], 1);
    assert!(env.path("disk/objects").is_dir());
    fs::remove_dir_all(env.path("disk/tmp")).unwrap();
    symlink(&home, env.path("disk/tmp")).unwrap();
    let output = env.stemma("store", ["--json", "ingest", "filings"]).run();
    assert_refused(&output, "store.unsafe", "store/tmp");
    assert_untouched(&home);
}

#[test]
fn only_own_names_are_removed_from_tmp() {
    let (env, _) = downloaded();
    env.ingest("store", &[]);
    for name in ["999-0", "notes.txt", "2022-report"] {
        fs::write(env.path("store/tmp").join(name), "x").unwrap();
    }
    env.ingest("store", &[]);
    let left = crate::support::files(&env.path("store/tmp"));
    assert!(left.keys().eq(["2022-report", "notes.txt"]), "{left:?}");
}

#[test]
fn stores_of_other_users_are_only_read_and_only_if_named() {
    // Only the administrator can give files away.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let (env, _) = downloaded();
    let found = env.filings().join(".stemma");
    env.stemma_in("filings", ["ingest", "."]).run();
    for entry in walkdir::WalkDir::new(&found) {
        chown(entry.unwrap().path(), Some(NOBODY), None).unwrap();
    }
    for command in [["ls"].as_slice(), &["ingest", "."]] {
        let arguments = ["--json"].iter().chain(command);
        let output = env.stemma_in("filings", arguments).run();
        assert_refused(&output, "store.foreign", ".stemma");
    }
    let cache = env.path("cache").display().to_string();
    let read = env.stemma("filings/.stemma", ["search", "rate"]);
    let read = read.env("XDG_CACHE_HOME", &cache).run();
    assert_eq!(read.code, Some(0), "{read:?}");
    assert!(env.path("cache/stemma").is_dir(), "the index is ours");
    let written = env
        .stemma("filings/.stemma", ["--json", "ingest", "filings"])
        .run();
    assert_refused(&written, "store.foreign", ".stemma");
}

// Whoever left the file wants to be sent keys and texts.
fn listening() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let toml = format!("[model]\nname = \"m\"\nbase_url = \"http://{address}/v1\"\n");
    (listener, toml)
}

fn assert_silent(listener: &TcpListener) {
    let error = listener.accept().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "a request arrived");
}

#[test]
fn a_found_configuration_gets_neither_key_nor_text() {
    let env = TestEnv::new();
    env.put("note.md", NOTE);
    env.ingest("store", &[]);
    let (listener, toml) = listening();
    let file = env.path("stemma.toml");
    fs::write(&file, toml).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    for is_foreign in [false, true] {
        if is_foreign && !is_root {
            continue;
        }
        let code = if is_foreign {
            chown(&file, Some(NOBODY), None).unwrap();
            "config.untrusted"
        } else {
            "config.unnamed"
        };
        for command in [
            &["ingest", "filings", "--rerun-failed"][..],
            &["ask", "What rose?"],
            &["doctor"],
        ] {
            let output = env
                .stemma("store", ["--json"].iter().chain(command))
                .env("STEMMA_MODEL__API_KEY", "secret")
                .run();
            assert_eq!(output.code, Some(2), "{output:?}");
            let name = if is_foreign {
                "stemma.toml"
            } else {
                "`model.base_url`"
            };
            assert!(
                output.out.contains(name) && output.out.contains("stemma.toml"),
                "{output:?}"
            );
            if command != ["doctor"] {
                assert_refused(&output, code, "stemma.toml");
            }
        }
        assert_silent(&listener);
    }
}

#[test]
fn a_named_configuration_is_used_as_it_is() {
    let env = TestEnv::new();
    env.put("note.md", NOTE);
    env.ingest("store", &[]);
    let (listener, toml) = listening();
    fs::write(env.path("stemma.toml"), toml).unwrap();
    let mut doctor = env
        .stemma("store", ["--config", "stemma.toml", "--json", "doctor"])
        .env("STEMMA_MODEL__API_KEY", "secret")
        .start();
    let mut requests = 0;
    while !doctor.has_ended() {
        // Whoever asks is hung up on.
        requests += u32::from(listener.accept().is_ok());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let output = doctor.end();
    assert!(requests > 0, "{output:?}");
}

#[test]
fn the_configuration_in_use_is_named() {
    let env = TestEnv::new();
    fs::write(env.path("stemma.toml"), "[limits]\nmax_pages = 7\n").unwrap();
    let line = "configuration: stemma.toml\n";
    let shown = env.stemma("store", ["--json", "config", "max_pages"]).run();
    assert_eq!(shown.err.matches(line).count(), 1, "{shown:?}");
    assert_eq!(shown.json()[0]["source"], "stemma.toml");
    let quiet = env.stemma("store", ["-q", "config", "max_pages"]).run();
    assert_eq!(quiet.err, "");
    let doctor = env.stemma("store", ["--json", "doctor"]).run();
    let checks = doctor.json().to_string();
    assert!(checks.contains("configuration: stemma.toml, "), "{checks}");
    let none = env.stemma_in("filings", ["config", "max_pages"]).run();
    assert_eq!(none.err, "", "a file in a folder above is not found");
    assert!(!none.out.contains("stemma.toml"), "{none:?}");
}
