# Lets npm fetch the chart library into FOLDER, as library.js and licences.txt, and check it against
# package-lock.json. Without npm or a network both files are empty and one line says so: the command
# works without charts, so the build must not fail.
#
#   cmake -D SOURCE=here -D FOLDER=where -D NPM=program -P fetch_charts.cmake
set(reason "")
if(NPM STREQUAL "")
  set(reason "npm is not installed")
else()
  file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json DESTINATION ${FOLDER})
  execute_process(
    COMMAND ${NPM} ci --omit-lockfile-registry-resolved --ignore-scripts --prefer-offline --no-audit
            --no-fund --no-update-notifier --fetch-retries=1 --fetch-timeout=60000
    WORKING_DIRECTORY ${FOLDER} TIMEOUT 300
    RESULT_VARIABLE status OUTPUT_VARIABLE said ERROR_VARIABLE said)
  set(library ${FOLDER}/node_modules/echarts/dist/echarts.common.min.js)
  if(NOT status STREQUAL "0")
    string(REGEX MATCH "(ERR!|error) [^\n]*" line "${said}")
    set(reason "npm ci ended with ${status}: ${line}")
  elseif(NOT EXISTS ${library})
    set(reason "npm ci left no ${library}")
  endif()
endif()

if(reason STREQUAL "")
  file(READ ${FOLDER}/node_modules/echarts/NOTICE echarts)
  file(READ ${FOLDER}/node_modules/zrender/LICENSE zrender)
  file(WRITE ${FOLDER}/licences.txt "${echarts}\n\nzrender, which Apache ECharts contains:\n\n${zrender}")
  file(COPY_FILE ${library} ${FOLDER}/library.js)
else()
  file(WRITE ${FOLDER}/licences.txt "")
  file(WRITE ${FOLDER}/library.js "")
  message("rdmalloc: reports of studies will have no charts (${reason}); configure again to retry")
endif()
