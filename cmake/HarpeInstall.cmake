# What `cmake --install` copies: the rooms as harpe::<room>, their headers, the package files that
# find_package(harpe) reads, and the commands with their man pages and completions.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

get_property(rooms GLOBAL PROPERTY HARPE_INSTALLED_ROOMS)
add_library(harpe_harpe INTERFACE)
add_library(harpe::harpe ALIAS harpe_harpe)
set_target_properties(harpe_harpe PROPERTIES EXPORT_NAME harpe)
set(targets harpe_harpe)
foreach(room ${rooms})
  target_link_libraries(harpe_harpe INTERFACE harpe_${room})
  list(APPEND targets harpe_${room})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/harpe/${room} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/harpe
          FILES_MATCHING PATTERN "*.h" PATTERN "*_testing.h" EXCLUDE PATTERN "test_*.h" EXCLUDE
          PATTERN "fuzz_corpus" EXCLUDE PATTERN "page" EXCLUDE)
endforeach()

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
