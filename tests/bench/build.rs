//! Builds the readers over C and C++ parsers, as far as those are installed.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=c");
    println!("cargo::rustc-check-cfg=cfg(have_cjson, have_simdjson)");

    let packages = packages();
    for package in &packages {
        println!(
            "cargo::rustc-env=VERSION_{}={}",
            package.name, package.version
        );
    }
    let yyjson = packages
        .iter()
        .find(|package| package.name == "yyjson-sys")
        .expect("it is a dependency");

    // yyjson's functions come with its crate; its header is wanted too, so that C reads with what is inlined there.
    let header = yyjson.folder.join("yyjson/src/yyjson.h");
    println!(
        "cargo::rustc-env=VERSION_yyjson={}",
        defined(&header, "YYJSON_VERSION_STRING")
    );
    c().include(header.parent().expect("a folder"))
        .file("c/read_yyjson.c")
        .compile("read_yyjson");

    if let Some(header) = installed("cjson/cJSON.h") {
        println!("cargo::rustc-cfg=have_cjson");
        let number = |part| defined(&header, &format!("CJSON_VERSION_{part}"));
        println!(
            "cargo::rustc-env=VERSION_cjson={}.{}.{}",
            number("MAJOR"),
            number("MINOR"),
            number("PATCH")
        );
        c().file("c/read_cjson.c").compile("read_cjson");
        println!("cargo::rustc-link-lib=cjson");
    }
    if let Some(header) = installed("simdjson.h") {
        println!("cargo::rustc-cfg=have_simdjson");
        println!(
            "cargo::rustc-env=VERSION_simdjson={}",
            defined(&header, "SIMDJSON_VERSION")
        );
        // Its on-demand interface takes its instructions from the compiler's flags, so it gets what this machine has.
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++17")
            .flag("-march=native")
            .define("NDEBUG", None)
            .file("c/read_simdjson.cc");
        build.compile("read_simdjson");
        println!("cargo::rustc-link-lib=simdjson");
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

/// Passes the first line of a compiler's `--version` to the program.
fn export_version(variable: &str, compiler: &str) {
    let output = Command::new(compiler)
        .arg("--version")
        .output()
        .expect("the compiler runs");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    println!(
        "cargo::rustc-env={variable}={}",
        version.lines().next().unwrap_or("unknown")
    );
}
