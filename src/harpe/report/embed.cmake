# Turns text files into string constants of one C++ source file.
#   cmake -DOUT=page_files.cc -DIN="page/page.html;page/page.css" -P embed.cmake
# page/page.css becomes harpe::report::kPageCss. Scripts are joined, in order, into kPageJs.
set(names)
foreach(file ${IN})
  get_filename_component(extension ${file} LAST_EXT)
  string(REGEX REPLACE "^\\.(.)(.*)$" "\\1;\\2" parts ${extension})
  list(GET parts 0 initial)
  list(GET parts 1 rest)
  string(TOUPPER ${initial} initial)
  set(name kPage${initial}${rest})
  list(APPEND names ${name})
  file(READ ${file} content)
  # A literal of at most 64 KiB is what compilers must take; one a file keeps below it.
  string(APPEND ${name} "    R\"harpe(${content})harpe\"\n")
endforeach()
list(REMOVE_DUPLICATES names)
set(source "#include \"harpe/report/page_files.h\"\n\nnamespace harpe::report {\n\n")
foreach(name ${names})
  string(APPEND source "const std::string_view ${name} =\n${${name}}    ;\n\n")
endforeach()
file(WRITE ${OUT} "${source}}  // namespace harpe::report\n")
