#!/usr/bin/env bash
# What scripts/wheel.sh and scripts/portable.sh link with, in build/wheel-parts, with all that building needs:
#
#   curl    a static libcurl. Debian's needs libraries of which Debian has no static copy, so one that knows HTTP and
#           HTTPS alone is built from Debian's source package, with Debian's security fixes
#   glibc   the C library of the Debian before (bullseye, 2.31), so that what is linked with it runs on older systems, too
#
# Both come from the mirrors of this system's APT, which verifies them, by lists of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$PWD/build/wheel-parts
jobs=${HARPE_JOBS:-$(nproc)}
older=bullseye
./scripts/install-dependencies.sh --wheel
mkdir -p "$work"

# prepare FILTER: writes APT lists to $work/apt from the system's sources, changed by FILTER; sets get.
prepare() {
  local apt=$work/apt file
  rm -rf "$apt"
  mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    [ ! -s $file ] || "$1" <$file >"$apt/parts/debian.${file##*.}"
  done
  get=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts"
       -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=)
  "${get[@]}" update
}
as_sources() { sed 's/^deb /deb-src /; s/^Types:.*/Types: deb-src/'; }
# Changes only the release, in either format.
as_older() {
  sed "/^#/d; /^deb.*security/d; /^deb.*-updates/d; s/^\(deb .*\) $suite main.*/\1 $older main/" |
    awk -v RS= -v ORS='\n\n' '!/^Types/ || !/-security/' |
    sed "s/^Suites:.*/Suites: $older/; s/^Components:.*/Components: main/"
}

fetch_curl() {
  prepare as_sources
  (cd "$work/apt" && "${get[@]}" source --download-only curl)
  # APT has verified the source.
  rm -rf "$work/curl-source"
  dpkg-source --no-check --extract "$work"/apt/curl_*.dsc "$work/curl-source" >/dev/null
}

curl=$work/curl
version=$(dpkg-query --show --showformat='${Version}' libcurl4-openssl-dev)
if [ "$(cat "$curl/version" 2>/dev/null)" != "$version" ]; then
  echo "Building libcurl $version for HTTP and HTTPS alone"
  fetch_curl
  rm -rf "$curl" "$work/curl-build"
  mkdir "$work/curl-build"
  (
    cd "$work/curl-build"
    ../curl-source/configure --quiet --prefix="$curl" --disable-shared --enable-static --with-pic \
      --with-openssl --with-zlib --with-ca-bundle=/etc/ssl/certs/ca-certificates.crt \
      --without-brotli --without-gssapi --without-libgsasl --without-libidn2 --without-libpsl --without-librtmp \
      --without-libssh2 --without-nghttp2 --without-zstd --disable-ares --disable-dict --disable-file --disable-ftp \
      --disable-gopher --disable-imap --disable-ldap --disable-ldaps --disable-manual --disable-mqtt --disable-ntlm \
      --disable-pop3 --disable-rtsp --disable-smb --disable-smtp --disable-telnet --disable-tftp --disable-tls-srp \
      CFLAGS="-O2 -ffunction-sections -fdata-sections" >configure.log
    make -C lib --silent -j "$jobs" install >make.log
    make -C include --silent install >>make.log
  )
  echo "$version" >"$curl/version"
fi

glibc=$work/glibc
if [ "$(cat "$glibc/suite" 2>/dev/null)" != $older ]; then
  echo "Fetching the C library of Debian's $older"
  suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  prepare as_older
  (cd "$work/apt" && "${get[@]}" download libc6/$older libc6-dev/$older libgcc-s1/$older)
  rm -rf "$glibc"
  mkdir "$glibc"
  for package in "$work"/apt/*.deb; do dpkg-deb --extract "$package" "$glibc"; done
  # Absolute links would point outside of it.
  find "$glibc" -lname '/*' -print0 | while IFS= read -r -d '' link; do
    ln --symbolic --force --no-dereference --relative "$glibc$(readlink "$link")" "$link"
  done
  echo $older >"$glibc/suite"
fi
