# Files that `cmake --install` copies, by component:
#   command         harpe, its man pages and completions, the server's unit and user, the demonstrations
#   agent           harpe-agent, its man page, unit, example of a policy, log rotation
#   lab             harpe-lab, the man pages of its commands
#   client          libharpe_client.so.1
#   development     public headers, the rooms they need as harpe::<room>, files for find_package(harpe) and pkg-config
#   simulated_nvml  the look-alike libnvidia-ml.so.1, in a folder of its own
#   license
# HarpePackages.cmake makes packages of all but the last.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# The public headers. Only the header in sim/nvml does not begin with harpe/.
set(public_headers ${PROJECT_SOURCE_DIR}/src/harpe/public_headers.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${public_headers})
file(STRINGS ${public_headers} headers REGEX "^harpe/")
set(wanted)
foreach(header ${headers})
  string(REGEX REPLACE "^harpe/(base|report)/.*" "harpe_\\1" target ${header})
  string(REGEX REPLACE "^harpe/[a-z_]+/([a-z_]+)/.*" "harpe_\\1" target ${target})
  list(APPEND wanted ${target})
endforeach()

# The rooms of these headers, and the rooms that those link.
set(targets)
while(wanted)
  list(POP_FRONT wanted target)
  if(NOT target IN_LIST targets)
    list(APPEND targets ${target})
    get_target_property(links ${target} INTERFACE_LINK_LIBRARIES)
    list(FILTER links INCLUDE REGEX "^harpe_[a-z_]+$")
    list(APPEND wanted ${links})
  endif()
endwhile()
add_library(harpe_harpe INTERFACE)
add_library(harpe::harpe ALIAS harpe_harpe)
set_target_properties(harpe_harpe PROPERTIES EXPORT_NAME harpe)
target_link_libraries(harpe_harpe INTERFACE ${targets})

# For pkg-config: from the highest room down, since a room calls only those below it.
get_property(from_the_ground_up GLOBAL PROPERTY HARPE_ROOM_TARGETS)
set(HARPE_PKG_CONFIG_LIBS)
foreach(target ${from_the_ground_up})
  if(target IN_LIST targets)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      # By file name: -lharpe_client would be the shared library of that name, which can be called only from C.
      string(PREPEND HARPE_PKG_CONFIG_LIBS "-l:lib${target}.a ")
    endif()
  endif()
endforeach()

# Reports files of a component that are not built, before any of its files is copied.
add_custom_target(harpe_installable)
function(harpe_install_needs component)
  set(files)
  foreach(target ${ARGN})
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "INTERFACE_LIBRARY")
      continue()
    endif()
    add_dependencies(harpe_installable ${target})
    if(type STREQUAL "UTILITY")  # harpe_pages
      list(APPEND files ${PROJECT_BINARY_DIR}/share/man/man1/harpe.1)
    else()
      list(APPEND files $<TARGET_FILE:${target}>)
    endif()
  endforeach()
  install(CODE "set(HARPE_NEEDED_FILES \"${files}\")\nset(HARPE_BUILD_DIR \"${PROJECT_BINARY_DIR}\")" COMPONENT ${component})
  install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/check_built.cmake COMPONENT ${component})
endfunction()

# Installs a text that contains the install prefix, which is known only to `cmake --install --prefix`.
function(harpe_install_text source destination component)
  get_filename_component(name ${source} NAME)
  string(REGEX REPLACE "\\.in$" "" name ${name})
  install(CODE "set(HARPE_TEXT \"${source}\")
set(HARPE_TEXT_TO \"${destination}/${name}\")
set(HARPE_BINDIR \"${CMAKE_INSTALL_BINDIR}\")
set(HARPE_INCLUDEDIR \"${CMAKE_INSTALL_INCLUDEDIR}\")
set(HARPE_LIBDIR \"${CMAKE_INSTALL_LIBDIR}\")
set(HARPE_PKG_CONFIG_LIBS \"${HARPE_PKG_CONFIG_LIBS}\")
set(HARPE_PKG_CONFIG_VERSION \"${PROJECT_VERSION}\")" COMPONENT ${component})
  install(SCRIPT ${PROJECT_SOURCE_DIR}/cmake/install_text.cmake COMPONENT ${component})
endfunction()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/harpe)
harpe_install_needs(development ${targets})
foreach(header ${headers})
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder}
          COMPONENT development)
endforeach()
install(TARGETS ${targets} harpe_harpe EXPORT harpeTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT harpeTargets NAMESPACE harpe:: DESTINATION ${package_dir} COMPONENT development)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/harpeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/harpeConfig.cmake ${PROJECT_BINARY_DIR}/harpeConfigVersion.cmake
        DESTINATION ${package_dir} COMPONENT development)
harpe_install_text(${PROJECT_SOURCE_DIR}/packaging/pkgconfig/harpe.pc.in ${CMAKE_INSTALL_LIBDIR}/pkgconfig development)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR}
        COMPONENT license)

if(PROJECT_IS_TOP_LEVEL)
  harpe_install_needs(client harpe_client_shared)
  install(TARGETS harpe_client_shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
          COMPONENT client NAMELINK_COMPONENT development)
  harpe_install_text(${PROJECT_SOURCE_DIR}/packaging/pkgconfig/harpe-client.pc.in ${CMAKE_INSTALL_LIBDIR}/pkgconfig
                     development)

  # Not in a folder that the loader searches by default: users opt in with LD_LIBRARY_PATH.
  set(place ${CMAKE_INSTALL_LIBDIR}/harpe/simulated-nvml)
  harpe_install_needs(simulated_nvml harpe_simulated_nvml)
  install(TARGETS harpe_simulated_nvml LIBRARY DESTINATION ${place} COMPONENT simulated_nvml)
  install(FILES ${PROJECT_SOURCE_DIR}/sim/nvml/harpe_sim.py DESTINATION ${place} COMPONENT simulated_nvml)
  install(FILES ${PROJECT_SOURCE_DIR}/sim/nvml/harpe_sim.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          COMPONENT development)
endif()

if(TARGET harpe)
  set(packaging ${PROJECT_SOURCE_DIR}/packaging)
  set(units lib/systemd/system)
  harpe_install_needs(agent harpe-agent harpe_pages)
  install(TARGETS harpe-agent RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT agent)
  install(FILES ${PROJECT_BINARY_DIR}/share/man/man1/harpe-agent.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1
          COMPONENT agent)
  harpe_install_text(${packaging}/systemd/harpe-agent.service ${units} agent)
  install(FILES ${packaging}/systemd/harpe-agent.socket DESTINATION ${units} COMPONENT agent)
  install(FILES ${packaging}/agent.toml DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT agent)
  install(FILES ${packaging}/logrotate/harpe-agent DESTINATION ${CMAKE_INSTALL_DOCDIR}
          RENAME logrotate-harpe-agent COMPONENT agent)

  # Commands of harpe-lab, by the names that users type.
  set(pages_of_lab "/harpe-(lab|replay|carbon-backtest|carbon-simulate)(-[a-z0-9-]+)?[.]1$")
  harpe_install_needs(lab harpe-lab harpe_pages)
  install(TARGETS harpe-lab RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT lab)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/man DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT lab
          FILES_MATCHING REGEX ${pages_of_lab})

  harpe_install_needs(command harpe harpe_pages)
  install(TARGETS harpe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT command
          PATTERN harpe-agent.1 EXCLUDE REGEX ${pages_of_lab} EXCLUDE)
  harpe_install_text(${packaging}/systemd/harpe-server.service ${units} command)
  install(FILES ${packaging}/sysusers/harpe.conf DESTINATION lib/sysusers.d COMPONENT command)
  install(FILES ${packaging}/server.toml DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/examples/simulations DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
  # Programs refer to these pages by their paths in the repository.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
endif()
