# cmake --install: the binary, the public headers and every room's static library.  A
# program outside says find_package(ingot) and links ingot::ingot (tests/package).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY INGOT_ROOMS)
add_library(ingot_library INTERFACE)
set_target_properties(ingot_library PROPERTIES EXPORT_NAME ingot)
target_link_libraries(ingot_library INTERFACE ${rooms})
add_library(ingot::ingot ALIAS ingot_library)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ingot)
install(TARGETS ingot_library ${rooms} EXPORT ingot ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT ingot NAMESPACE ingot:: FILE ingotTargets.cmake DESTINATION ${package_dir})
if(EXISTS ${PROJECT_SOURCE_DIR}/include/ingot)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ingot DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          FILES_MATCHING PATTERN "*.h")
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/ingotConfig.cmake.in
  ${PROJECT_BINARY_DIR}/ingotConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/ingotConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/ingotConfig.cmake ${PROJECT_BINARY_DIR}/ingotConfigVersion.cmake
              ${PROJECT_SOURCE_DIR}/cmake/packages.cmake
        DESTINATION ${package_dir})
if(TARGET ingot)
  install(TARGETS ingot RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
