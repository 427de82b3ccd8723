//! Runs the targets without a fuzzer: over inputs that once crashed, over the corpus, and over random inputs.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use scheduled_events_fuzz::TARGETS;

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

#[test]
fn inputs_that_once_crashed_pass() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (name, run) in TARGETS {
        for path in files(&root.join("regressions").join(name)) {
            println!("{}", path.display());
            run(&fs::read(path).unwrap());
        }
    }
}

/// `make coverage-fuzz` measures what of core these inputs reach.
#[test]
fn the_inputs_that_fuzzing_kept_pass() {
    for (name, run) in TARGETS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("corpora")
            .join(name)
            .with_extension("zip");
        let mut archive = zip::ZipArchive::new(fs::File::open(&path).unwrap()).unwrap();
        assert!(
            archive.len() > 10,
            "{} has only {} inputs",
            path.display(),
            archive.len()
        );
        for index in 0..archive.len() {
            let mut data = Vec::new();
            archive
                .by_index(index)
                .unwrap()
                .read_to_end(&mut data)
                .unwrap();
            run(&data);
        }
    }
}

#[test]
fn every_target_accepts_the_corpus() {
    let corpus = files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus"));
    assert!(
        corpus.len() > 100,
        "expected more than 100 files in tests/corpus"
    );
    for path in corpus {
        let data = fs::read(path).unwrap();
        for (_, run) in TARGETS {
            run(&data);
        }
    }
}

#[test]
fn every_target_accepts_random_bytes() {
    let rounds = std::env::var("ROUNDS").map_or(1_500, |rounds| rounds.parse().unwrap());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    // xorshift: the same inputs in every run.
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    for round in 0..rounds {
        let length = usize::try_from(random() % if round % 4 == 0 { 4_000 } else { 500 }).unwrap();
        let data: Vec<_> = (0..length).map(|_| random().to_le_bytes()[3]).collect();
        for (name, run) in TARGETS {
            let result = std::panic::catch_unwind(|| run(&data));
            if result.is_err() {
                let path = std::env::temp_dir().join(format!("crash-{name}-{round}"));
                fs::write(&path, &data).unwrap();
                panic!("{name} failed; the input is in {}", path.display());
            }
        }
    }
}

#[test]
fn the_list_of_targets_matches_the_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let names: Vec<_> = files(&folder)
        .iter()
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut known: Vec<_> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    known.sort();
    assert_eq!(names, known);
}
