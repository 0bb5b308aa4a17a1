# find_package(harpe): harpe::harpe is the planning library; harpe::<room> is one room of it.
include(${CMAKE_CURRENT_LIST_DIR}/harpeTargets.cmake)
