//! The files of an index, according to `docs/format.md`.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use serde_json::Value;

/// `CURRENT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Current {
    pub serving: u32,
    pub kept: u32,
    pub unfinished: u32,
}

impl Current {
    pub fn read(index: &Path) -> io::Result<Self> {
        let bytes = fs::read(index.join("CURRENT"))?;
        let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        Ok(Self { serving: number(12), kept: number(16), unfinished: number(20) })
    }
}

/// Unknown files and directories of an index, relative to it.
pub fn strange(index: &Path) -> io::Result<Vec<String>> {
    let mut strange = Vec::new();
    let current = Current::read(index)?;
    let models = [current.serving, current.kept].map(|number| number.to_string());
    for name in names(index)? {
        match name.as_str() {
            "LOCK" | "CURRENT" | "CURRENT.copy" | "QUESTIONS" | "QUESTIONS.old" => {}
            "judgments" => store(index, &name, false, &mut strange)?,
            "models" => {
                for number in names(&index.join(&name))? {
                    let own = format!("{name}/{number}");
                    if models.contains(&number) {
                        store(index, &own, true, &mut strange)?;
                    } else if number != current.unfinished.to_string() {
                        strange.push(own);
                    }
                }
            }
            _ => strange.push(name),
        }
    }
    Ok(strange)
}

/// Unknown files in the directory of a store.
fn store(index: &Path, dir: &str, has_bundle: bool, strange: &mut Vec<String>) -> io::Result<()> {
    let path = index.join(dir);
    for name in names(&path)? {
        let own = format!("{dir}/{name}");
        match name.as_str() {
            "LOCK" | "MANIFEST" | "MANIFEST.copy" | "RESERVE" => {}
            "MEASURED" | "MEMORY" if has_bundle => {}
            "model" if has_bundle => {
                let known = of_bundle(&path.join(&name))?;
                let files = below(&path.join(&name), "")?;
                let others = files.into_iter().filter(|file| !known.contains(file));
                strange.extend(others.map(|file| format!("{own}/{file}")));
            }
            "log" => {
                let logs = names(&path.join(&name))?;
                let others = logs.into_iter().filter(|name| !is_numbered(name, ".log"));
                strange.extend(others.map(|file| format!("{own}/{file}")));
            }
            "segments" => {
                let known = of_manifest(&path.join("MANIFEST"))?;
                let files = names(&path.join(&name))?;
                let others = files.into_iter().filter(|file| !known.contains(file));
                strange.extend(others.map(|file| format!("{own}/{file}")));
            }
            _ => strange.push(own),
        }
    }
    Ok(())
}

/// Files named by a bundle's manifest, and the files next to it.
fn of_bundle(dir: &Path) -> io::Result<HashSet<String>> {
    let manifest: Value = serde_json::from_slice(&fs::read(dir.join("ehi.json"))?)?;
    let files = manifest["files"].as_object().into_iter().flatten().map(|(name, _)| name.clone());
    let fast = manifest["query_encoder"]["file"].as_str().map(str::to_owned);
    let beside = ["ehi.json", "training.json"].map(str::to_owned);
    Ok(files.chain(fast).chain(beside).collect())
}

/// Files of the segments named by a manifest.
fn of_manifest(path: &Path) -> io::Result<HashSet<String>> {
    let bytes = fs::read(path)?;
    let mut named = HashSet::new();
    for entry in bytes[128..].chunks_exact(64) {
        let number = |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().unwrap());
        let dead = u32::from_le_bytes(entry[12..16].try_into().unwrap());
        let segment = number(0);
        named.extend(["vectors", "documents"].map(|kind| format!("{segment:08}.{kind}")));
        if dead > 0 {
            named.insert(format!("{segment:08}.{:016}.dead", number(40)));
        }
    }
    Ok(named)
}

fn is_numbered(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Names in a directory, sorted.
pub fn names(dir: &Path) -> io::Result<Vec<String>> {
    let entries = fs::read_dir(dir)?;
    let mut names =
        entries.map(|entry| Ok(entry?.file_name().into_string().unwrap())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Files in a directory and those below it, relative to it.
fn below(dir: &Path, prefix: &str) -> io::Result<Vec<String>> {
    let mut files = Vec::new();
    for name in names(dir)? {
        let path = dir.join(&name);
        if path.is_dir() {
            files.extend(below(&path, &format!("{prefix}{name}/"))?);
        } else {
            files.push(format!("{prefix}{name}"));
        }
    }
    Ok(files)
}

/// Size of all files of an index except those that only reserve space.
pub fn bytes(index: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for file in below(index, "")? {
        if !file.ends_with("RESERVE") && !file.contains("/log/") {
            bytes += fs::metadata(index.join(file))?.len();
        }
    }
    Ok(bytes)
}
