# cmake -DROOT=DIR -DOUTPUT=FILE -DSOURCES=NAME,... -P embed_sources.cmake: the texts of ROOT/NAME as a table in C++ (src/sycl/module/sources.h).
# Names under include/ are included without it.
string(REPLACE "," ";" SOURCES "${SOURCES}")
set(table "")
foreach(source IN LISTS SOURCES)
  file(READ ${ROOT}/${source} text)
  string(REGEX REPLACE "^(src|include)/" "" name ${source})
  string(APPEND table "    {\"${name}\", R\"~~~~(${text})~~~~\"},\n")
endforeach()
file(
  WRITE ${OUTPUT}
  "// Made by cmake/embed_sources.cmake.
#include \"sycl/module/sources.h\"

namespace recoverssm::sycl_backend {

std::span<const Source> sources() {
  static constexpr Source kSources[] = {
${table}  };
  return kSources;
}

}  // namespace recoverssm::sycl_backend
")
