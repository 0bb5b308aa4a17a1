# Debian packages that `cpack` makes of a build: one per component of HarpeInstall.cmake. finish_packages.cmake
# adds the files that only packages have (conffiles, copyright, changelog). Package scripts are in
# packaging/debian/PACKAGE/. scripts/package.sh builds and packages in one step.
set(HARPE_PACKAGE_MAINTAINER "The Harpe authors <harpe@example.org>" CACHE STRING "Whom the packages name")
set(HARPE_PACKAGE_RELEASE 1 CACHE STRING "Revision of the packages of one version")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME harpe)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${HARPE_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${HARPE_PACKAGE_MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_RELEASE ${HARPE_PACKAGE_RELEASE})
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_COMPONENTS_ALL agent client command development lab simulated_nvml)
set(CPACK_INSTALL_CMAKE_PROJECTS "${PROJECT_BINARY_DIR};harpe;ALL;/")
set(CPACK_SET_DESTDIR ON)  # so that texts name /usr, not the folder where packages are assembled
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/finish_packages.cmake)
# Variables for finish_packages.cmake: cpack passes on variables that begin with CPACK_.
set(CPACK_HARPE_SOURCE_DIR ${PROJECT_SOURCE_DIR})

#   harpe_package(COMPONENT agent NAME harpe-agent SECTION admin SUMMARY "..." DESCRIPTION "..." [DEPENDS ...])
function(harpe_package)
  cmake_parse_arguments(PACKAGE "" "COMPONENT;NAME;SECTION;SUMMARY;DESCRIPTION;DEPENDS;RECOMMENDS;SUGGESTS;BREAKS;REPLACES" "" ${ARGN})
  string(TOUPPER ${PACKAGE_COMPONENT} component)
  set(prefix CPACK_DEBIAN_${component}_PACKAGE)
  set(${prefix}_NAME ${PACKAGE_NAME} PARENT_SCOPE)
  set(${prefix}_SECTION ${PACKAGE_SECTION} PARENT_SCOPE)
  set(CPACK_DEBIAN_${component}_DESCRIPTION "${PACKAGE_SUMMARY}\n${PACKAGE_DESCRIPTION}" PARENT_SCOPE)
  foreach(relation DEPENDS RECOMMENDS SUGGESTS BREAKS REPLACES)
    if(PACKAGE_${relation})
      set(${prefix}_${relation} "${PACKAGE_${relation}}" PARENT_SCOPE)
    endif()
  endforeach()
  file(GLOB control CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/packaging/debian/${PACKAGE_NAME}/*)
  set(${prefix}_CONTROL_EXTRA "${control}" PARENT_SCOPE)
  set(CPACK_HARPE_${component}_PACKAGE ${PACKAGE_NAME} PARENT_SCOPE)
endfunction()

# Before this version, harpe contained man pages that are now in harpe-lab.
set(older "${PROJECT_VERSION}-${HARPE_PACKAGE_RELEASE}")
set(version "= ${older}")
# Packages that create the user of the unit.
set(sysusers "systemd | systemd-standalone-sysusers | systemd-sysusers")
harpe_package(COMPONENT command NAME harpe SECTION science
  SUMMARY "energy plans for large-model training, and the server that follows them"
  DESCRIPTION
"Training a large model on a pipeline of GPUs wastes energy: stages are never
equally heavy, so most of them race at full clock only to wait. Harpe finds
the clock of every computation so that an iteration needs the least energy at
the time you choose, and proves how close to the best that is.

This package has the command and its server of training jobs, whose service
is not enabled until you ask for it."
  DEPENDS "${sysusers}" RECOMMENDS "harpe-agent, python3" SUGGESTS "harpe-lab, harpe-simulated-nvml, postgresql")
harpe_package(COMPONENT agent NAME harpe-agent SECTION admin
  SUMMARY "daemon that lets jobs without privileges set GPU clocks"
  DESCRIPTION
"Jobs ask the agent of their node to set clocks and power limits of the GPUs
that a policy file allows them. It sets them, reads them back, and restores
what was there before when the job is done, however the job or the agent
itself ends.

The policy that comes along lets everybody read, and root alone set."
  SUGGESTS "harpe, logrotate")
harpe_package(COMPONENT lab NAME harpe-lab SECTION science
  SUMMARY "experiments with energy plans for large-model training"
  DESCRIPTION
"Emulates clusters that train, runs recorded jobs again over carbon
intensities and batch sizes, and recomputes the published tables of the
systems that Harpe implements, from their public data. Nothing of it touches
a GPU, an agent or a server, and no operator needs it. `harpe lab`, `harpe
replay`, `harpe carbon simulate` and `harpe carbon backtest` start it."
  SUGGESTS harpe BREAKS "harpe (<< ${older})" REPLACES "harpe (<< ${older})")
harpe_package(COMPONENT client NAME libharpe-client1 SECTION libs
  SUMMARY "what a training rank links to take part in Harpe's jobs"
  DESCRIPTION
"A training rank tells a server of Harpe what its iterations cost, and has its
node's agent set the clock of every computation. This library does that,
without waiting, for C and languages that call C.")
harpe_package(COMPONENT development NAME libharpe-dev SECTION libdevel
  SUMMARY "Harpe for programs in C++ and C"
  DESCRIPTION
"Headers, static libraries, and what CMake's find_package(harpe) and
pkg-config (harpe, harpe-client) read."
  DEPENDS "libharpe-client1 (${version}), libcurl4-openssl-dev | libcurl-dev" SUGGESTS harpe-simulated-nvml)
harpe_package(COMPONENT simulated_nvml NAME harpe-simulated-nvml SECTION science
  SUMMARY "NVIDIA's management library over simulated GPUs"
  DESCRIPTION
"A look-alike of libnvidia-ml.so.1 in a folder of its own, where only programs
find it whose LD_LIBRARY_PATH says so: they then see simulated GPUs, errors
included, on a machine without any. It never takes the place of NVIDIA's own.")
include(CPack)
