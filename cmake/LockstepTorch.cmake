# LibTorch as a target, for this tree and for installed copies.
# find_package(Torch) is not used: on a CUDA wheel it demands a CUDA toolkit.

# lockstep_torch_version(VARIABLE ROOT): the version of the LibTorch in ROOT.
function(lockstep_torch_version variable root)
  file(STRINGS "${root}/include/torch/headeronly/version.h" lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" numbers "${lines}")
  list(JOIN numbers "." version)
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

# lockstep_add_torch(TARGET ROOT): headers, libtorch_cpu and libc10 of the LibTorch in ROOT.
function(lockstep_add_torch target root)
  add_library(${target} INTERFACE IMPORTED)
  target_include_directories(${target} SYSTEM INTERFACE "${root}/include" "${root}/include/torch/csrc/api/include")
  target_link_libraries(${target} INTERFACE "${root}/lib/libtorch_cpu.so" "${root}/lib/libc10.so")
  # The CUDA wheel's libtorch_cpu needs two small NVIDIA libraries, unpacked beside it.
  file(GLOB nvidia_lib_dirs "${root}/../nvidia/*/lib")
  foreach(dir IN LISTS nvidia_lib_dirs)
    target_link_options(${target} INTERFACE "-Wl,-rpath-link,${dir}")
  endforeach()
endfunction()
