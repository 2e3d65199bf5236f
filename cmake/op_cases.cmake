# The op tests' cases, written by the NumPy reference at build time (reference/README.md).
#     ingot_op_cases(ops_test)
# makes the target depend on them and defines INGOT_OP_CASES, the folder, in it.
function(ingot_op_cases target)
  if(NOT TARGET op_cases)
    ingot_find_numpy()
    set(cases ${PROJECT_BINARY_DIR}/op_cases)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/reference/*.py)
    add_custom_command(
      OUTPUT ${cases}/stamp
      COMMAND ${INGOT_PYTHON} -B -m reference.make_cases ${cases}
      COMMAND ${CMAKE_COMMAND} -E touch ${cases}/stamp
      WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
      DEPENDS ${sources} ${PROJECT_SOURCE_DIR}/reference/codebooks.npz
      COMMENT "Writing the op tests' cases")
    add_custom_target(op_cases DEPENDS ${cases}/stamp)
  endif()
  add_dependencies(${target} op_cases)
  target_compile_definitions(${target} PRIVATE INGOT_OP_CASES="${PROJECT_BINARY_DIR}/op_cases")
endfunction()

# INGOT_PYTHON: a Python with NumPy; the one that ./check makes in .venv comes first.
function(ingot_find_numpy)
  foreach(python "${INGOT_PYTHON}" ${PROJECT_SOURCE_DIR}/.venv/bin/python python3 /usr/bin/python3)
    if(python)
      execute_process(COMMAND ${python} -c "import numpy" RESULT_VARIABLE failed
        OUTPUT_QUIET ERROR_QUIET)
      if(failed EQUAL 0)
        set(INGOT_PYTHON ${python} CACHE STRING "A Python with NumPy, for the tests' cases" FORCE)
        return()
      endif()
    endif()
  endforeach()
  message(FATAL_ERROR "The op tests need a Python with NumPy: run ./check once (it makes .venv), "
    "install python3-numpy, set INGOT_PYTHON, or configure with -DINGOT_TESTS=OFF")
endfunction()
