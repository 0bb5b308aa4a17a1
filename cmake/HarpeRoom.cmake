# A room of the house: one folder of a wing, one static library, its tests, benchmarks and fuzz targets beside it.
#
#   harpe_room(NAME flow
#     SOURCES parametric_cut.cc ...
#     ROOMS base ...            # lower rooms that it includes
#     TEST_ROOMS job            # rooms that its tests alone include, not higher than it
#     TEST_SOURCES ..._testing.cc             # shared by its tests and benchmarks: harpe_<room>_testing
#     LIBRARIES ...             # header-only libraries used in its .cc files
#     TESTS parametric_cut_test.cc ...        # label "fast"
#     SLOW_TESTS ...                          # label "slow"
#     THREAD_TESTS ...                        # label "threads": also run under the thread sanitizer
#     BENCHMARKS parametric_cut_bench.cc ...
#     FUZZ read_profile_fuzz.cc ...           # with seeds in fuzz_corpus/<target>/, if it exists
#     LONG_FUZZ ...)                          # run five times as long
#
# If the programs of a room do not all link the same libraries, there is a target for each (node/node_client).
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

# Flags of this build only: they are not exported with the installed rooms.
add_library(harpe_options INTERFACE)
target_compile_options(harpe_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion -Werror
                                               -ffp-contract=off)
# __FILE__ relative to the root of the sources, so that it is identical in every clone.
target_compile_options(harpe_options INTERFACE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Checks the lock annotations of base/mutex.h; violations are errors due to -Werror.
  target_compile_options(harpe_options INTERFACE -Wthread-safety)
  # lld links a test program in a sixth of the time of GNU ld.
  find_program(HARPE_LLD ld.lld-19)
  if(HARPE_LLD)
    target_link_options(harpe_options INTERFACE --ld-path=${HARPE_LLD})
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # False positives of GCC 12 on `"text" + std::string` (GCC bug 105651; with more inlining, as with precompiled
  # headers, they are reported under the other two names).
  target_compile_options(harpe_options INTERFACE -Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
endif()
# Lets the linker drop unused functions from libharpe_client.so and harpe-agent.
target_compile_options(harpe_options INTERFACE -ffunction-sections -fdata-sections)
target_include_directories(harpe_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT HARPE_SANITIZE AND NOT HARPE_FUZZ)
  # The flags that Debian uses for its own programs (dpkg-buildflags, hardening=+all); scripts/check_hardened.sh checks
  # the result.
  target_compile_options(harpe_options INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -fstack-protector-strong
                                                 -fstack-clash-protection -Wformat -Werror=format-security)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    target_compile_options(harpe_options INTERFACE -fcf-protection)
  endif()
  target_link_options(harpe_options INTERFACE -Wl,-z,relro -Wl,-z,now $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-pie>)
endif()
if(HARPE_SANITIZE)
  target_compile_options(harpe_options INTERFACE -fsanitize=${HARPE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(harpe_options INTERFACE -fsanitize=${HARPE_SANITIZE})
endif()
if(HARPE_FUZZ)
  # Only rooms have the coverage that guides the fuzzer. In tests it would have no effect and add a fifth to their
  # compile time.
  target_compile_options(harpe_options INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:HARPE_TEST>>>:-fsanitize=fuzzer-no-link>)
endif()
if(HARPE_COVERAGE)
  target_compile_options(harpe_options INTERFACE -fprofile-instr-generate -fcoverage-mapping)
  target_link_options(harpe_options INTERFACE -fprofile-instr-generate)
endif()

if(HARPE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # In unity builds GCC takes the included sources for headers, and warns about their file-local types.
  target_compile_options(harpe_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)
endif()

# All tests with threads: the build target for the thread sanitizer.
add_custom_target(harpe_thread_tests)

# Adds a library NAME that precompiles HEADERS, such as "<vector>", for targets with the same options.
function(harpe_precompiled_headers name)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    # CMake's own rule gives clang full paths in a form that ccache does not know (-Xclang), so clones could not share
    # cached objects.
    list(TRANSFORM ARGN PREPEND "#include " OUTPUT_VARIABLE lines)
    list(JOIN lines "\n" lines)
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc CONTENT "${lines}\n")
    add_library(harpe_${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
    target_compile_options(harpe_${name} PRIVATE
      "SHELL:-x c++-header" "SHELL:-Xclang -emit-pch" "SHELL:-Xclang -fno-pch-timestamp" -fpch-instantiate-templates)
    set(HARPE_PRECOMPILED_${name} ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/harpe_${name}.dir/${name}.cc.o PARENT_SCOPE)
    # Targets that use the headers depend on the file, not only on the target's name.
    add_custom_target(harpe_${name}_made DEPENDS $<TARGET_OBJECTS:harpe_${name}>)
  else()
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc CONTENT "")
    add_library(harpe_${name} STATIC ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
    target_compile_options(harpe_${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
    target_precompile_headers(harpe_${name} PRIVATE ${ARGN})
  endif()
  target_link_libraries(harpe_${name} PRIVATE harpe_options)
  target_compile_features(harpe_${name} PRIVATE cxx_std_20)
endfunction()

# Compiles all files of a target with these precompiled headers.
function(harpe_use_precompiled_headers target name)
  if(HARPE_PRECOMPILED_${name})
    target_compile_options(${target} PRIVATE "SHELL:-include-pch ${HARPE_PRECOMPILED_${name}}")
    add_dependencies(${target} harpe_${name}_made)
  else()
    target_precompile_headers(${target} REUSE_FROM harpe_${name})
  endif()
endfunction()

if(HARPE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # The headers that most rooms include. They make all rooms position-independent. GCC inlines less in such code, so it
  # does not use precompiled headers here.
  find_package(nlohmann_json 3.11 REQUIRED)
  harpe_precompiled_headers(room_headers <algorithm> <array> <atomic> <chrono> <cmath> <filesystem> <fstream> <functional>
    <map> <memory> <mutex> <nlohmann/json.hpp> <optional> <random> <set> <span> <sstream> <string> <string_view> <thread>
    <tuple> <unordered_map> <utility> <variant> <vector>)
  target_link_libraries(harpe_room_headers PRIVATE nlohmann_json::nlohmann_json)
  set_target_properties(harpe_room_headers PROPERTIES POSITION_INDEPENDENT_CODE ON)
endif()

# The headers of GoogleTest and the standard library that all tests include.
if(HARPE_UNITY AND HARPE_BUILD_TESTS)
  find_package(GTest REQUIRED)
  harpe_precompiled_headers(test_headers <gmock/gmock.h> <gtest/gtest.h> <algorithm> <chrono> <filesystem> <fstream>
    <functional> <map> <memory> <optional> <random> <sstream> <string> <thread> <variant> <vector>)
  target_link_libraries(harpe_test_headers PRIVATE GTest::gmock)
  target_compile_options(harpe_test_headers PRIVATE ${HARPE_TEST_OPTIMIZATION})
  set_target_properties(harpe_test_headers PROPERTIES HARPE_TEST ON)
endif()

# For base/source_tree_testing.h. Only this file contains the path, so that clones can share the other compiled files.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/source_tree.cc CONTENT
  "namespace harpe {\nconst char* source_tree();\nconst char* source_tree() {\n  return \"${PROJECT_SOURCE_DIR}\";\n}\n}  // namespace harpe\n")
add_library(harpe_source_tree STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/source_tree.cc)
target_link_libraries(harpe_source_tree PRIVATE harpe_options)

# Adds the GoogleTest programs of a room: harpe_<room>_test, and harpe_<room>_thread_test for tests with threads, which
# the thread sanitizer also runs. CTest has one test per file, <room>/<file>, which runs all cases of that file in one
# process. The target harpe_<room>_tests includes all of them.
#   harpe_tests(ROOM base LIBRARIES harpe_base TESTS csv_test.cc ... [SLOW_TESTS ...] [THREAD_TESTS ...])
function(harpe_tests)
  cmake_parse_arguments(TESTS "" "ROOM" "LIBRARIES;TESTS;SLOW_TESTS;THREAD_TESTS" ${ARGN})
  if(NOT HARPE_BUILD_TESTS)
    return()
  endif()
  set(files)
  if(fast IN_LIST HARPE_TEST_LABELS)
    list(TRANSFORM TESTS_TESTS APPEND ":fast:600" OUTPUT_VARIABLE files)
  endif()
  if(slow IN_LIST HARPE_TEST_LABELS)
    list(TRANSFORM TESTS_SLOW_TESTS APPEND ":slow:2400")
    list(APPEND files ${TESTS_SLOW_TESTS})
  endif()
  if(files)
    harpe_test_program(harpe_${TESTS_ROOM}_test ${TESTS_ROOM} FILES ${files} LIBRARIES ${TESTS_LIBRARIES})
  endif()
  if(TESTS_THREAD_TESTS AND threads IN_LIST HARPE_TEST_LABELS)
    list(TRANSFORM TESTS_THREAD_TESTS APPEND ":threads:600")
    harpe_test_program(harpe_${TESTS_ROOM}_thread_test ${TESTS_ROOM} FILES ${TESTS_THREAD_TESTS} LIBRARIES ${TESTS_LIBRARIES})
    add_dependencies(harpe_thread_tests harpe_${TESTS_ROOM}_thread_test)
  endif()
endfunction()

# Adds one of these programs. FILES has FILE:LABEL:TIMEOUT for each source file.
function(harpe_test_program program room)
  cmake_parse_arguments(PROGRAM "" "" "FILES;LIBRARIES" ${ARGN})
  find_package(GTest REQUIRED)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  list(TRANSFORM PROGRAM_FILES REPLACE ":.*" "" OUTPUT_VARIABLE sources)
  # Lint also reads tests in groups, but product files one by one, so that it checks that each includes what it uses.
  if(HARPE_UNITY OR HARPE_LINT)
    harpe_unity_sources(sources ${program} ${sources})
  endif()
  add_executable(${program} ${sources})
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR})  # harpe_unity_sources uses these paths
  target_link_libraries(${program} PRIVATE ${PROGRAM_LIBRARIES} harpe_source_tree GTest::gmock GTest::gtest_main)
  set(sanitized 0)
  if(HARPE_SANITIZE)
    set(sanitized 1)
  endif()
  target_compile_definitions(${program} PRIVATE HARPE_UNDER_SANITIZERS=${sanitized})
  target_compile_options(${program} PRIVATE ${HARPE_TEST_OPTIMIZATION})
  set_target_properties(${program} PROPERTIES HARPE_TEST ON)
  if(HARPE_UNITY)
    harpe_use_precompiled_headers(${program} test_headers)
  endif()
  if(NOT TARGET harpe_${room}_tests)
    add_custom_target(harpe_${room}_tests)
  endif()
  add_dependencies(harpe_${room}_tests ${program})
  if(HARPE_LINT)
    return()  # lint only reads the files
  endif()
  # After it is built, the program itself lists the cases of each file.
  set(list ${CMAKE_CURRENT_BINARY_DIR}/${program}.cmake)
  add_custom_command(TARGET ${program} POST_BUILD VERBATIM
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/cmake/list_test_files.py $<TARGET_FILE:${program}> ${list}
            --prefix ${HARPE_TEST_PREFIX}${room}/ --results ${PROJECT_BINARY_DIR}/cases ${PROGRAM_FILES})
  set(included ${CMAKE_CURRENT_BINARY_DIR}/include_${program}.cmake)
  file(CONFIGURE OUTPUT ${included} @ONLY CONTENT
"if(EXISTS \"${list}\")
  include(\"${list}\")
else()
  add_test(${HARPE_TEST_PREFIX}${room}/${program}_NOT_BUILT ${program}_NOT_BUILT)
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${included})
endfunction()

# Sets VARIABLE to files that each include about eight of SOURCES, so that headers are read once for eight tests.
# CMake's own UNITY_BUILD has no way to make these files depend on the precompiled headers.
function(harpe_unity_sources variable program)
  list(LENGTH ARGN count)
  math(EXPR parts "(${count} + 7) / 8")
  set(made)
  foreach(part RANGE 1 ${parts})
    math(EXPR from "${count} * (${part} - 1) / ${parts}")
    math(EXPR size "${count} * ${part} / ${parts} - ${from}")
    list(SUBLIST ARGN ${from} ${size} sources)
    set(text)
    foreach(source ${sources})
      cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      string(APPEND text "#include \"${source}\"\n")
    endforeach()
    set(file ${CMAKE_CURRENT_BINARY_DIR}/${program}_${part}.cc)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text}")
    list(APPEND made ${file})
  endforeach()
  set(${variable} ${made} PARENT_SCOPE)
endfunction()

# Adds a library that replaces a vendor's library and gives scripted answers. It is loaded in the same way: a test or
# benchmark gets its path from the definition of the same name in capitals.
#   harpe_scripted_library(harpe_hw_test scripted_nvml nvml/scripted_nvml.cc [DEFINITION ...])
function(harpe_scripted_library user name source)
  if(NOT TARGET ${user})
    return()
  endif()
  if(NOT TARGET ${name})
    add_library(${name} MODULE ${source})
    # Without the sanitizers of this build, like the vendors' libraries.
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
  set_tests_properties(${HARPE_TEST_PREFIX}${room}/${fuzz} PROPERTIES LABELS fuzz TIMEOUT ${timeout}
                       RESOURCE_GROUPS cores:2)
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
  cmake_parse_arguments(ROOM "" "NAME" "SOURCES;ROOMS;TEST_ROOMS;TEST_SOURCES;LIBRARIES;TESTS;SLOW_TESTS;THREAD_TESTS;BENCHMARKS;FUZZ;LONG_FUZZ" ${ARGN})
  set(target harpe_${ROOM_NAME})
  set_property(GLOBAL APPEND PROPERTY HARPE_ROOM_TARGETS ${target})
  if(ROOM_SOURCES)
    add_library(${target} STATIC ${ROOM_SOURCES})
    set_target_properties(${target} PROPERTIES UNITY_BUILD ${HARPE_UNITY} UNITY_BUILD_BATCH_SIZE 16)
    if(TARGET harpe_room_headers)
      harpe_use_precompiled_headers(${target} room_headers)
      set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)  # as they are
    endif()
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
    set_target_properties(${target}_testing PROPERTIES HARPE_TEST ON)
    list(APPEND test_libraries ${target}_testing)
  endif()
  harpe_tests(ROOM ${ROOM_NAME} LIBRARIES ${target} ${test_libraries}
              TESTS ${ROOM_TESTS} SLOW_TESTS ${ROOM_SLOW_TESTS} THREAD_TESTS ${ROOM_THREAD_TESTS})

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
    math(EXPR HARPE_FUZZ_SECONDS "5 * ${HARPE_FUZZ_SECONDS}")
    foreach(source ${ROOM_LONG_FUZZ})
      harpe_fuzz_target(${ROOM_NAME} ${source} ${target} ${test_libraries})
    endforeach()
  endif()
endfunction()
