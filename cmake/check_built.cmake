# Run by `cmake --install`: stops with instructions if any of HARPE_NEEDED_FILES is not built.
set(missing)
foreach(file ${HARPE_NEEDED_FILES})
  if(NOT EXISTS ${file})
    cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${HARPE_BUILD_DIR})
    list(APPEND missing ${file})
  endif()
endforeach()
if(missing)
  list(LENGTH missing count)
  list(SUBLIST missing 0 3 some)
  list(JOIN some ", " some)
  if(count GREATER 3)
    string(APPEND some " and others")
  endif()
  message(FATAL_ERROR
    "In ${HARPE_BUILD_DIR} is not built: ${some}.\n"
    "Build what is installed first:\n"
    "  cmake --build ${HARPE_BUILD_DIR} --target harpe_installable\n"
    "or install a part that is there:\n"
    "  cmake --install ${HARPE_BUILD_DIR} --component command|agent|lab|client|development|simulated_nvml\n")
endif()
