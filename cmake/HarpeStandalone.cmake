# HARPE_STANDALONE: programs and libraries that need only glibc and libgcc_s. Included twice: before the targets, for
# link options, and, with HARPE_STANDALONE_TARGETS, after them, for functions that older versions of glibc lack and for
# the licenses of the libraries inside.
#
# HARPE_OLDER_GLIBC is the root of an older glibc to link with (scripts/standalone-parts.sh). Code is still compiled
# with the headers of this system, since names and layouts of glibc do not change.
set(HARPE_OLDER_GLIBC "" CACHE PATH "Root of the files of an older glibc to link with, where HARPE_STANDALONE")

if(NOT HARPE_STANDALONE_TARGETS)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
  # libgcc stays shared: exception unwinding belongs to the system's loader.
  add_link_options(-static-libstdc++ -Wl,--gc-sections)
  if(HARPE_OLDER_GLIBC)
    set(folder ${CMAKE_LIBRARY_ARCHITECTURE})
    if(NOT EXISTS ${HARPE_OLDER_GLIBC}/usr/lib/${folder}/libc.so)
      message(FATAL_ERROR "HARPE_OLDER_GLIBC: there is no usr/lib/${folder}/libc.so in ${HARPE_OLDER_GLIBC}")
    endif()
    # Before the system's own folder, which the compiler searches by default.
    add_link_options(--sysroot=${HARPE_OLDER_GLIBC} -B${HARPE_OLDER_GLIBC}/usr/lib/${folder}/
                     -L${HARPE_OLDER_GLIBC}/usr/lib/${folder} -L${HARPE_OLDER_GLIBC}/lib/${folder})
    # Separate libraries before glibc 2.34.
    link_libraries(-lpthread -ldl)
  endif()
  return()
endif()

foreach(program ${HARPE_STANDALONE_TARGETS})
  if(TARGET ${program})
    target_sources(${program} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/standalone/older_glibc.c)
    target_link_options(${program} PRIVATE
                        -Wl,--wrap=exp,--wrap=exp2,--wrap=log,--wrap=log2,--wrap=pow,--wrap=hypot,--wrap=hypotf)
    if(HARPE_OLDER_GLIBC)
      target_compile_definitions(${program} PRIVATE HARPE_OLDER_GLIBC)
    endif()
  endif()
endforeach()

# License texts that the libraries inside require, from Debian's packages.
foreach(library_and_package boost:libboost-dev CLI11:libcli11-dev curl:libcurl4-openssl-dev gcc:gcc-12-base
                            nlohmann-json:nlohmann-json3-dev openssl:libssl-dev pugixml:libpugixml-dev
                            sqlite:libsqlite3-dev zlib:zlib1g-dev)
  string(REGEX MATCH "^[^:]+" library ${library_and_package})
  string(REGEX REPLACE "^[^:]+:" "" package ${library_and_package})
  # These are links from one package's folder to another's.
  file(REAL_PATH /usr/share/doc/${package}/copyright copyright)
  if(NOT EXISTS ${copyright})
    message(FATAL_ERROR "${copyright} is missing, which has to go with the programs: install ${package}")
  endif()
  install(FILES ${copyright} DESTINATION harpe/licenses RENAME ${library}.txt COMPONENT python EXCLUDE_FROM_ALL)
  install(FILES ${copyright} DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME ${library}.txt COMPONENT license)
endforeach()
