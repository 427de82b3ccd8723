//! Builds the readers over C and C++ parsers. The sources of yyjson and simdjson are those of their crates; cJSON is used if it is
//! installed.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rustc-check-cfg=cfg(have_cjson)");

    let packages = packages();
    for package in &packages {
        export(&format!("VERSION_{}", package.name), &package.version);
    }
    let folder = |crate_name, folder| {
        let package = packages.iter().find(|package| package.name == crate_name);
        package.expect("it is a dependency").folder.join(folder)
    };
    let yyjson = folder("yyjson-sys", "yyjson/src");
    export(
        "VERSION_yyjson",
        &defined(&yyjson.join("yyjson.h"), "YYJSON_VERSION_STRING"),
    );
    c().include(&yyjson)
        .file(yyjson.join("yyjson.c"))
        .file("c/read_yyjson.c")
        .compile("read_yyjson");

    // Its on-demand interface takes its instructions from the compiler's flags, so it gets what this machine has.
    let simdjson = folder("simdjson-sys", "vendor/simdjson");
    export(
        "VERSION_simdjson",
        &defined(&simdjson.join("simdjson.h"), "SIMDJSON_VERSION"),
    );
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .flag("-march=native")
        .define("NDEBUG", None)
        .include(&simdjson)
        .file(simdjson.join("simdjson.cpp"))
        .file("c/read_simdjson.cc")
        .compile("read_simdjson");

    if let Some(header) = installed("cjson/cJSON.h") {
        println!("cargo::rustc-cfg=have_cjson");
        let number = |part| defined(&header, &format!("CJSON_VERSION_{part}"));
        let version = ["MAJOR", "MINOR", "PATCH"].map(number).join(".");
        export("VERSION_cjson", &version);
        c().file("c/read_cjson.c").compile("read_cjson");
        println!("cargo::rustc-link-lib=cjson");
    }
    export_version(
        "BENCH_RUSTC",
        &std::env::var("RUSTC").expect("cargo sets it"),
    );
    export_version("BENCH_CC", &c().get_compiler().path().display().to_string());
}

fn c() -> cc::Build {
    let mut build = cc::Build::new();
    build
        .flag_if_supported("-std=c11")
        .warnings(true)
        .extra_warnings(true);
    build
}

/// Where the system has this header.
fn installed(name: &str) -> Option<PathBuf> {
    ["/usr/include", "/usr/local/include"]
        .iter()
        .map(|folder| Path::new(folder).join(name))
        .find(|path| path.exists())
}

/// What a header defines a macro to be, quotes taken off.
fn defined(header: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(header).expect("the header can be read");
    let words = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let value = words.into_iter().find_map(|words| match words[..] {
        ["#define", word, value, ..] if word == name => Some(value.trim_matches('"').to_owned()),
        _ => None,
    });
    value.unwrap_or_else(|| "unknown".to_owned())
}

struct Package {
    name: String,
    version: String,
    folder: PathBuf,
}

/// The packages of the lock file, and where cargo unpacked them.
fn packages() -> Vec<Package> {
    let cargo = std::env::var("CARGO").expect("cargo sets it");
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--locked"])
        .output()
        .expect("cargo runs");
    let graph: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let text = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let packages = graph["packages"]
        .as_array()
        .expect("there are packages")
        .iter();
    packages
        .map(|package| {
            let manifest = PathBuf::from(text(&package["manifest_path"]));
            let folder = manifest
                .parent()
                .expect("a manifest is in a folder")
                .to_owned();
            Package {
                name: text(&package["name"]),
                version: text(&package["version"]),
                folder,
            }
        })
        .collect()
}

/// Passes a text to the program.
fn export(variable: &str, text: &str) {
    println!("cargo::rustc-env={variable}={text}");
}

/// Passes the first line of a compiler's `--version` to the program.
fn export_version(variable: &str, compiler: &str) {
    let output = Command::new(compiler)
        .arg("--version")
        .output()
        .expect("the compiler runs");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    export(variable, version.lines().next().unwrap_or("unknown"));
}
