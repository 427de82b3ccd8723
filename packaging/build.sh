#!/usr/bin/env bash
# Builds what users install, into target/packages: packaging/build.sh [PART...]; without a part, all of them.
#
#   deb              the command for this machine's processor, as a .deb only: the quickest way
#   x86_64 aarch64   the command as a static program for this processor: .tar.gz, .deb and .rpm
#   fleet-x86_64 fleet-aarch64   the same of scheduled-events-fleet
#   hub-x86_64 hub-aarch64       the same of scheduled-events-hub
#   c-library        libscheduled-events and its -dev package for this machine's processor: .deb
#   wheel            the Python wheel for this machine's processor, and the source distribution
#   wheel-aarch64    the wheel for glibc and ARM64
#   wheel-x86_64-musl wheel-aarch64-musl   the wheel for musl and the named processor
#   wheel-macos      one wheel for macOS, ARM64 and x86-64
#   wheels           the wheels for glibc and musl, x86-64 and ARM64, and for macOS, and the source distribution
#   windows          the command for Windows, x86-64 and ARM64: .zip; the Python wheel for Windows, x86-64
#   source           the source tree, from which the C library is built
#   chart            the Helm chart, after helm's lint: .tgz
#   images           the images of the command and of the fleet for this machine's processor, of the archives: OCI archives
#   crates           a trial of `make publish-crates`, which builds each crate from its own archive and uploads none
#   sbom             lists of what the programs, the C library and the wheel contain, as CycloneDX
#   repository       signed apt and rpm repositories of what was built, in REPOSITORY or target/repository: packaging/repository
#   sums             SHA256SUMS of all files; always done last
#
# What this machine cannot build says so, and the last line counts it: no helm, no buildah, no registry. With AUDITABLE=1, as in a release,
# that is a failure.
#
# The same source gives the same bytes, in whatever folder it is built. With AUDITABLE=1, as in a release, the programs also contain the list of
# their crates, which `cargo audit bin` reads. SOURCE_DATE_EPOCH is the time in the files; without
# it, the time of the last commit. MAINTAINER is the name and address in the .deb. For tests, DEB_VERSION builds only the .deb,
# with that version, and PACKAGES is the folder that is written to.
set -euo pipefail
export LC_ALL=C.UTF-8 TZ=UTC
umask 022
cd "$(dirname "$0")/.."
root=$PWD
out=$(realpath -m "${PACKAGES:-target/packages}")
stage=$root/target/package-stage # cli/Cargo.toml names it
work=$root/target/package-work
export PATH=$root/target/tools/bin:$PATH
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$root/target}
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
maintainer=${MAINTAINER:-The scheduled-events authors <scheduled-events@localhost>}
version=$(sed -n '/^version = "\(.*\)"$/ { s//\1/p; q }' Cargo.toml)

log() { printf -- '--- %3ds  %s\n' "$SECONDS" "$*"; }
# not_built WHAT REASON: it is no success, and the last line counts it.
omitted=0
not_built() {
    omitted=$((omitted + 1))
    echo "  NOT BUILT $1: $2"
}

# The compiler's arguments for a build whose bytes depend on the source only. More arguments are added.
flags() {
    local all
    printf -v all '%s\x1f' "--remap-path-prefix=$root=/scheduled-events" \
        "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/crates" "$@"
    printf '%s' "${all%$'\x1f'}"
}

# archive NAME FOLDER: NAME.tar.gz with the contents of FOLDER in a folder NAME.
archive() {
    tar --create --directory "$2" --transform "s,^\.,$1," --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
        --owner=0 --group=0 --numeric-owner --mode='u+rw,go=rX' . | gzip --no-name --best >"$out/$1.tar.gz"
}

build=(cargo build)
[[ -z ${AUDITABLE-} ]] || build=(cargo auditable build)

# The command for a processor, linked with the linker and the C library that come with Rust.
compile() { # PROCESSOR
    CARGO_ENCODED_RUSTFLAGS=$(flags -Clinker=rust-lld -Clink-self-contained=yes) \
        "${build[@]}" --quiet --locked --profile command --package scheduled-events-cli --target "$1-unknown-linux-musl"
}

program() { # PROCESSOR
    log "the command for $1"
    compile "$1"
    lay_out "$1"
    log ".deb for $1"
    cargo-deb --quiet --package scheduled-events-cli --target "$1-unknown-linux-musl" --no-build --no-strip --maintainer "$maintainer" \
        ${DEB_VERSION:+--deb-version "$DEB_VERSION"} --output "$out/" >"$work/cargo-deb"
    [[ -z ${DEB_VERSION-}${only_deb-} ]] || return 0
    log ".rpm and .tar.gz for $1"
    cargo-generate-rpm --package cli --target "$1-unknown-linux-musl" --source-date "$SOURCE_DATE_EPOCH" \
        --payload-compress gzip --output "$out/"
    local name=scheduled-events-$version-linux-$1
    rm -rf "$work/archive"
    mkdir -p "$work/archive"
    cp -r "$stage"/{bin,watch.toml,policy.toml,systemd,man,completions,doc,examples} LICENSE-* CHANGELOG.md packaging/container/Containerfile \
        "$work/archive/"
    mkdir "$work/archive/state" # for the Containerfile
    archive "$name" "$work/archive"
}

# What is installed beside the command, for .tar.gz, .deb and .rpm.
lay_out() { # PROCESSOR
    rm -rf "$stage"
    mkdir -p "$stage"/{bin,run,systemd,sysusers,man,completions,doc,examples,licenses}
    cp "$CARGO_TARGET_DIR/$1-unknown-linux-musl/command/scheduled-events" "$stage/bin/"
    # The texts are the same for all processors; this machine runs its own program.
    local run name
    [[ $1 == "$(uname -m)" ]] || compile "$(uname -m)"
    run=$CARGO_TARGET_DIR/$(uname -m)-unknown-linux-musl/command/scheduled-events
    "$run" man >"$stage/man/scheduled-events.1"
    for name in $("$run" --help | sed -n '/^Commands:/,/^$/ s/^  \([a-z][a-z-]*\) .*/\1/p'); do
        [[ $name == help ]] || "$run" man "$name" >"$stage/man/scheduled-events-$name.1"
    done
    "$run" completions bash >"$stage/completions/scheduled-events.bash"
    "$run" completions zsh >"$stage/completions/_scheduled-events"
    "$run" completions fish >"$stage/completions/scheduled-events.fish"

    # The units as in the source, with the paths of a package, and without the lines on how to copy them.
    for name in scheduled-events.service scheduled-events-run@.service; do
        sed -e 's|/usr/local/bin/|/usr/bin/|g' -e '/^#   install /d' "cli/systemd/$name" >"$stage/systemd/$name"
    done
    for name in drain.toml root.conf scheduled-events.rules scheduled-events.pkla; do
        sed 's|/usr/local/bin/|/usr/bin/|g' "cli/systemd/$name" >"$stage/examples/$name"
    done
    # What the guide's pages name.
    packaging/docs.py examples | xargs cp -r --target-directory="$stage/examples"
    cp packaging/system/watch.toml packaging/system/policy.toml "$stage/" # the policy is the container's
    cp packaging/system/run-README "$stage/run/README"
    cp packaging/system/sysusers.conf "$stage/sysusers/scheduled-events.conf"
    packaging/docs.py write "$stage/doc"
    packaging/licenses.py scheduled-events-cli "$1-unknown-linux-musl" >"$stage/doc/THIRD-PARTY"
    cp LICENSE-* "$stage/licenses/"
    cp CHANGELOG.md "$stage/"
    debian_texts scheduled-events "$stage"
    # Some tools set only times that are later than this one.
    find "$stage" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
}

# The pages of the guide that the packages of these programs have.
declare -A pages=([fleet]="fleet kubernetes notifications" [hub]=outside) # of docs/run

# A program of `services`, built like the command: `fleet` or `hub`. Its TLS provider has C and assembly, which clang compiles
# for every processor.
compile_service() { # NAME PROCESSOR
    local triple=$2_unknown_linux_musl
    env "CC_$triple=clang" "AR_$triple=llvm-ar" \
        CARGO_ENCODED_RUSTFLAGS="$(flags -Clinker=rust-lld -Clink-self-contained=yes)" \
        "${build[@]}" --quiet --locked --profile service --package "scheduled-events-$1" --target "$2-unknown-linux-musl"
}

service() { # NAME PROCESSOR
    local folder=$root/target/$1-package-stage # Cargo.toml of the program names it
    log "scheduled-events-$1 for $2"
    compile_service "$1" "$2"
    lay_out_service "$1" "$2" "$folder"
    log ".deb, .rpm and .tar.gz for $2"
    cargo-deb --quiet --package "scheduled-events-$1" --profile service --target "$2-unknown-linux-musl" --no-build --no-strip \
        --maintainer "$maintainer" --output "$out/" >"$work/cargo-deb"
    cargo-generate-rpm --package "services/$1" --target "$2-unknown-linux-musl" --source-date "$SOURCE_DATE_EPOCH" \
        --payload-compress gzip --output "$out/"
    rm -rf "$work/archive"
    mkdir -p "$work/archive"
    cp -r "$folder"/{bin,"$1.toml",systemd,man,doc,examples} LICENSE-* CHANGELOG.md "packaging/container/$1/Containerfile" "$work/archive/"
    [[ $1 == fleet ]] || mkdir "$work/archive/state" # for the Containerfile; the fleet's image has the command's
    archive "scheduled-events-$1-$version-linux-$2" "$work/archive"
}

lay_out_service() { # NAME PROCESSOR FOLDER
    local program=scheduled-events-$1 file
    rm -rf "$3"
    mkdir -p "$3"/{bin,systemd,sysusers,man,doc,examples,licenses}
    cp "$CARGO_TARGET_DIR/$2-unknown-linux-musl/service/$program" "$3/bin/"
    [[ $2 == "$(uname -m)" ]] || compile_service "$1" "$(uname -m)"
    "$CARGO_TARGET_DIR/$(uname -m)-unknown-linux-musl/service/$program" man >"$3/man/$program.1"
    for file in services/"$1"/systemd/*.{service,socket}; do
        [[ ! -e $file ]] || sed -e 's|/usr/local/bin/|/usr/bin/|g' -e '/^#   install /d' "$file" >"$3/systemd/$(basename "$file")"
    done
    for file in services/"$1"/systemd/*.conf; do
        sed 's|/usr/local/bin/|/usr/bin/|g' "$file" >"$3/examples/$(basename "$file")"
    done
    cp "packaging/system/$1.toml" "$3/"
    cp "packaging/system/$1-sysusers.conf" "$3/sysusers/$program.conf"
    # shellcheck disable=SC2086 # words
    packaging/docs.py write "$3/doc" ${pages[$1]}
    packaging/licenses.py "$program" "$2-unknown-linux-musl" >"$3/doc/THIRD-PARTY"
    cp LICENSE-* "$3/licenses/"
    cp CHANGELOG.md "$3/"
    debian_texts "$program" "$3"
    find "$3" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
}

# The copyright and the changelog of a package in Debian's formats.
debian_texts() { # PACKAGE FOLDER
    {
        printf '%s\n' 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/' \
            'Upstream-Name: scheduled-events' '' 'Files: *' 'Copyright: 2026 The scheduled-events authors' \
            'License: MIT or Apache-2.0'
        [[ $1 == libscheduled-events* ]] || printf '%s\n' 'Comment: THIRD-PARTY beside this file has the licences of the libraries' \
            ' that the program contains.'
        printf '%s\n' '' 'License: MIT'
        printf ' %s\n .\n' 'Copyright (c) 2026 The scheduled-events authors'
        sed -n '/^Permission/,$ { s/^$/./; s/^/ /; p }' LICENSE-MIT
        printf '%s\n' '' 'License: Apache-2.0' ' On Debian systems, /usr/share/common-licenses/Apache-2.0 has the text of this' \
            ' license.'
    } >"$2/copyright"
    {
        printf '%s (%s) unstable; urgency=medium\n\n  * Release %s of scheduled-events.\n\n' \
            "$1" "${DEB_VERSION:-$version-1}" "$version"
        printf ' -- %s  %s\n' "$maintainer" "$(date -Rud "@$SOURCE_DATE_EPOCH")"
    } >"$2/changelog.Debian"
}

# libscheduled-events0.1 and libscheduled-events-dev, for this machine's processor. The number is the library's soname.
c_library() {
    log "the C library"
    local folder=$work/c-library abi processor triple library depends name
    processor=$(dpkg --print-architecture)
    triple=$(dpkg-architecture --query DEB_HOST_MULTIARCH)
    rm -rf "$folder"
    mkdir -p "$folder/debian"
    DESTDIR=$folder/dev ffi-c/install.sh /usr "/usr/lib/$triple"
    library=$(basename "$folder/dev/usr/lib/$triple"/libscheduled_events.so.*.*.*)
    abi=$(readelf -d "$folder/dev/usr/lib/$triple/$library" | sed -n 's/.*soname: \[libscheduled_events\.so\.\(.*\)\].*/\1/p')
    name=libscheduled-events$abi
    mkdir -p "$folder/lib/usr/lib/$triple" "$folder"/{lib,dev}/DEBIAN
    chmod 644 "$folder/dev/usr/lib/$triple/$library"
    mv "$folder/dev/usr/lib/$triple/$library" "$folder/dev/usr/lib/$triple/libscheduled_events.so.$abi" "$folder/lib/usr/lib/$triple/"
    strip --strip-debug --enable-deterministic-archives "$folder/dev/usr/lib/$triple/libscheduled_events.a"

    printf 'Source: scheduled-events\n\nPackage: %s\nArchitecture: any\n' "$name" >"$folder/debian/control"
    depends=$(cd "$folder" && dpkg-shlibdeps -O "lib/usr/lib/$triple/$library" | sed -n 's/^shlibs:Depends=//p')
    (cd "$folder" && dpkg-gensymbols -q -c1 -Plib "-p$name" "-v$version" "-I$root/packaging/deb/$name.symbols" -Olib/DEBIAN/symbols)
    echo "libscheduled_events $abi $name (>= $version)" >"$folder/lib/DEBIAN/shlibs"
    echo 'activate-noawait ldconfig' >"$folder/lib/DEBIAN/triggers"
    debian "$folder/lib" "$name" "$processor" libs "$depends" 'read and follow Azure Scheduled Events' \
        "The shared library. It allocates no memory and does no input or output."
    debian "$folder/dev" libscheduled-events-dev "$processor" libdevel "$name (= $version-1)" \
        'read and follow Azure Scheduled Events (development files)' \
        $'The headers for C and C++17, the static library, and files for\n pkg-config and CMake.'
}

# debian FOLDER NAME PROCESSOR SECTION DEPENDS SUMMARY DESCRIPTION: a .deb of the folder.
debian() {
    local doc=$1/usr/share/doc/$2
    mkdir -p "$doc"
    debian_texts "$2" "$doc"
    gzip --no-name --best "$doc/changelog.Debian"
    (cd "$1" && find usr -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
    printf '%s: %s\n' Package "$2" Version "$version-1" Architecture "$3" Multi-Arch same Section "$4" Priority optional \
        Maintainer "$maintainer" Installed-Size "$(du -sk --apparent-size "$1/usr" | cut -f 1)" Depends "$5" \
        Source scheduled-events Description "$6" >"$1/DEBIAN/control"
    printf ' %s\n' "$7" >>"$1/DEBIAN/control"
    chmod -R u+rwX,go=rX "$1"
    dpkg-deb --root-owner-group -Zxz --build "$1" "$out/$2_$version-1_$3.deb" >/dev/null
}

wheel() { # PROCESSOR LIBC PLATFORM
    log "the wheel for $3 $1"
    local flags=()
    [[ $2 != musl ]] || flags=(-Ctarget-feature=-crt-static)
    # Zig links for glibc 2.17, whatever this machine has.
    CARGO_ENCODED_RUSTFLAGS=$(flags ${flags[@]+"${flags[@]}"}) "$work/venv/bin/maturin" build --quiet --locked --zig --manifest-path py/Cargo.toml \
        --target "$1-unknown-linux-$2" --compatibility "$3" --out "$out"
}

# Zig has what of macOS its linker needs.
wheel_macos() {
    log "the wheel for macOS"
    CARGO_ENCODED_RUSTFLAGS=$(flags) "$work/venv/bin/maturin" build --quiet --locked --zig --manifest-path py/Cargo.toml \
        --target universal2-apple-darwin --out "$out" 2>"$work/macos" || { cat "$work/macos"; return 1; }
}

sdist() {
    log "the Python source distribution"
    "$work/venv/bin/maturin" sdist --manifest-path py/Cargo.toml --out "$out"
    # What the package index would refuse, such as a description that it cannot show.
    "$work/venv/bin/twine" check --strict "$out"/scheduled_events-*
}

python_tools() {
    [[ -x $work/venv/bin/python ]] || python3 -m venv "$work/venv"
    "$work/venv/bin/pip" install --quiet --disable-pip-version-check 'maturin==1.16.0' 'ziglang==0.17.1' \
        'cargo-zigbuild==0.24.0' 'twine==7.0.0'
    export PATH=$work/venv/bin:$PATH
}

# mingw-w64 links for x86-64, as in `make test-windows`; it does not know ARM64, for which Zig links.
windows() {
    local target name=scheduled-events-$version-windows
    for target in x86_64-pc-windows-gnu aarch64-pc-windows-gnullvm; do
        log "the command for $target"
        local build=(cargo build)
        [[ $target != aarch64-* ]] || build=("$work/venv/bin/cargo-zigbuild" zigbuild)
        CARGO_ENCODED_RUSTFLAGS=$(flags) "${build[@]}" --quiet --locked --profile command --package scheduled-events-cli --target "$target"
        rm -rf "$work/archive"
        mkdir -p "$work/archive"
        cp "$CARGO_TARGET_DIR/$target/command/scheduled-events.exe" packaging/system/policy.toml LICENSE-* CHANGELOG.md \
            "$work/archive/"
        packaging/docs.py write "$work/archive" windows
        packaging/licenses.py scheduled-events-cli "$target" >"$work/archive/THIRD-PARTY"
        find "$work/archive" -exec touch --date="@$SOURCE_DATE_EPOCH" {} +
        (cd "$work/archive" && rm -f "$out/$name-${target%%-*}.zip" && zip --quiet -9 -X "$out/$name-${target%%-*}.zip" ./*)
    done
    log "the wheel for Windows"
    CARGO_ENCODED_RUSTFLAGS=$(flags) "$work/venv/bin/maturin" build --quiet --locked --manifest-path py/Cargo.toml \
        --target x86_64-pc-windows-gnu --out "$out"
}

# What git knows of the tree.
source_tree() {
    log "the source"
    rm -rf "$work/source"
    mkdir -p "$work/source"
    git ls-files -z | xargs -0 cp --parents --no-dereference --target-directory "$work/source"
    archive "scheduled-events-$version" "$work/source"
}

sbom() {
    log "the lists of contents"
    local member name
    rm -rf "$work/source"
    mkdir -p "$work/source"
    # The program writes beside each Cargo.toml.
    git ls-files -z | xargs -0 cp --parents --no-dereference --target-directory "$work/source"
    cargo-cyclonedx cyclonedx --quiet --format json --spec-version 1.5 --no-build-deps --target x86_64-unknown-linux-musl \
        --manifest-path "$work/source/cli/Cargo.toml"
    for member in cli ffi-c py services/fleet services/hub; do
        name=$(basename "$work/source/$member"/*.cdx.json .cdx.json)
        sed "s|file://$work/source/|file:///scheduled-events/|g" "$work/source/$member/$name.cdx.json" >"$out/${name%-cli}-$version.cdx.json"
    done
}

chart() {
    local helm
    log "the chart"
    helm=$(command -v helm || echo "$root/target/kubernetes-tools/helm")
    [[ -x $helm ]] || { not_built "the chart" "helm is not installed"; return; }
    "$helm" lint --strict --quiet packaging/kubernetes/chart
    "$helm" package --destination "$out" packaging/kubernetes/chart >/dev/null
}

# The hub's image is built on a base of its users: here, that it builds on the command's.
images() {
    local store name folder processor
    processor=$(uname -m)
    log "the images for $processor"
    command -v buildah >/dev/null || { not_built "the images" "buildah is not installed"; return; }
    [[ $(id -u) -eq 0 ]] || { not_built "the images" "buildah needs root here"; return; }
    for name in '' -fleet -hub; do
        [[ -e $out/scheduled-events$name-$version-linux-$processor.tar.gz ]] ||
            { not_built "the images" "the archive of scheduled-events$name is not built"; return; }
    done
    rm -rf "$work/images"
    mkdir -p "$work/images"
    store=(buildah --root "$work/images/store" --runroot "$work/images/run" --storage-driver vfs)
    for name in '' -fleet -hub; do
        folder=$work/images/folder$name
        mkdir -p "$folder"
        tar --extract --gzip --file "$out/scheduled-events$name-$version-linux-$processor.tar.gz" --directory "$folder" --strip-components 1
        "${store[@]}" build --quiet --isolation chroot --pull-never --timestamp "$SOURCE_DATE_EPOCH" ${name:+--build-arg BASE=localhost/scheduled-events} \
            --tag "scheduled-events$name" --file "$folder/Containerfile" "$folder" >/dev/null
        [[ $name == -hub ]] ||
            "${store[@]}" push --quiet "localhost/scheduled-events$name" "oci-archive:$out/scheduled-events$name-$version-$processor.oci.tar:$version"
    done
    rm -rf "$work/images"
}

crates() {
    log "the crates"
    # An answer of the registry about any crate shows that it is there.
    cargo info --quiet --registry crates-io clap >/dev/null 2>&1 || { not_built "the crates" "the registry of crates does not answer"; return; }
    make --no-print-directory publish-crates ARGS="--dry-run --quiet --allow-dirty"
}

sums() {
    (cd "$out" && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS)
}

if [[ $# -eq 0 ]]; then
    set -- x86_64 aarch64 fleet-x86_64 fleet-aarch64 hub-x86_64 hub-aarch64 c-library wheels windows source chart images crates sbom
    rm -rf "$out"
fi
mkdir -p "$out" "$work"
for part; do
    case $part in
    deb) only_deb=yes program "$(uname -m)" ;;
    x86_64 | aarch64) program "$part" ;;
    fleet-x86_64 | fleet-aarch64 | hub-x86_64 | hub-aarch64) service "${part%-*}" "${part#*-}" ;;
    c-library) c_library ;;
    wheel)
        python_tools
        wheel "$(uname -m)" gnu manylinux2014
        sdist
        ;;
    wheel-aarch64)
        python_tools
        wheel aarch64 gnu manylinux2014
        ;;
    wheel-x86_64-musl | wheel-aarch64-musl)
        python_tools
        part=${part#wheel-}
        wheel "${part%-musl}" musl musllinux_1_2
        ;;
    wheel-macos)
        python_tools
        wheel_macos
        ;;
    wheels)
        python_tools
        for processor in x86_64 aarch64; do
            wheel $processor gnu manylinux2014
            wheel $processor musl musllinux_1_2
        done
        wheel_macos
        sdist
        ;;
    windows)
        python_tools
        windows
        ;;
    source) source_tree ;;
    chart | images | crates | sbom) "$part" ;;
    repository)
        log "the repository"
        packaging/repository "$out" "${REPOSITORY:-target/repository}"
        ;;
    sums) ;;
    *)
        sed -n '2,/^$/ s/^# \?//p' "$0" >&2
        exit 2
        ;;
    esac
done
sums
log "built:"
(cd "$out" && du -ab --max-depth=1 . | sort -k 2)
((omitted == 0)) || echo "$omitted not built"
# A release has all parts.
[[ -z ${AUDITABLE-} ]] || ((omitted == 0))
