# Run by cpack when the files of all components are in their folders, before packages are made of them: adds the
# files that only Debian packages have.
set(source ${CPACK_HARPE_SOURCE_DIR})
set(packaging ${source}/packaging)

# -n omits name and time, as in Debian's archive, so that the output is reproducible.
function(compress file)
  find_program(GZIP gzip REQUIRED)
  execute_process(COMMAND ${GZIP} -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Copies a file to the place where the package lists it as a conffile.
function(configuration root from to)
  get_filename_component(folder ${root}/${to} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(COPY_FILE ${packaging}/${from} ${root}/${to})
  file(CHMOD ${root}/${to} PERMISSIONS ${ARGN})
endfunction()
set(readable OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

foreach(component ${CPACK_COMPONENTS_ALL})
  string(TOUPPER ${component} name)
  set(package ${CPACK_HARPE_${name}_PACKAGE})
  set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/${component})
  if(NOT IS_DIRECTORY ${root}/usr)
    message(FATAL_ERROR "no files of ${component} in ${root}")
  endif()
  set(documents ${root}/usr/share/doc/${package})
  file(MAKE_DIRECTORY ${documents})
  file(COPY_FILE ${packaging}/debian/copyright ${documents}/copyright)
  string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)  # by SOURCE_DATE_EPOCH, if set
  file(WRITE ${documents}/changelog.Debian
"harpe (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Version ${CPACK_PACKAGE_VERSION}; what is new in it is in changelog.gz.

 -- ${CPACK_DEBIAN_PACKAGE_MAINTAINER}  ${date}
")
  compress(${documents}/changelog.Debian)
  file(COPY_FILE ${source}/CHANGELOG.md ${documents}/changelog)
  compress(${documents}/changelog)
  file(CHMOD ${documents}/copyright ${documents}/changelog.Debian.gz ${documents}/changelog.gz PERMISSIONS ${readable})
  file(GLOB pages ${root}/usr/share/man/man1/*.1)
  foreach(page ${pages})
    compress(${page})
  endforeach()
  if(component STREQUAL "agent")
    configuration(${root} agent.toml etc/harpe/agent.toml ${readable})
    configuration(${root} logrotate/harpe-agent etc/logrotate.d/harpe-agent ${readable})
    file(REMOVE ${root}/usr/share/doc/harpe/logrotate-harpe-agent)
  elseif(component STREQUAL "command")
    # The file may contain a database password; postinst gives it to the group of the server's user.
    configuration(${root} server.toml etc/harpe/server.toml OWNER_READ OWNER_WRITE GROUP_READ)
    # For passwords and tokens: systemd reads it as root.
    configuration(${root} server.env etc/harpe/server.env OWNER_READ OWNER_WRITE)
  endif()
  # The umask of this build must not affect permissions in the package.
  file(GLOB_RECURSE files LIST_DIRECTORIES true ${root}/*)
  foreach(file ${files})
    if(IS_DIRECTORY ${file} AND NOT IS_SYMLINK ${file})
      file(CHMOD ${file} DIRECTORY_PERMISSIONS ${readable} OWNER_EXECUTE GROUP_EXECUTE WORLD_EXECUTE)
    endif()
  endforeach()
endforeach()
