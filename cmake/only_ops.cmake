# INGOT_ONLY_OPS: what base, tensor and ops need on a machine for which nothing but a
# cross compiler is installed.  fmt is used header-only and GoogleTest is built from its
# source package; the code that needs other libraries (base/hash.cc) is left out.
find_package(Threads REQUIRED)

# A folder with fmt alone: the host's /usr/include must stay out of a cross build.
find_path(INGOT_FMT_HEADERS fmt/format.h PATHS /usr/include NO_CMAKE_FIND_ROOT_PATH REQUIRED)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/include)
file(CREATE_LINK ${INGOT_FMT_HEADERS}/fmt ${PROJECT_BINARY_DIR}/include/fmt SYMBOLIC)
add_library(fmt::fmt INTERFACE IMPORTED)
target_include_directories(fmt::fmt SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/include)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)

if(INGOT_TESTS)
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL SYSTEM)
  foreach(target gtest gtest_main gmock gmock_main)
    target_compile_options(${target} PRIVATE -w)
  endforeach()
endif()
