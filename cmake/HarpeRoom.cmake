# A room of the house: one folder, one static library, its tests, benchmarks and fuzz targets beside it.
#
#   harpe_room(NAME flow
#     SOURCES parametric_cut.cc ...
#     ROOMS base ...            # rooms on lower floors that it includes
#     TEST_ROOMS job            # rooms that its tests alone include, on its floor or lower
#     TEST_SOURCES ..._testing.cc             # what its tests and benchmarks share: harpe_<room>_testing
#     LIBRARIES ...             # header-only libraries used in its .cc files
#     TESTS parametric_cut_test.cc ...        # label "fast"
#     SLOW_TESTS ...                          # label "slow"
#     THREAD_TESTS ...                        # label "threads": also run under the thread sanitizer
#     BENCHMARKS parametric_cut_bench.cc ...
#     FUZZ read_profile_fuzz.cc ...)          # with seeds in fuzz_corpus/<target>/, if there
#
# The rooms of public headers (src/harpe/public_headers.txt), and those they link, are installed as harpe::<room>;
# harpe::harpe is all of them.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Flags of this build alone: they do not travel with the installed rooms.
add_library(harpe_options INTERFACE)
target_compile_options(harpe_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
                                               -ffp-contract=off)
# __FILE__ from the root of the sources: the same bytes in every clone.
target_compile_options(harpe_options INTERFACE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # What base/mutex.h says of locks is checked; -Werror makes an error of it.
  target_compile_options(harpe_options INTERFACE -Wthread-safety)
  # A test program links in a sixth of the time that GNU ld takes.
  find_program(HARPE_LLD ld.lld-19)
  if(HARPE_LLD)
    target_link_options(harpe_options INTERFACE --ld-path=${HARPE_LLD})
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False alarms of GCC 12 on `"text" + std::string` (GCC bug 105651; where more is inlined, as from precompiled
  # headers, under the other two names).
  target_compile_options(harpe_options INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
endif()
# What nothing calls is left out of libharpe_client.so and harpe-agent, function by function.
target_compile_options(harpe_options INTERFACE -ffunction-sections -fdata-sections)
target_include_directories(harpe_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(HARPE_SANITIZE)
  target_compile_options(harpe_options INTERFACE -fsanitize=${HARPE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(harpe_options INTERFACE -fsanitize=${HARPE_SANITIZE})
endif()
if(HARPE_FUZZ)
  # The rooms themselves carry the coverage that guides the fuzzer; in tests it would guide nothing and cost a fifth of
  # the time that they take to compile.
  target_compile_options(harpe_options INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:HARPE_TEST>>>:-fsanitize=fuzzer-no-link>)
endif()
if(HARPE_COVERAGE)
  target_compile_options(harpe_options INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(harpe_options INTERFACE -fprofile-instr-generate)
endif()

if(HARPE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # What a file keeps to itself, it also keeps where it is included.
  target_compile_options(harpe_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# Every test with threads: what a build with the thread sanitizer needs.
add_custom_target(harpe_thread_tests)

# The headers of GoogleTest and the standard library, which all tests read, precompiled once for all.
if(HARPE_UNITY AND HARPE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  set(headers <gmock/gmock.h> <gtest/gtest.h> <algorithm> <chrono> <filesystem> <fstream> <functional> <map> <memory>
              <optional> <random> <sstream> <string> <thread> <variant> <vector>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # Not by CMake's own rule, which gives clang full paths in a form that ccache does not know (-Xclang): what one clone
    # compiled would not serve another.
    list(TRANSFORM headers PREPEND "#include ")
    list(JOIN headers "\n" headers)
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cc CONTENT "${headers}\n")
    add_library(harpe_test_headers OBJECT ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cc)
    target_compile_options(harpe_test_headers PRIVATE
      "SHELL:-x c++-header" "SHELL:-Xclang -emit-pch" "SHELL:-Xclang -fno-pch-timestamp" -fpch-instantiate-templates)
    set(HARPE_TEST_HEADERS ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/harpe_test_headers.dir/test_headers.cc.o)
  else()
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cc CONTENT "")
    add_library(harpe_test_headers STATIC ${CMAKE_CURRENT_BINARY_DIR}/test_headers.cc)
    target_compile_options(harpe_test_headers PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    target_precompile_headers(harpe_test_headers PRIVATE ${headers})
  endif()
  target_link_libraries(harpe_test_headers PRIVATE harpe_options GTest::gmock)
  target_compile_features(harpe_test_headers PRIVATE cxx_std_20)
  target_compile_options(harpe_test_headers PRIVATE ${HARPE_TEST_OPTIMIZATION})
  set_target_properties(harpe_test_headers PROPERTIES HARPE_TEST ON)
endif()

# base/source_tree_testing.h. The path stands in no other file, so that what was compiled in one clone serves another.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/source_tree.cc CONTENT
  "namespace harpe {\nconst char* source_tree();\nconst char* source_tree() {\n  return \"${PROJECT_SOURCE_DIR}\";\n}\n}  // namespace harpe\n")
add_library(harpe_source_tree STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/source_tree.cc)
target_link_libraries(harpe_source_tree PRIVATE harpe_options)

# One GoogleTest program. CTest knows its cases by name, so that skipped ones are reported as such, or with
# HARPE_TEST_PROGRAMS the program as a whole, which starts once. The target harpe_<room>_tests has all of a room.
#   harpe_test(NAME csv_test ROOM base LABEL fast SOURCES csv_test.cc LIBRARIES harpe_base [TIMEOUT seconds])
function(harpe_test)
  cmake_parse_arguments(TEST "" "NAME;ROOM;LABEL;TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
  if(NOT HARPE_BUILD_TESTS OR NOT TEST_LABEL IN_LIST HARPE_TEST_LABELS)
    return()
  endif()
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 300)
  endif()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${TEST_NAME} ${TEST_SOURCES})
  target_link_libraries(${TEST_NAME} PRIVATE ${TEST_LIBRARIES} harpe_source_tree GTest::gmock GTest::gtest_main)
  set(sanitized 0)
  if(HARPE_SANITIZE)
    set(sanitized 1)
  endif()
  target_compile_definitions(${TEST_NAME} PRIVATE HARPE_UNDER_SANITIZERS=${sanitized})
  target_compile_options(${TEST_NAME} PRIVATE ${HARPE_TEST_OPTIMIZATION})
  set_target_properties(${TEST_NAME} PROPERTIES HARPE_TEST ON)
  if(HARPE_UNITY)
    if(HARPE_TEST_HEADERS)
      target_compile_options(${TEST_NAME} PRIVATE "SHELL:-include-pch ${HARPE_TEST_HEADERS}")
      set_property(SOURCE ${TEST_SOURCES} APPEND PROPERTY OBJECT_DEPENDS ${HARPE_TEST_HEADERS})
      add_dependencies(${TEST_NAME} harpe_test_headers)
    else()
      target_precompile_headers(${TEST_NAME} REUSE_FROM harpe_test_headers)
    endif()
  endif()
  if(TEST_LABEL STREQUAL "threads")
    add_dependencies(harpe_thread_tests ${TEST_NAME})
  endif()
  if(NOT TARGET harpe_${TEST_ROOM}_tests)
    add_custom_target(harpe_${TEST_ROOM}_tests)
  endif()
  add_dependencies(harpe_${TEST_ROOM}_tests ${TEST_NAME})
  if(HARPE_LINT)
    return()  # read, not run
  endif()
  if(HARPE_TEST_PROGRAMS)
    set(test ${HARPE_TEST_PREFIX}${TEST_ROOM}/${TEST_NAME})
    add_test(NAME ${test} COMMAND ${TEST_NAME} --gtest_brief=1)
    math(EXPR timeout "4 * ${TEST_TIMEOUT}")  # of all cases, one after another
    set_tests_properties(${test} PROPERTIES LABELS ${TEST_LABEL} TIMEOUT ${timeout})
    return()
  endif()
  gtest_discover_tests(${TEST_NAME}
    TEST_PREFIX ${HARPE_TEST_PREFIX}${TEST_ROOM}/${TEST_NAME}/
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    PROPERTIES LABELS ${TEST_LABEL} TIMEOUT ${TEST_TIMEOUT})
endfunction()

# A library that stands in for one of a vendor and responds as a test says, loaded as that is: a
# test or benchmark finds its file in the definition of the same name in capitals.
#   harpe_scripted_library(nvml_test scripted_nvml nvml/scripted_nvml.cc [DEFINITION ...])
function(harpe_scripted_library user name source)
  if(NOT TARGET ${user})
    return()
  endif()
  if(NOT TARGET ${name})
    add_library(${name} MODULE ${source})
    # Without the sanitizers of this build, as the libraries of vendors are.
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_options(${name} PRIVATE -Wall -Wextra -Wpedantic -Werror)
    target_compile_definitions(${name} PRIVATE ${ARGN})
  endif()
  string(TOUPPER ${name} definition)
  target_compile_definitions(${user} PRIVATE ${definition}="$<TARGET_FILE:${name}>")
  add_dependencies(${user} ${name})
endfunction()

# All fuzz targets.
add_custom_target(harpe_fuzz_targets)

# A libFuzzer target over some libraries, and its short run as a test.
function(harpe_fuzz_target room source)
  get_filename_component(fuzz ${source} NAME_WE)
  add_executable(${fuzz} ${source})
  target_link_libraries(${fuzz} PRIVATE ${ARGN})
  add_dependencies(harpe_fuzz_targets ${fuzz})
  target_compile_options(${fuzz} PRIVATE -fsanitize=fuzzer)
  target_link_options(${fuzz} PRIVATE -fsanitize=fuzzer)
  # New findings go to the build directory; the seeds in the source tree are only read.
  set(corpus ${CMAKE_BINARY_DIR}/corpus/${fuzz})
  file(MAKE_DIRECTORY ${corpus})
  set(seeds ${CMAKE_CURRENT_SOURCE_DIR}/fuzz_corpus/${fuzz})
  if(NOT EXISTS ${seeds})
    set(seeds)
  endif()
  math(EXPR timeout "${HARPE_FUZZ_SECONDS} + 120")
  add_test(NAME ${HARPE_TEST_PREFIX}${room}/${fuzz}
           COMMAND ${fuzz} -max_total_time=${HARPE_FUZZ_SECONDS} -timeout=20 -rss_limit_mb=4096 -print_final_stats=1
                   -verbosity=0 -artifact_prefix=${CMAKE_BINARY_DIR}/${fuzz}- ${corpus} ${seeds})
  set_tests_properties(${HARPE_TEST_PREFIX}${room}/${fuzz} PROPERTIES LABELS fuzz TIMEOUT ${timeout})
endfunction()

# Has a room, and every room it stands on, compiled so that a shared library can take it in.
function(harpe_position_independent target)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    get_target_property(rooms ${target} LINK_LIBRARIES)
  else()
    get_target_property(rooms ${target} INTERFACE_LINK_LIBRARIES)
  endif()
  foreach(room ${rooms})
    if(room MATCHES "^harpe_" AND NOT room STREQUAL "harpe_options")
      harpe_position_independent(${room})
    endif()
  endforeach()
endfunction()

function(harpe_room)
  cmake_parse_arguments(ROOM "" "NAME" "SOURCES;ROOMS;TEST_ROOMS;TEST_SOURCES;LIBRARIES;TESTS;SLOW_TESTS;THREAD_TESTS;BENCHMARKS;FUZZ" ${ARGN})
  set(target harpe_${ROOM_NAME})
  if(ROOM_SOURCES)
    add_library(${target} STATIC ${ROOM_SOURCES})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${HARPE_UNITY} UNITY_BUILD_BATCH_SIZE 16)
    set(scope PUBLIC)
    foreach(library ${ROOM_LIBRARIES})
      target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:${library}>)
    endforeach()
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(${target} ${scope} $<BUILD_INTERFACE:harpe_options>)
  target_compile_features(${target} ${scope} cxx_std_20)
  foreach(room ${ROOM_ROOMS})
    target_link_libraries(${target} ${scope} harpe_${room})
  endforeach()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${ROOM_NAME})

  set(test_libraries ${ROOM_LIBRARIES})
  foreach(room ${ROOM_TEST_ROOMS})
    list(APPEND test_libraries harpe_${room})
  endforeach()
  if(ROOM_TEST_SOURCES)
    add_library(${target}_testing STATIC EXCLUDE_FROM_ALL ${ROOM_TEST_SOURCES})
    target_link_libraries(${target}_testing PUBLIC ${target} ${test_libraries})
    list(APPEND test_libraries ${target}_testing)
  endif()
  foreach(source ${ROOM_TESTS})
    get_filename_component(test ${source} NAME_WE)
    harpe_test(NAME ${test} ROOM ${ROOM_NAME} LABEL fast SOURCES ${source} LIBRARIES ${target} ${test_libraries})
  endforeach()
  foreach(source ${ROOM_THREAD_TESTS})
    get_filename_component(test ${source} NAME_WE)
    harpe_test(NAME ${test} ROOM ${ROOM_NAME} LABEL threads SOURCES ${source} LIBRARIES ${target} ${test_libraries})
  endforeach()
  foreach(source ${ROOM_SLOW_TESTS})
    get_filename_component(test ${source} NAME_WE)
    harpe_test(NAME ${test} ROOM ${ROOM_NAME} LABEL slow TIMEOUT 1500 SOURCES ${source}
               LIBRARIES ${target} ${test_libraries})
  endforeach()

  if(HARPE_BUILD_BENCHMARKS)
    foreach(source ${ROOM_BENCHMARKS})
      get_filename_component(bench ${source} NAME_WE)
      add_executable(${bench} ${source})
      target_link_libraries(${bench} PRIVATE ${target} ${test_libraries})
    endforeach()
  endif()

  if(HARPE_FUZZ)
    foreach(source ${ROOM_FUZZ})
      harpe_fuzz_target(${ROOM_NAME} ${source} ${target} ${test_libraries})
    endforeach()
  endif()
endfunction()
