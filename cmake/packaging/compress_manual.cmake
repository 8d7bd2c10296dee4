# Runs between staging and packaging: compresses the manual pages, as distributions want them.
file(GLOB_RECURSE pages ${CPACK_TEMPORARY_DIRECTORY}/*.[1-9])
list(FILTER pages INCLUDE REGEX "/share/man/man[1-9]/")
if(pages)
  execute_process(COMMAND gzip --best --no-name --force ${pages} RESULT_VARIABLE failed ERROR_VARIABLE why)
  if(failed)
    message(FATAL_ERROR "the manual pages cannot be compressed: ${why}")
  endif()
endif()
