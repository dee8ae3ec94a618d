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
    let (commit, rest) = rest.split_once('"')?;
    Some(named(commit, rest.contains("\"dirty\": true")))
}

/// That of a clone. Only in a release: a development build would be linked anew after every commit.
fn cloned() -> Option<String> {
    if env::var("PROFILE").as_deref() != Ok("release") {
        return Some("development build".to_owned());
    }
    // Sources within the repository of another project have none.
    let root = fs::canonicalize("..").ok()?;
    let top = git(&["rev-parse", "--show-toplevel"])?;
    (Path::new(&top) == root).then_some(())?;
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    // HEAD changes when another branch is checked out, and its log with each commit.
    let of_git = ["HEAD", "logs/HEAD"].map(|name| git(&["rev-parse", "--git-path", name]));
    let of_sources =
        ["../src", "../Cargo.toml", "../Cargo.lock", "src", "Cargo.toml"].map(|path| Some(path.to_owned()));
    for path in of_git.into_iter().chain(of_sources).flatten() {
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let commit = git(&["rev-parse", "HEAD"])?;
    let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
    Some(named(&commit, !changes.is_empty()))
}

fn named(commit: &str, is_changed: bool) -> String {
    if is_changed { format!("{commit}, with uncommitted changes") } else { commit.to_owned() }
}

fn git(arguments: &[&str]) -> Option<String> {
    let mut command = Command::new("git");
    let output = command.args(arguments).env_remove("GIT_DIR").output().ok()?;
    let text = output.status.success().then_some(output.stdout)?;
    String::from_utf8(text).ok().map(|text| text.trim().to_owned())
}
