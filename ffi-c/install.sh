#!/bin/sh
# Builds the C library and installs it: libraries, headers, pkg-config file, CMake package.
#
#     ffi-c/install.sh [PREFIX [LIBDIR]]     /usr/local, PREFIX/lib; DESTDIR from the environment is put before both
#
# It does not use cargo-c, which compiles all of cargo, which takes longer than everything else here together.
set -eu
cd "$(dirname "$0")/.."
prefix=${1:-/usr/local}
libdir=${2:-$prefix/lib}
destdir=${DESTDIR:-}
case "$prefix$libdir" in
*[\|\&\\]*) echo "error: a path with |, & or \\ cannot be installed to" >&2; exit 2 ;;
/*) ;;
*) echo "error: PREFIX and LIBDIR must be absolute" >&2; exit 2 ;;
esac

ffi-c/build.sh
built=${CARGO_TARGET_DIR:-target}/c-library
version=$(cargo pkgid -p scheduled-events-c)
version=${version##*[#@]}
abi=$(readelf -d "$built/libscheduled_events.so" | sed -n 's/.*soname: \[libscheduled_events\.so\.\(.*\)\].*/\1/p')
# What a program that links the static library needs in addition; rustc --print native-static-libs prints this list.
private='-lgcc_eh -lutil -lrt -lpthread -lm -ldl -lc'

install -d "$destdir$prefix/include" "$destdir$libdir/pkgconfig" "$destdir$libdir/cmake/scheduled_events"
install -m 644 include/scheduled_events.h include/*.hpp "$destdir$prefix/include/"
install -m 644 "$built/libscheduled_events.a" "$destdir$libdir/"
install -m 755 "$built/libscheduled_events.so" "$destdir$libdir/libscheduled_events.so.$version"
ln -sf "libscheduled_events.so.$version" "$destdir$libdir/libscheduled_events.so.$abi"
ln -sf "libscheduled_events.so.$abi" "$destdir$libdir/libscheduled_events.so"

# The path of $1 from $2: what is installed can be moved as a whole.
relative() { realpath -m --relative-to="$2" "$1"; }

fill() {
  sed -e "s|@PREFIX_FROM_PC@|$(relative "$prefix" "$libdir/pkgconfig")|g" \
    -e "s|@LIBDIR_FROM_PREFIX@|$(relative "$libdir" "$prefix")|g" -e "s|@VERSION@|$version|g" -e "s|@ABI@|$abi|g" \
    -e "s|@ABI_PATTERN@|$(echo "$abi" | sed 's/\./\\\\\\\\./g')|g" -e "s|@PRIVATE@|$private|g" \
    -e "s|@PRIVATE_CMAKE@|$(echo "$private" | sed 's/ /;/g')|g" \
    -e "s|@INCLUDE_FROM_LIB@|$(relative "$prefix/include" "$libdir")|g" "ffi-c/package/$1.in" >"$2/$1"
}
fill scheduled_events.pc "$destdir$libdir/pkgconfig"
fill scheduled_eventsConfig.cmake "$destdir$libdir/cmake/scheduled_events"
fill scheduled_eventsConfigVersion.cmake "$destdir$libdir/cmake/scheduled_events"

# The loader finds a new library once its cache is renewed, if it searches the folder at all.
[ -z "$destdir" ] || exit 0
PATH=$PATH:/usr/sbin:/sbin
case "$libdir/" in
/usr/lib/* | /usr/lib64/* | /usr/local/lib/* | /usr/local/lib64/*) [ "$(id -u)" -ne 0 ] || ldconfig || true ;;
esac
if ! ldconfig -p 2>/dev/null | grep -qF "=> $libdir/libscheduled_events.so.$abi"; then
  echo "note: the loader does not find the library in $libdir. Run \`ldconfig\` as root if /etc/ld.so.conf names that"
  echo "      folder. If not, link programs with -Wl,-rpath,$libdir, or set LD_LIBRARY_PATH."
fi
