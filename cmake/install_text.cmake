# Run by `cmake --install`: writes the text HARPE_TEXT to HARPE_TEXT_TO below the prefix, with its paths replaced.
# Variables between @ are set in HarpeInstall.cmake; systemd units in the sources are written for /usr.
file(READ ${HARPE_TEXT} text)
string(REPLACE "/usr/bin/harpe" "${CMAKE_INSTALL_PREFIX}/${HARPE_BINDIR}/harpe" text "${text}")
set(HARPE_PREFIX ${CMAKE_INSTALL_PREFIX})
string(CONFIGURE "${text}" text @ONLY)
set(file ${CMAKE_INSTALL_PREFIX}/${HARPE_TEXT_TO})
message(STATUS "Installing: $ENV{DESTDIR}${file}")
file(WRITE "$ENV{DESTDIR}${file}" "${text}")
file(CHMOD "$ENV{DESTDIR}${file}" PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
list(APPEND CMAKE_INSTALL_MANIFEST_FILES ${file})
