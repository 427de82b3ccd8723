"""Builds the library as each package manager does, and a program with the result."""

import json
import os
import re
import shlex
import shutil

from toolbox import HERE, ROOT, TARGET, WARNINGS, WORK, expect, run

PACKAGING = ROOT / "packaging"
PROGRAM = PACKAGING / "conan/test_package/program.c"
# All of them use the build of the other checks.
ENV = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "CARGO_NET_OFFLINE": "true"}


def program_finds(prefix, folder):
    """A CMake project finds the library installed in `prefix`, and its program runs."""
    project = folder / "project"
    project.mkdir()
    shutil.copy(PACKAGING / "conan/test_package/CMakeLists.txt", project)
    shutil.copy(PROGRAM, project)
    run("cmake", "-S", project, "-B", project / "b", f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", project / "b")
    run(project / "b/program")


def moved(prefix):
    """An installation that was moved, as a package manager does, works through pkg-config and CMake."""
    there = WORK / "moved/elsewhere"
    shutil.copytree(prefix, there, symlinks=True)
    for flags in ([], ["--define-prefix"]):
        env = {**os.environ, "PKG_CONFIG_PATH": str(there / "lib/pkgconfig")}
        found = shlex.split(run("pkg-config", *flags, "--cflags", "--libs", "scheduled_events", env=env))
        expect(str(prefix) + "/" not in " ".join(found), f"pkg-config {flags} gives the former prefix: {found}")
        out = WORK / "moved/program"
        run("gcc", *WARNINGS, PROGRAM, "-o", out, *found, f"-Wl,-rpath,{there}/lib")
        run(out)
    program_finds(there, WORK / "moved")


def loader(prefix):
    """An installation that the loader does not find says so."""
    printed = run(ROOT / "ffi-c/install.sh", prefix, cwd=ROOT)
    expect(f"the loader does not find the library in {prefix}/lib" in printed, printed)


def private_libraries():
    """Each build description names the libraries that rustc names."""
    text = (ROOT / "ffi-c/install.sh").read_text()
    names = re.findall(r"-l(\w+)", re.search(r"^private='(.*)'$", text, re.M)[1])
    for path, wanted in (("CMakeLists.txt", f'"{";".join(names)}"'),
                         ("meson.build", ", ".join(f"'-l{name}'" for name in names)),
                         ("packaging/conan/conanfile.py", f"PRIVATE = {json.dumps(names)}")):
        expect(wanted in (ROOT / path).read_text(), f"{path} does not name the libraries of ffi-c/install.sh: {wanted}")
    version = re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M)[1]
    expect(f"version: '{version}'" in (ROOT / "meson.build").read_text(), f"meson.build is not version {version}")


def cmake_source_tree():
    """FetchContent and add_subdirectory build the library from the source tree."""
    for kind, lines in (("fetch", f'include(FetchContent)\nFetchContent_Declare(scheduled_events SOURCE_DIR "{ROOT}")\n'
                                  "FetchContent_MakeAvailable(scheduled_events)\n"),
                        ("add", f'add_subdirectory("{ROOT}" scheduled_events)\n')):
        project = WORK / f"cmake-{kind}"
        shutil.copytree(HERE / "package", project)
        listing = project / "CMakeLists.txt"
        listing.write_text(re.sub(r"find_package\(.*\)\n", lambda _: lines, listing.read_text()))
        run("cmake", "-S", project, "-B", project / "b", env=ENV)
        run("cmake", "--build", project / "b", env=ENV)
        for name in ("c_shared", "c_static", "cxx_shared", "cxx_static"):
            run(project / "b" / name)


def cmake_install():
    """CMake configures, builds and installs the tree."""
    folder = WORK / "cmake-install"
    folder.mkdir()
    run("cmake", "-S", ROOT, "-B", folder / "b", f"-DCMAKE_INSTALL_PREFIX={folder}/prefix", "-DCMAKE_INSTALL_LIBDIR=lib", env=ENV)
    run("cmake", "--build", folder / "b", env=ENV)
    run("cmake", "--install", folder / "b", env=ENV)
    program_finds(folder / "prefix", folder)


def meson_subproject():
    """A Meson project with the tree as a subproject."""
    project = WORK / "meson"
    (project / "subprojects").mkdir(parents=True)
    (project / "subprojects/scheduled_events").symlink_to(ROOT)
    wrap = (PACKAGING / "meson/scheduled_events.wrap").read_text()
    # The wrap as it is, but for where the source comes from: the folder above.
    (project / "subprojects/scheduled_events.wrap").write_text(
        "[wrap-file]\ndirectory = scheduled_events\n" + wrap[wrap.index("[provide]"):])
    shutil.copy(PROGRAM, project)
    (project / "meson.build").write_text("project('program', 'c')\nexecutable('program', 'program.c', "
                                         "dependencies: dependency('scheduled_events', version: '>=0.1'))\n")
    run("meson", "setup", "--wrap-mode=nodownload", project / "b", project, env=ENV)
    run("meson", "compile", "-C", project / "b", env=ENV)
    run(project / "b/program")


def conan():
    """`conan create` builds the package, both ways, and a program with each."""
    venv = TARGET / "python/conan"
    if not (venv / "bin/conan").exists():
        run("python3", "-m", "venv", venv)
        run(venv / "bin/pip", "install", "--quiet", "conan>=2,<3")
    env = {**ENV, "CONAN_HOME": str(WORK / "conan")}
    run(venv / "bin/conan", "profile", "detect", env=env)
    test = shutil.copytree(PACKAGING / "conan/test_package", WORK / "conan-test")
    for shared in (False, True):
        out = run(venv / "bin/conan", "create", PACKAGING / "conan", "-o", f"scheduled-events/*:shared={shared}",
                  "--no-remote", "--test-folder", test, env=env)
        expect(re.search(r"^scheduled_events \d", out, re.M), out[-2000:])


def check(prefix):
    private_libraries()
    loader(prefix)
    moved(prefix)
    cmake_source_tree()
    cmake_install()
    meson_subproject()
    conan()
    return "moved prefix, FetchContent, add_subdirectory, cmake --install, Meson, Conan"
