//! Damage: messages lead to a remedy.

use std::fs;

use crate::program::Flow;

/// After qdrant#4763 and chroma#2922: a folder that contained an index is not mistaken for one that never
/// did.
#[test]
fn an_index_without_its_manifests_is_damaged_and_not_elsewhere() {
    for gone in [&["models/1/MANIFEST", "models/1/MANIFEST.copy"][..], &["models/1"]] {
        let flow = Flow::new();
        flow.insert(3);
        for name in gone {
            let path = flow.path("index").join(name);
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        for command in ["search", "verify", "repair"] {
            let question: &[&str] = if command == "search" { &["tree"] } else { &[] };
            let said = flow.run(command, question).failure();
            assert!(said.contains("MANIFEST") && !said.contains("is not an index"), "{command}: {said}");
        }
        let said = flow.run("repair", &[]).failure();
        assert!(said.contains("restore the index from a backup"), "{said}");
    }
}

/// The reference of `health` is part of the index: its damage is named and repaired.
#[test]
fn a_damaged_report_of_the_training_is_set_aside() {
    let flow = Flow::new();
    flow.insert(3);
    let report = flow.path("index").join("models/1/model/training.json");
    fs::write(report, "x").unwrap();
    let said = flow.run("verify", &[]);
    assert!(said.code == Some(1) && said.out.contains("training.json"), "{}", said.out);
    assert!(flow.run("health", &[]).out.contains("damaged: 1 problem;"));
    assert!(flow.run("repair", &[]).ok().contains("set aside: "));
    flow.run("repair", &["--forget"]).ok();
    assert!(flow.run("verify", &[]).ok().contains("sound"));
    assert!(flow.run("health", &[]).ok().contains("no reference is known"));
}

/// After weaviate#5241: undeleted documents that a repair drops are named as lost.
#[test]
fn a_repair_that_drops_documents_says_so() {
    let flow = Flow::new();
    flow.insert(4);
    let ids = flow.run("ids", &[]).ok();
    flow.run("delete", &[ids.lines().next().unwrap()]).ok();
    let segments = flow.path("index").join("models/1/segments");
    let dead = fs::read_dir(segments).unwrap().map(|entry| entry.unwrap().path());
    let dead: Vec<_> = dead.filter(|path| path.extension().is_some_and(|of| of == "dead")).collect();
    assert!(!dead.is_empty());
    dead.iter().for_each(|path| fs::remove_file(path).unwrap());
    let refused = flow.run("repair", &[]);
    assert_eq!(refused.code, Some(1));
    let refused = refused.err;
    assert!(refused.contains("1 of 4 documents") && refused.contains("--undecided keep"), "{refused}");
    let ran = flow.run("repair", &["--undecided", "drop"]);
    assert_eq!(ran.code, Some(3), "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("LOST: 4 documents dropped, though only some had been deleted"), "{}", ran.out);
}
