//! Fuzz targets for all code that reads untrusted bytes. `tests/fuzz/run` builds and starts them.
//!
//! The variable `STEMMA_FUZZ` names the target (see [`targets`]). If `STEMMA_FUZZ_SEEDS` is set, the program writes the
//! seeds of the target into that folder and exits. Seeds are generated, so the repository contains no documents.
//! A target fails if our code panics, a tree breaks an invariant, or a run takes too much time or memory.

#![no_main]

mod inputs;
mod invariants;
mod seeds;
mod targets;

use std::panic;
use std::path::PathBuf;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

use crate::targets::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(init: start(), |bytes: &[u8]| {
    if let Some(target) = TARGET.get() {
        (target.run)(bytes);
    }
});

fn start() {
    let name = std::env::var("STEMMA_FUZZ").unwrap_or_default();
    let Some(target) = targets::named(&name) else {
        eprintln!("STEMMA_FUZZ names one of: {}", targets::names().join(" "));
        std::process::exit(2);
    };
    if let Some(folder) = std::env::var_os("STEMMA_FUZZ_SEEDS").map(PathBuf::from) {
        let written = seeds::write(&folder, &(target.seeds)());
        std::process::exit(if written.is_ok() { 0 } else { 1 });
    }
    let _ = TARGET.set(target);
    abort_on_own_panics();
}

// Extraction catches panics of the PDF parsers. A panic in our own code is a finding even where it would be caught.
fn abort_on_own_panics() {
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let is_dependency = info
            .location()
            .is_some_and(|at| at.file().contains("/registry/src/"));
        if !is_dependency {
            print(info);
            std::process::abort();
        }
    }));
}
