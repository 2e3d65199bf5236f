# How a room, a test and a fuzz target are built.  Included once by CMakeLists.txt.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release, Debug, RelWithDebInfo" FORCE)
endif()

set(INGOT_SANITIZE "" CACHE STRING "Sanitizers for every target, as in -fsanitize=")
option(INGOT_TESTS "Build the tests" ON)
option(INGOT_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)
option(INGOT_WERROR "Treat warnings as errors" OFF)

find_program(INGOT_CCACHE ccache)
if(INGOT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${INGOT_CCACHE})
endif()

# Bits are part of the contract (design.md, the row contract): no fast-math, and a fused
# multiply-add only where the source says fma.
add_compile_options(-Wall -Wextra -Wpedantic -Wconversion -ffp-contract=off)
if(INGOT_WERROR)
  add_compile_options(-Werror)
endif()
if(INGOT_SANITIZE)
  add_compile_options(-fsanitize=${INGOT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${INGOT_SANITIZE})
endif()

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(CLI11 REQUIRED)
find_package(CURL REQUIRED)
find_package(OpenSSL REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)

if(INGOT_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()

# ingot_room(NAME LINK targets... SOURCES files...): the static library ingot_NAME.
function(ingot_room name)
  cmake_parse_arguments(ROOM "" "" "LINK;SOURCES" ${ARGN})
  add_library(ingot_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(ingot_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>)
  target_link_libraries(ingot_${name} PUBLIC ${ROOM_LINK})
  set_property(GLOBAL APPEND PROPERTY INGOT_ROOMS ingot_${name})
endfunction()

# ingot_test(ROOM LINK extra... SOURCES files... [LABEL long]): one executable ROOM_test,
# each of its cases a ctest.  Tests find their data under INGOT_SOURCE_DIR/tests/data.
function(ingot_test room)
  if(NOT INGOT_TESTS)
    return()
  endif()
  cmake_parse_arguments(TEST "" "LABEL" "LINK;SOURCES" ${ARGN})
  add_executable(${room}_test ${TEST_SOURCES})
  target_link_libraries(${room}_test PRIVATE ingot_${room} ${TEST_LINK} GTest::gmock GTest::gtest_main)
  target_compile_definitions(${room}_test PRIVATE INGOT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${room}_test DISCOVERY_TIMEOUT 60 PROPERTIES LABELS "${TEST_LABEL}" TIMEOUT 600)
endfunction()

# ingot_fuzzer(NAME LINK rooms... SOURCES file...): the libFuzzer target fuzz_NAME, with its
# seed corpus in tests/corpus/NAME.  tests/fuzz.sh runs them all.
function(ingot_fuzzer name)
  if(NOT INGOT_FUZZERS)
    return()
  endif()
  cmake_parse_arguments(FUZZ "" "" "LINK;SOURCES" ${ARGN})
  add_executable(fuzz_${name} ${FUZZ_SOURCES})
  target_link_libraries(fuzz_${name} PRIVATE ${FUZZ_LINK})
  target_compile_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endfunction()
