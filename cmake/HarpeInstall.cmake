# What `cmake --install` copies: the public headers, the rooms they need as harpe::<room>, the package files that
# find_package(harpe) reads, and the commands with their man pages and completions.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# sim/nvml installs what does not begin with harpe/.
set(public_headers ${PROJECT_SOURCE_DIR}/src/harpe/public_headers.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${public_headers})
file(STRINGS ${public_headers} headers REGEX "^harpe/")
set(wanted)
foreach(header ${headers})
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${PROJECT_SOURCE_DIR}/src/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
  string(REGEX REPLACE "^harpe/([a-z_]+)/.*" "harpe_\\1" target ${header})
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
list(APPEND targets harpe_harpe)

install(TARGETS ${targets} EXPORT harpeTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/harpe)
install(EXPORT harpeTargets NAMESPACE harpe:: DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/harpeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/harpeConfig.cmake ${PROJECT_BINARY_DIR}/harpeConfigVersion.cmake
        DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/NOTICE DESTINATION ${CMAKE_INSTALL_DOCDIR})

if(TARGET harpe)
  install(TARGETS harpe harpe-agent RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR})
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/systemd/harpe-agent.service
                ${PROJECT_SOURCE_DIR}/packaging/systemd/harpe-agent.socket
                ${PROJECT_SOURCE_DIR}/packaging/systemd/harpe-server.service DESTINATION lib/systemd/system)
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/agent.toml DESTINATION ${CMAKE_INSTALL_DOCDIR})
  install(FILES ${PROJECT_SOURCE_DIR}/packaging/logrotate/harpe-agent DESTINATION ${CMAKE_INSTALL_DOCDIR}
          RENAME logrotate-harpe-agent)
endif()
