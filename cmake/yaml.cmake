# libyaml, for experiment files and recipes.  Without it they are refused with a message; builds for another
# processor go without it.
option(LK_USE_YAML "use libyaml where it is installed" ON)
if(LK_USE_YAML AND NOT CMAKE_CROSSCOMPILING)
  find_path(LK_YAML_INCLUDE yaml.h)
  find_library(LK_YAML_LIBRARY yaml)
  mark_as_advanced(LK_YAML_INCLUDE LK_YAML_LIBRARY)
endif()
if(LK_USE_YAML AND LK_YAML_INCLUDE AND LK_YAML_LIBRARY)
  set_source_files_properties(src/config/recipe.c src/config/yaml.c src/config/yaml_events.c PROPERTIES
    COMPILE_DEFINITIONS LK_HAVE_YAML COMPILE_OPTIONS -isystem${LK_YAML_INCLUDE})
  # By name where the linker finds it, so that the installed package does not name a folder.
  get_filename_component(folder ${LK_YAML_LIBRARY} DIRECTORY)
  set(LK_YAML yaml)
  if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
    set(LK_YAML ${LK_YAML_LIBRARY})
  endif()
  set(LK_PC_YAML -lyaml)
else()
  message(STATUS "There is no libyaml: experiment files cannot be read")
endif()
