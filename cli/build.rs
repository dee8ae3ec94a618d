//! Sets `EHI_COMMIT`, the commit that `ehi --version` names.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = packaged().or_else(cloned).unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=EHI_COMMIT={commit}");
}

/// That of a published package, which cargo writes down when it makes one.
fn packaged() -> Option<String> {
    let written = fs::read_to_string(".cargo_vcs_info.json").ok()?;
    let (_, rest) = written.split_once("\"sha1\": \"")?;
    rest.split_once('"').map(|(commit, _)| commit.to_owned())
}

/// That of a clone. Only in a release: a development build would be linked anew after every commit.
fn cloned() -> Option<String> {
    if env::var("PROFILE").as_deref() != Ok("release") {
        return Some("development build".to_owned());
    }
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
        String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
    };
    // HEAD changes when another branch is checked out, and its log with each commit.
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "HEAD"])?;
    let changed = !git(&["status", "--porcelain", "--untracked-files=no"])?.is_empty();
    Some(if changed { format!("{commit}, with changes") } else { commit })
}
