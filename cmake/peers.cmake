# Other libraries to measure against (`lockstep bench --against NAME`).
#
# bench/peer_NAME.c becomes the loadable module build/peers/lockstep-peer-NAME.so, where the library
# is installed; the command opens it at run time and does without it otherwise.  Installed, the
# modules are in lib/lockstep/peers; the command finds them from its own place, by LK_PEERS_BUILT
# next to it or by LK_PEERS_INSTALLED.
include(GNUInstallDirs)
set(LK_PEERS_FOLDER ${CMAKE_INSTALL_LIBDIR}/lockstep/peers)
file(RELATIVE_PATH LK_PEERS_INSTALLED /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${LK_PEERS_FOLDER})
target_compile_definitions(lockstep PRIVATE
  LK_PEERS_BUILT="peers" LK_PEERS_INSTALLED="${LK_PEERS_INSTALLED}")

# lk_peer(name header library) builds bench/peer_<name>.c if both are found.
function(lk_peer name header library)
  find_path(LK_PEER_${name}_INCLUDE ${header})
  find_library(LK_PEER_${name}_LIBRARY ${library})
  mark_as_advanced(LK_PEER_${name}_INCLUDE LK_PEER_${name}_LIBRARY)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/bench/peer_${name}.c)
  if(NOT EXISTS ${source} OR NOT LK_PEER_${name}_INCLUDE OR NOT LK_PEER_${name}_LIBRARY)
    return()
  endif()
  add_library(peer_${name} MODULE ${source})
  set_target_properties(peer_${name} PROPERTIES PREFIX "" OUTPUT_NAME lockstep-peer-${name}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/peers)
  target_include_directories(peer_${name} PRIVATE include bench)
  target_include_directories(peer_${name} SYSTEM PRIVATE ${LK_PEER_${name}_INCLUDE})
  target_link_libraries(peer_${name} PRIVATE ${LK_PEER_${name}_LIBRARY})
  add_dependencies(product peer_${name})
  install(TARGETS peer_${name} LIBRARY DESTINATION ${LK_PEERS_FOLDER})
endfunction()

# PyTorch and TensorFlow are asked through scripts, so there is nothing to build.
function(lk_peer_script source script)
  configure_file(${source} peers/${script} COPYONLY)
  install(FILES ${source} DESTINATION ${LK_PEERS_FOLDER} RENAME ${script})
endfunction()
lk_peer_script(bench/peer_torch.py lockstep-peer-torch.py)
lk_peer_script(bench/peer_torch_ops.py lockstep-peer-torch-ops.py)
lk_peer_script(bench/peer_torch_steps.py lockstep-peer-torch-steps.py)
lk_peer_script(bench/peer_torch_data.py lockstep-peer-torch-data.py)
lk_peer_script(bench/peer_tensorflow_data.py lockstep-peer-tensorflow-data.py)
lk_peer_script(bench/peer_torch_path.py lockstep_peer_torch_path.py) # which the others import

if(NOT CMAKE_CROSSCOMPILING AND NOT LK_SANITIZE)
  lk_peer(openblas openblas_config.h openblas)
  lk_peer(onednn dnnl.h dnnl)
endif()
